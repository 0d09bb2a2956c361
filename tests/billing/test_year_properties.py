"""A random year of two organizations: usage metered, late and from files that are taken back again, tiers and discounts in two
currencies, money in advance, notes, months below zero. Every line, credit and open amount is what the oracle says.

The deep tier closes twelve months of each year, the fast one the first two.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.files import Refused, files_import, import_take_back
from billing.models import BillingAccount, Discount, Invoice, InvoiceLine, RateCard
from billing.money import amount_of
from billing.months import month_span
from billing.selectors.balances import balance_of, credits_left, documents_due, prepaid_left
from billing.services.notes import note_issue
from billing.services.payments import payment_record
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict
from gpuaas.metering.imports import Overlap
from gpuaas.metering.models import UsageImport
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.oracle import Books, Lowered, Terms, Used, lines_by_terms
from tests.billing.stage import interval_make, rate_make, workspace_make
from tests.billing.test_import import file_of, row
from tests.examples import MANY
from tests.factories.tenants import ProjectFactory

MONTHS = [date(2025 + number // 12, number % 12 + 1, 1) for number in range(9, 21)]  # October to September
ENDS = [month_span(month).ends_at for month in MONTHS]
START = month_span(MONTHS[0]).starts_at
PLACES = {"EUR": 2, "JPY": 0}  # decimal places
BEFORE_S = 300  # usage lies around the ends of months, so that it is cut, and counted by seconds in no time

# 0 most often: the month that is about to be closed, or a late one
months_ago = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 11])
places = st.tuples(st.integers(0, 3), st.integers(0, 1))  # workspace, flavor
used = st.tuples(
    places, months_ago, st.integers(-BEFORE_S, BEFORE_S - 1), st.integers(1, 400), st.integers(1, 90)
)
files = st.lists(used, min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("meter"), used),
        st.tuples(st.just("bring"), files, st.booleans(), st.booleans()),
        st.tuples(st.just("bring_again"), st.integers(0, 20), st.booleans(), st.booleans()),
        st.tuples(st.just("take_back"), st.integers(0, 20)),
        st.tuples(st.just("pay"), st.integers(0, 1), st.integers(1, 3000)),
        st.tuples(
            st.just("note"),
            st.integers(0, 1),
            st.integers(0, 20),
            st.integers(0, 20),
            st.integers(1, 1000),
            st.booleans(),
        ),
    ),
    max_size=5,
)
tiers = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 9_999_999)), min_size=1, max_size=2, unique_by=lambda t: t[0]
).map(sorted)
terms = st.tuples(
    st.integers(0, 9_999_999),
    st.sampled_from(["", "graduated", "volume", "volume"]),
    tiers,
    st.sampled_from([(1, 0), (60, 90)]),
)
# of each currency and flavor: terms, those that follow, and around the end of which month they do
prices = st.tuples(terms, terms, st.integers(0, 11), st.integers(-BEFORE_S, BEFORE_S - 1))
discounts = st.tuples(st.integers(0, 11), st.integers(-BEFORE_S, BEFORE_S - 1), st.integers(1, 10_000))


def years(months: int) -> st.SearchStrategy[Any]:
    """What happens before each close, the first usage, prices by payer and flavor, discounts and taxes by payer."""
    taxes = st.integers(0, 3000)
    return st.tuples(
        st.lists(steps, min_size=months, max_size=months),
        used,
        st.lists(prices, min_size=4, max_size=4),
        st.tuples(discounts, discounts),
        st.tuples(taxes, taxes),
    )


@dataclass
class Row:
    """A row of usage.csv or an interval that the portal metered."""

    name: str
    place: tuple[int, int]
    used: Used

    def meets(self, other: "Row") -> bool:
        apart = self.used.start >= other.used.end or other.used.start >= self.used.end
        return self.place == other.place and not apart


@dataclass
class Batch:
    made: UsageImport
    rows: list[Row]
    closed: int  # months that were closed when it came


@dataclass
class Payer:
    organization: Organization
    currency: str
    projects: list[Project]
    books: Books
    prices: list[list[Terms]] = field(default_factory=list)  # by flavor
    lowered: list[Lowered] = field(default_factory=list)
    posted: Counter[tuple[Any, ...]] = field(default_factory=Counter)  # units and amounts so far, by line


class Year:
    """What was done to the portal, and what the oracle makes of it."""

    def __init__(
        self,
        actor: Actor,
        folder: Path,
        payers: list[Payer],
        workspaces: list[Workspace],
        flavors: list[Flavor],
    ) -> None:
        self.actor, self.folder = actor, folder
        self.payers, self.workspaces, self.flavors = payers, workspaces, flavors
        self.metered: list[Row] = []
        self.batches: list[Batch] = []  # those that stand
        self.files: list[list[Row]] = []
        self.counted: dict[tuple[Any, ...], Any] = {}
        self.closed = 0
        self.now = ENDS[0]

    @property
    def usage(self) -> list[Row]:
        return [*self.metered, *(row for batch in self.batches for row in batch.rows)]

    def sell(self, payer: Payer, drawn: list[Any], lowered: Any) -> None:
        card = RateCard.objects.create(currency=payer.currency, slug=payer.currency.lower(), name="Standard")
        for flavor, (first, then, month, second) in zip(self.flavors, drawn, strict=True):
            change = ENDS[month] + timedelta(seconds=second)
            scale = 1 if payer.currency == "EUR" else 100
            known = []
            for (micro, mode, steps, (increment, least)), start, end in (
                (first, START, change),
                (then, change, None),
            ):
                bounds = [(hours, price * scale) for hours, price in steps] if mode else []
                more = {"tier_mode": mode, "increment_seconds": increment, "minimum_seconds": least}
                rate_make(card, flavor, micro * scale, start, end, tiers=bounds, **more)
                known.append(Terms(start, end, micro * scale, mode, bounds, increment, least))
            payer.prices.append(known)
        month, second, points = lowered
        row = Lowered(
            ENDS[month] + timedelta(seconds=second), ENDS[month] + timedelta(seconds=second + 200), points
        )
        payer.lowered.append(row)
        made = Discount(organization=payer.organization, basis_points=points, created_by="olga")
        made.valid_from, made.valid_to = row.start, row.end
        made.save()

    def row(self, drawn: Any, name: str) -> Row:
        place, ago, second, lasts, quantity = drawn
        start = ENDS[max(self.closed - ago, 0)] + timedelta(seconds=second)
        return Row(name, place, Used(start, start + timedelta(seconds=lasts), quantity))

    def meter(self, drawn: Any) -> None:
        row = self.row(drawn, "")
        workspace, flavor = row.place
        interval_make(
            self.workspaces[workspace],
            self.flavors[flavor],
            row.used.start,
            row.used.end,
            quantity=row.used.quantity,
        )
        self.metered.append(row)

    def bring(self, drawn: list[Any], overlaps: bool, reopen: bool) -> None:
        name = len(self.files)
        rows = [self.row(one, f"f{name}-{number}") for number, one in enumerate(drawn)]
        self.files.append(rows)
        self.bring_rows(rows, overlaps, reopen)

    def bring_again(self, which: int, overlaps: bool, reopen: bool) -> None:
        if self.files:
            self.bring_rows(self.files[which % len(self.files)], overlaps, reopen)

    def bring_rows(self, rows: list[Row], overlaps: bool, reopen: bool) -> None:
        known = any(batch.rows is rows for batch in self.batches)
        floor = START if not self.closed else month_span(MONTHS[self.closed - 1]).starts_at
        early = any(row.used.start < floor for row in rows)
        beside = [row for row in self.usage if row not in rows]
        twice = any(row.meets(other) for row in rows for other in [*beside, *rows] if other is not row)
        asked: dict[str, Any] = {"actor": self.actor, "usage": self.file(rows), "reopen": reopen}
        asked["overlaps"] = list(Overlap) if overlaps else ()
        if not known and (early > reopen or twice > overlaps):
            with pytest.raises(Refused):
                files_import(**asked)
            return
        done = files_import(**asked)
        assert done.written == (0 if known else len(rows))
        if done.batch is not None:
            self.batches.append(Batch(done.batch, rows, self.closed))

    def file(self, rows: list[Row]) -> Path:
        told = []
        for each in rows:
            workspace, flavor = self.workspaces[each.place[0]], self.flavors[each.place[1]]
            cells = {"project": workspace.project.slug, "workspace": workspace.name, "flavor": flavor.slug}
            times = {
                "start": f"{each.used.start:%Y-%m-%dT%H:%M:%SZ}",
                "end": f"{each.used.end:%Y-%m-%dT%H:%M:%SZ}",
            }
            told.append(row(each.name, quantity=str(each.used.quantity), **cells, **times))
        return file_of(self.folder, *told)

    def take_back(self, which: int) -> None:
        """Refused from the close on that charged some of it."""
        if not self.batches:
            return
        batch = self.batches[which % len(self.batches)]
        begins = min(row.used.start for row in batch.rows)
        if self.closed > batch.closed and begins < ENDS[self.closed - 1]:
            with pytest.raises(Conflict):
                import_take_back(actor=self.actor, batch=batch.made)
        else:
            import_take_back(actor=self.actor, batch=batch.made)
            self.batches.remove(batch)

    def pay(self, who: int, minor: int) -> None:
        payer = self.payers[who]
        amount = amount_of(minor, payer.currency)
        payment_record(actor=self.actor, organization=payer.organization, amount=amount)
        payer.books.pay(minor)

    def note(self, who: int, which: int, line: int, part: int, credit: bool) -> None:
        """A credit note over a part of what is left of a line, or a debit note over as much."""
        payer = self.payers[who]
        found = [
            (document, key)
            for document in payer.books.documents
            for key, left in document.left.items()
            if left > 0
        ]
        if not found:
            return
        document, key = found[(which * 20 + line) % len(found)]
        minor = -(-document.left[key] * part // 1000)
        project, flavor, month, price = key
        position = InvoiceLine.objects.values_list("position", flat=True).get(
            invoice__number=document.number,
            project=payer.projects[project],
            flavor=self.flavors[flavor],
            charge_month=month,
            unit_price_micro=price,
        )
        made = note_issue(
            actor=self.actor,
            invoice=Invoice.objects.get(number=document.number),
            kind=InvoiceKind.CREDIT_NOTE if credit else InvoiceKind.DEBIT_NOTE,
            amounts={position: amount_of(minor, payer.currency)},
            reason="agreed",
        )
        assert made.total_minor == payer.books.note(document, made.number, key, -minor if credit else minor)

    def close(self) -> None:
        month = MONTHS[self.closed]
        month_close(self.actor, month, now=self.now)
        for payer in self.payers:
            lines = {key: found for key, found in self.due(payer) if any(found)}
            for key, found in lines.items():
                payer.posted[*key, "units"] += found[0]
                payer.posted[*key, "minor"] += found[1]
            made = Invoice.objects.filter(organization=payer.organization, month=month, corrects=None).first()
            assert (made is None) == (not lines)
            if made is not None:
                document = payer.books.issue(made.number, {key: minor for key, (_, minor) in lines.items()})
                assert self.written(payer, made) == lines
                assert (made.subtotal_minor, made.total_minor) == (document.subtotal, document.total)
                assert made.kind == ("credit_note" if document.total < 0 else "invoice")
        self.closed += 1

    def due(self, payer: Payer) -> Iterator[tuple[tuple[Any, ...], tuple[int, int]]]:
        """By line: what the months so far are worth now, less what documents have charged of them."""
        for month, end in zip(MONTHS[: self.closed + 1], ENDS, strict=False):
            start = month_span(month).starts_at
            for project, _ in enumerate(payer.projects):
                for flavor, rates in enumerate(payer.prices):
                    worth = self.worth(payer, project, flavor, rates, start, end)
                    posted = {key[3] for key in payer.posted if key[:3] == (project, flavor, month)}
                    for price in sorted({*worth, *posted}):
                        key = (project, flavor, month, price)
                        units, minor = worth.get(price, (0, 0))
                        yield key, (units - payer.posted[*key, "units"], minor - payer.posted[*key, "minor"])

    def worth(
        self, payer: Payer, project: int, flavor: int, rates: list[Terms], start: datetime, end: datetime
    ) -> dict[int, tuple[int, int]]:
        own = {
            number
            for number, workspace in enumerate(self.workspaces)
            if workspace.project == payer.projects[project]
        }
        usage = tuple(row.used for row in self.usage if row.place[0] in own and row.place[1] == flavor)
        asked = (payer.currency, flavor, start, usage)
        if asked not in self.counted:
            places = PLACES[payer.currency]
            self.counted[asked] = lines_by_terms(usage, rates, payer.lowered, start, end, places)
        found: dict[int, tuple[int, int]] = self.counted[asked]
        return found

    def written(self, payer: Payer, made: Invoice) -> dict[tuple[Any, ...], tuple[int, int]]:
        return {
            (
                payer.projects.index(line.project),
                next(number for number, flavor in enumerate(self.flavors) if flavor == line.flavor),
                line.charge_month,
                line.unit_price_micro,
            ): (line.unit_seconds, line.amount_minor or 0)
            for line in made.lines.select_related("project", "flavor")
        }

    def agree(self) -> None:
        """Open amounts, credits and money, by document and in the balance."""
        for payer in self.payers:
            pk, books = payer.organization.pk, payer.books
            due = {row.number: minor for row, minor in documents_due(organizations=[pk])}
            assert due == {row.number: row.open for row in books.documents if row.open}
            left = {row.number: row.left for row in credits_left(organizations=[pk])}
            assert left == {name: minor for name, minor in books.credits.items() if minor}
            assert prepaid_left(organizations=[pk]).get((pk, payer.currency), 0) == books.money
            said = balance_of(actor=self.actor, organization=payer.organization, currency=payer.currency)
            found = (said.owed, said.credit, said.prepaid)
            wanted = (sum(due.values()), sum(left.values()), books.money)
            assert found == tuple(amount_of(minor, payer.currency) for minor in wanted)


@given(data=st.data())
@settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_year_is_what_the_oracle_says(
    examples: int,
    project: Project,
    other_project: Project,
    h100: Flavor,
    l40s: Flavor,
    alice: User,
    as_olga: Actor,
    tmp_path: Path,
    data: st.DataObject,
) -> None:
    months = 12 if examples == MANY else 2
    year, first, drawn, lowered, taxes = data.draw(years(months))
    with transaction.atomic():
        own, others = project.organization, other_project.organization
        second = ProjectFactory.create(organization=own, slug="second")
        payers = [
            Payer(own, "EUR", [project, second], Books(taxes[0])),
            Payer(others, "JPY", [other_project], Books(taxes[1])),
        ]
        workspaces = [
            workspace_make(each, h100, alice, name=f"train-{number}")
            for number, each in enumerate((project, project, second, other_project))
        ]
        stage = Year(as_olga, tmp_path, payers, workspaces, [h100, l40s])
        for payer, basis_points, prices, less in zip(
            payers, taxes, (drawn[:2], drawn[2:]), lowered, strict=True
        ):
            BillingAccount.objects.create(
                organization=payer.organization,
                currency=payer.currency,
                tax_rate_bp=basis_points,
                tax_label="VAT",
            )
            stage.sell(payer, prices, less)
        place, _, at, lasts, quantity = first
        stage.meter((place, 0, min(at, -1), lasts, quantity))  # months are closed from the first usage on
        for number, todo in enumerate(year):
            stage.now = ENDS[number] + timedelta(days=3)
            with time_machine.travel(stage.now - timedelta(hours=1), tick=False) as clock:
                for what, *given in todo:
                    clock.shift(timedelta(minutes=1))
                    getattr(stage, what)(*given)
                stage.agree()
            stage.close()
            stage.agree()
        transaction.set_rollback(True)

"""A year of two organizations as it is done to the portal, and what the oracle makes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from billing.files import Refused, files_import, import_take_back
from billing.models import BillingAccount, Discount, Invoice, InvoiceLine, RateCard
from billing.money import amount_of
from billing.months import month_span
from billing.selectors.balances import balance_of, credits_left, documents_due, prepaid_left
from billing.services.notes import note_issue
from billing.services.payments import payment_record
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.imports import Overlap
from gpuaas.metering.models import UsageImport
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.oracle import Books, Lowered, Terms, Used, lines_by_terms
from tests.billing.stage import interval_make, rate_make, workspace_make
from tests.billing.test_import import file_of, row

MONTHS = [date(2025 + number // 12, number % 12 + 1, 1) for number in range(9, 21)]  # October to September
ENDS = [month_span(month).ends_at for month in MONTHS]
START = month_span(MONTHS[0]).starts_at
PLACES = {"EUR": 2, "JPY": 0}  # decimal places


Key = tuple[date, tuple[int, int, int]]  # of a line: month of its usage; project, flavor, price


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
    posted: dict[Key, tuple[int, int]] = field(default_factory=dict)  # units and amounts so far


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

    def live(self, todo: list[Any]) -> None:
        """All of a month, which is closed three days after its end."""
        self.now = ENDS[self.closed] + timedelta(days=3)
        with time_machine.travel(self.now - timedelta(hours=1), tick=False) as clock:
            for what, *given in todo:
                clock.shift(timedelta(minutes=1))
                getattr(self, what)(*given)
            self.agree()
        self.close()
        self.agree(balances=True)

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
        month, (project, flavor, price) = key
        position = InvoiceLine.objects.values_list("position", flat=True).get(
            invoice__number=document.number,
            project=payer.projects[project],
            flavor=self.flavors[flavor],
            charge_month=month,
            unit_price_micro=price,
        )
        given: dict[str, Any] = {"actor": self.actor, "reason": "agreed"}
        given["invoice"] = Invoice.objects.get(number=document.number)
        given["kind"] = InvoiceKind.CREDIT_NOTE if credit else InvoiceKind.DEBIT_NOTE
        if credit:
            more = amount_of(document.left[key] + 1, payer.currency)
            with pytest.raises(Invalid, match="cannot be corrected"):
                note_issue(**given, amounts={position: more})
        made = note_issue(**given, amounts={position: amount_of(minor, payer.currency)})
        assert made.total_minor == payer.books.note(document, made.number, key, -minor if credit else minor)

    def close(self) -> None:
        month = MONTHS[self.closed]
        month_close(self.actor, month, now=self.now)
        for payer in self.payers:
            lines = {key: found for key, found in self.due(payer) if any(found)}
            for key, found in lines.items():
                before = payer.posted.get(key, (0, 0))
                payer.posted[key] = before[0] + found[0], before[1] + found[1]
            made = Invoice.objects.filter(organization=payer.organization, month=month, corrects=None).first()
            assert (made is None) == (not lines)
            if made is not None:
                charged = {key: minor for key, (_, minor) in lines.items()}
                document = payer.books.issue(made.number, month, charged)
                assert self.written(payer, made) == lines
                assert (made.subtotal_minor, made.total_minor) == (document.subtotal, document.total)
                assert made.kind == ("credit_note" if document.total < 0 else "invoice")
        self.closed += 1

    def due(self, payer: Payer) -> Iterator[tuple[Key, tuple[int, int]]]:
        """By line: what the months so far are worth now, less what documents have charged of them."""
        for month, end in zip(MONTHS[: self.closed + 1], ENDS, strict=False):
            start = month_span(month).starts_at
            for project, _ in enumerate(payer.projects):
                for flavor, rates in enumerate(payer.prices):
                    worth = self.worth(payer, project, flavor, rates, start, end)
                    charged = {
                        what[2] for at, what in payer.posted if (at, *what[:2]) == (month, project, flavor)
                    }
                    for price in sorted({*worth, *charged}):
                        key = (month, (project, flavor, price))
                        units, minor = worth.get(price, (0, 0))
                        before = payer.posted.get(key, (0, 0))
                        yield key, (units - before[0], minor - before[1])

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

    def written(self, payer: Payer, made: Invoice) -> dict[Any, tuple[int, int]]:
        flavors = {flavor.pk: number for number, flavor in enumerate(self.flavors)}
        rows = made.lines.values_list(
            "charge_month", "project", "flavor", "unit_price_micro", "unit_seconds", "amount_minor"
        )
        projects = {project.pk: number for number, project in enumerate(payer.projects)}
        return {
            (month, (projects[project], flavors[flavor], price)): (units, minor or 0)
            for month, project, flavor, price, units, minor in rows
        }

    def agree(self, *, balances: bool = False) -> None:
        """Open amounts, credits and money, by document and in the balance."""
        for payer in self.payers:
            pk, books = payer.organization.pk, payer.books
            due = {row.number: minor for row, minor in documents_due(organizations=[pk])}
            assert due == {row.number: row.open for row in books.documents if row.open}
            left = {row.number: row.left for row in credits_left(organizations=[pk])}
            assert left == {name: minor for name, minor in books.credits.items() if minor}
            assert prepaid_left(organizations=[pk]).get((pk, payer.currency), 0) == books.money
            if not balances:
                continue
            said = balance_of(actor=self.actor, organization=payer.organization, currency=payer.currency)
            found = (said.owed, said.credit, said.prepaid)
            wanted = (sum(due.values()), sum(left.values()), books.money)
            assert found == tuple(amount_of(minor, payer.currency) for minor in wanted)


def year_make(
    actor: Actor, folder: Path, projects: Sequence[Project], flavors: list[Flavor], user: User, drawn: Any
) -> Year:
    """Two workspaces in the first project and one in each of the others, the last of which is the other organization's.
    drawn: the first usage, prices, discounts and taxes."""
    first, prices, lowered, taxes = drawn
    own, others = projects[0].organization, projects[-1].organization
    payers = [
        Payer(own, "EUR", list(projects[:-1]), Books(taxes[0])),
        Payer(others, "JPY", [projects[-1]], Books(taxes[1])),
    ]
    workspaces = [
        workspace_make(each, flavors[0], user, name=f"train-{number}")
        for number, each in enumerate((projects[0], *projects))
    ]
    made = Year(actor, folder, payers, workspaces, flavors)
    for payer, basis_points, own_prices, less in zip(
        payers, taxes, (prices[:2], prices[2:]), lowered, strict=True
    ):
        account = BillingAccount(organization=payer.organization, currency=payer.currency)
        account.tax_rate_bp, account.tax_label = basis_points, "VAT"
        account.save()
        made.sell(payer, own_prices, less)
    place, _, at, lasts, quantity = first
    made.meter((place, 0, min(at, -1), lasts, quantity))  # months are closed from the first usage on
    return made

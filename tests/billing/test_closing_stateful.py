"""Closing under whatever happens to it: usage late and corrected, prices announced, grants, silent meters, kills, in any order.

After every step what is closed is as it was and the books balance; after every close the invoices of that month and of all
closed before it, with their corrections, are what a biller that counts second by second makes of all usage there is.
"""

from collections import Counter
from contextlib import suppress
from datetime import date, timedelta
from typing import Any, ClassVar

import time_machine
from django.db import OperationalError, connection, transaction
from django.db.models import F, Sum
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from billing import issuing
from billing.models import (
    Grant,
    Invoice,
    InvoiceLine,
    InvoiceSeries,
    InvoiceShare,
    LedgerEntry,
    LedgerPosting,
    MonthClose,
    Rate,
)
from billing.months import month_span
from billing.selectors.balances import credits_left, documents_due, payable_left, payouts_for, prepaid_left
from billing.selectors.checklist import month_due
from billing.selectors.documents import invoice_verify
from billing.services import rate_set
from billing.services.closing import month_close_request, month_close_run
from billing.services.notes import lines_left, note_issue
from billing.services.payments import grant_give, payment_record, payout_record
from billing.services.reversals import grant_reverse, payment_reverse, payout_reverse
from billing.states import Account, CloseState, EntryKind, InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import deadly, meters_prove
from tests.billing.oracle import Priced, Used, lines
from tests.billing.stage import interval_make, workspace_make

# what is used lies around the ends of these, so that it is cut, and counted by seconds in no time
ENDS = [month_span(month).ends_at for month in (date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1))]
BEFORE_S, LASTS_S = 300, 400
words = st.sampled_from(["", "on my word", "on my word"])
begins = st.tuples(st.integers(0, 2), st.integers(-BEFORE_S, BEFORE_S - 1))
usage = st.tuples(begins, st.integers(1, LASTS_S), st.integers(1, 50), st.integers(0, 2))
kills = st.none() | st.integers(1, 80)


class Closing(RuleBasedStateMachine):
    """One example in a transaction that is never committed."""

    workspaces: ClassVar[list[Workspace]]
    flavor: ClassVar[Flavor]
    operator: ClassVar[Actor]

    def __init__(self) -> None:
        super().__init__()
        self.all = transaction.atomic()
        self.all.__enter__()
        self.now = ENDS[0] + timedelta(days=1)
        self.hashes: dict[str, str] = {}
        self.received: Counter[Any] = Counter()
        self.closes = 0

    def teardown(self) -> None:
        """What was late or corrected last is on the next invoices too."""
        try:
            self.a_month_is_closed("at last", 0, None)
        finally:
            self._forgotten()

    def _forgotten(self) -> None:
        transaction.set_rollback(True)
        self.all.__exit__(None, None, None)

    @initialize(
        told=st.lists(usage, min_size=1, max_size=4),
        micro=st.integers(0, 9_999_999),
        cents=st.integers(1, 500),
        kill=kills,
    )
    def october_is_closed(self, told: list[Any], micro: int, cents: int, kill: int | None) -> None:
        self.a_price_is_announced(micro, (0, -BEFORE_S + micro % BEFORE_S))
        for one in told:
            self.usage_is_told(*one)
        self.a_grant_is_given(cents, 60, 0)
        self.a_month_is_closed("on my word", 0, kill)

    @rule(start=begins, lasts=st.integers(1, LASTS_S), quantity=st.integers(1, 50), who=st.integers(0, 2))
    def usage_is_told(self, start: tuple[int, int], lasts: int, quantity: int, who: int) -> None:
        at = ENDS[start[0]] + timedelta(seconds=start[1])
        interval_make(self.workspaces[who], self.flavor, at, at + timedelta(seconds=lasts), quantity=quantity)

    @precondition(lambda self: UsageInterval.objects.exists())
    @rule(which=st.integers(0, 50), lasts=st.integers(0, LASTS_S))
    def usage_is_corrected(self, which: int, lasts: int) -> None:
        """To another end; to none at all where nothing is left."""
        rows = UsageInterval.objects.order_by("started_at", "quantity", "ended_at", "workspace__name")
        row = rows[which % rows.count()]
        if lasts:
            UsageInterval.objects.filter(pk=row.pk).update(ended_at=row.started_at + timedelta(seconds=lasts))
        else:
            row.delete()

    @rule(micro=st.integers(0, 9_999_999), start=begins)
    def a_price_is_announced(self, micro: int, start: tuple[int, int]) -> None:
        """Refused where it would change what usage was rated by."""
        price = f"{micro // 1_000_000}.{micro % 1_000_000:06}"
        at = ENDS[start[0]] + timedelta(seconds=start[1])
        with time_machine.travel(self.now, tick=False):
            try:
                rate_set(
                    actor=self.operator, flavor=self.flavor, meter=Meter.GPU_HELD, price=price, valid_from=at
                )
            except Invalid as error:
                assert set(error.fields) == {"valid_from"}  # noqa: PT017  both ways are right

    @rule(cents=st.integers(1, 500), days=st.integers(1, 90), who=st.integers(0, 2))
    def a_grant_is_given(self, cents: int, days: int, who: int) -> None:
        with time_machine.travel(self.now, tick=False):
            grant_give(
                actor=self.operator,
                organization=self.workspaces[who].project.organization,
                amount=f"{cents / 100:.2f}",
                expires_at=self.now + timedelta(days=days),
            )

    @rule(which=st.integers(0, 20))
    def a_grant_is_taken_back(self, which: int) -> None:
        """Refused where nothing of it is left to take."""
        given = list(LedgerEntry.objects.filter(kind="grant", reversal=None).order_by("pk"))
        with time_machine.travel(self.now, tick=False), suppress(Conflict):
            for entry in given[which : which + 1]:
                grant_reverse(actor=self.operator, entry=entry, reason="wrong")

    @rule(cents=st.integers(1, 500), who=st.integers(0, 2))
    def money_comes_in(self, cents: int, who: int) -> None:
        with time_machine.travel(self.now, tick=False):
            organization = self.workspaces[who].project.organization
            payment_record(actor=self.operator, organization=organization, amount=f"{cents / 100:.2f}")
        self.received[organization.pk] += cents

    @rule(part=st.integers(1, 1000), who=st.integers(0, 2))
    def money_is_paid_out(self, part: int, who: int) -> None:
        """Some of what can be paid out; one cent more is refused."""
        organization = self.workspaces[who].project.organization
        given: dict[str, Any] = {"actor": self.operator, "organization": organization}
        with time_machine.travel(self.now, tick=False):
            payable = payable_left(organization=organization, currency="EUR")
            try:
                payout_record(**given, amount=f"{(payable + 1) / 100:.2f}")
            except Invalid as error:
                assert set(error.fields) == {"amount"}  # noqa: PT017  it must be raised: see else
            else:
                raise AssertionError("more was paid out than there is")
            cents = payable * part // 1000
            if cents:
                payout_record(**given, amount=f"{cents / 100:.2f}")
        self.received[organization.pk] -= cents

    @rule(which=st.integers(0, 20), who=st.integers(0, 2), out=st.booleans())
    def a_payment_or_payout_is_reversed(self, which: int, who: int, out: bool) -> None:
        organization = self.workspaces[who].project.organization
        kind = EntryKind.PAYOUT if out else EntryKind.PREPAID
        rows = LedgerEntry.objects.filter(organization=organization, kind=kind, reversal=None).order_by("pk")
        if not (number := rows.count()):
            return
        entry = rows[which % number]
        reverse = payout_reverse if out else payment_reverse
        with time_machine.travel(self.now, tick=False):
            try:
                reverse(actor=self.operator, entry=entry, reason="wrong")
            except Conflict as error:
                assert "has been paid out" in error.message  # noqa: PT017  both ways are right
                assert not out
                assert payouts_for(actor=self.operator, organization=organization).exists()
                return
        cents = int(entry.amount * 100)
        self.received[organization.pk] += cents if out else -cents

    @precondition(lambda self: Invoice.objects.exists())
    @rule(which=st.integers(0, 20), line=st.integers(0, 20), part=st.integers(1, 1000), credit=st.booleans())
    def a_month_is_corrected(self, which: int, line: int, part: int, credit: bool) -> None:
        """By a credit or a debit note over a part of what is left of a line."""
        rows = Invoice.objects.filter(corrects=None).order_by("number")
        invoice = rows[which % rows.count()]
        left = {at: cents for at, cents in lines_left(invoice=invoice).items() if cents > 0}
        if not left:
            return
        at = sorted(left)[line % len(left)]
        amount = f"{-(-left[at] * part // 1000) / 100:.2f}"
        kind = InvoiceKind.CREDIT_NOTE if credit else InvoiceKind.DEBIT_NOTE
        with time_machine.travel(self.now, tick=False):
            note_issue(actor=self.operator, invoice=invoice, kind=kind, amounts={at: amount}, reason="agreed")

    @rule(days=st.integers(1, 30))
    def time_passes(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule(hours=st.integers(-48, 48))
    def meters_have_reported(self, hours: int) -> None:
        """To some time around the end of the month that is due: one that was reached may be reopened."""
        meters_prove(month_span(month_due(now=self.now)).ends_at + timedelta(hours=hours))

    @rule(word=words)
    def a_close_is_tried(self, word: str) -> None:
        """Whatever the time, and whatever the meters have said."""
        if self._asked(word):
            self._done(month_close_run(month=self._asked_month(), now=self.now))

    @rule(word=words, silent=st.integers(-2, 2), statement=kills)
    def a_month_is_closed(self, word: str, silent: int, statement: int | None) -> None:
        """When it is time, with meters that have reported so many hours beyond its end, or fewer. The first worker is killed
        before that statement: nothing of its work is left, and the next one does all of it."""
        end = month_span(month_due(now=self.now)).ends_at
        self.now = max(self.now, end + timedelta(hours=49))
        meters_prove(end + timedelta(hours=silent))
        if not self._asked(word):
            return
        before, month = self._written(), self._asked_month()
        try:
            with connection.execute_wrapper(deadly(statement or 0)):
                row = month_close_run(month=month, now=self.now)
        except OperationalError:
            assert self._written() == before
            row = month_close_run(month=month, now=self.now)
        self._done(row)

    def _asked(self, word: str) -> bool:
        month = month_due(now=self.now)
        try:
            month_close_request(actor=self.operator, month=month, accept=word, now=self.now)
        except Invalid:
            assert not MonthClose.objects.filter(state=CloseState.REQUESTED).exists()
            return False
        return True

    def _asked_month(self) -> date:
        return MonthClose.objects.get(state=CloseState.REQUESTED).month

    def _done(self, row: MonthClose) -> None:
        connection.check_constraints()
        if row.state == CloseState.REFUSED:
            assert "in quarantine" in row.refusal
            assert not row.accepted
            return
        assert row.state == CloseState.CLOSED
        assert row.invoices == Invoice.objects.filter(month=row.month, corrects=None).count()
        self.closes += 1
        # a month that was closed before an older one turned up waits for the close after it
        closed = MonthClose.objects.filter(state=CloseState.CLOSED, month__lte=row.month)
        for month in closed.values_list("month", flat=True):
            for project in {workspace.project for workspace in self.workspaces}:
                assert _invoiced(project, month) == self._counted(project, month), (project.slug, month)

    def _counted(self, project: Project, month: date) -> dict[int | None, tuple[int, int]]:
        span = month_span(month)
        rates = [Priced(row.valid_from, row.valid_to, row.price_micro) for row in Rate.objects.all()]
        rows = UsageInterval.objects.filter(project=project).exclude(ended_at=None)
        usage = [Used(row.started_at, row.ended_at or row.started_at, row.quantity) for row in rows]
        found = lines(usage, rates, span.starts_at, span.ends_at)
        return {price: (units, cents or 0) for price, (units, cents) in found.items()}

    def _written(self) -> tuple[Any, ...]:
        return (
            list(Invoice.objects.order_by("number").values_list("number", "content_hash")),
            list(InvoiceSeries.objects.order_by("name").values_list("name", "next_number")),
            list(MonthClose.objects.order_by("month").values_list("month", "state")),
            list(Grant.objects.order_by("pk").values_list("pk", "used_minor")),
            [model.objects.count() for model in (InvoiceLine, InvoiceShare, LedgerEntry, LedgerPosting)],
        )

    @invariant()
    def documents_are_one_set_and_stay(self) -> None:
        rows = list(Invoice.objects.order_by("closed_at", "number"))
        by_series: dict[str, list[int]] = {}
        for row in rows:
            series, _, number = row.number.rpartition("-")
            by_series.setdefault(series, []).append(int(number))
            assert self.hashes.setdefault(row.number, row.content_hash) == row.content_hash
            assert invoice_verify(invoice=row)
        assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_series.values())
        assert len(rows) == len(self.hashes)
        months = [row for row in rows if row.corrects_id is None]
        assert all((row.kind == InvoiceKind.CREDIT_NOTE) == (row.total_minor < 0) for row in months)
        twice = Counter((row.organization_id, row.month) for row in months)
        assert max(twice.values(), default=1) == 1

    @invariant()
    def shares_are_lines_are_documents(self) -> None:
        sums = InvoiceLine.objects.values("invoice").annotate(sum=Sum("amount_minor", default=0))
        documents = {row.pk: row.subtotal_minor for row in Invoice.objects.all()}
        assert {row["invoice"]: row["sum"] for row in sums} == documents
        # a note corrects money alone: its lines have no shares
        usage = InvoiceLine.objects.filter(invoice__corrects=None)
        lines_in_all = usage.aggregate(units=Sum("unit_seconds"), amount=Sum("amount_minor"))
        shares = InvoiceShare.objects.aggregate(units=Sum("unit_seconds"), amount=Sum("amount_minor"))
        assert shares == lines_in_all

    @invariant()
    def the_ledger_balances(self) -> None:
        entries = LedgerPosting.objects.values("entry").annotate(sum=Sum("amount_minor"))
        assert all(entry["sum"] == 0 for entry in entries)
        booked: Counter[str] = Counter()
        for posting in LedgerPosting.objects.values("account").annotate(sum=Sum("amount_minor")):
            booked[posting["account"]] = posting["sum"]
        earned = Invoice.objects.aggregate(sum=Sum("subtotal_minor", default=0))["sum"]
        assert booked[Account.REVENUE] == -earned
        left = F("amount_minor") - F("used_minor") - F("expired_minor")
        granted = Grant.objects.aggregate(sum=Sum(left, default=0))["sum"]
        assert booked[Account.GRANTS] == -granted
        assert not Grant.objects.filter(used_minor__gt=F("amount_minor") - F("expired_minor")).exists()
        assert booked[Account.PREPAID] <= 0

    @invariant()
    def no_credit_is_lost_or_used_twice(self) -> None:
        """What an organization owes is what its documents say less what it paid, and nothing waits beside what is due."""
        organizations = {workspace.project.organization for workspace in self.workspaces}
        for row in organizations:
            found: Counter[str] = Counter()
            own = LedgerPosting.objects.filter(entry__organization=row)
            for posting in own.values("account").annotate(sum=Sum("amount_minor")):
                found[posting["account"]] = posting["sum"]
            totals = Invoice.objects.filter(organization=row).aggregate(sum=Sum("total_minor", default=0))[
                "sum"
            ]
            granted = Grant.objects.filter(organization=row).aggregate(sum=Sum("used_minor", default=0))[
                "sum"
            ]
            owed = found[Account.RECEIVABLE] + found[Account.PREPAID] + found[Account.CREDIT]
            assert found[Account.CASH] == self.received[row.pk]
            assert owed == totals - granted - self.received[row.pk]
            due = sum(cents for _, cents in documents_due(organizations=[row.pk]))
            assert due == found[Account.RECEIVABLE], "no document stays below zero"
            left = sum(credit.left for credit in credits_left(organizations=[row.pk]))
            assert left == -found[Account.CREDIT], "no credit is overdrawn"
            money = prepaid_left(organizations=[row.pk]).get((row.pk, "EUR"), 0)
            assert money == -found[Account.PREPAID] >= 0
            assert not (due and left + money)


def _invoiced(project: Project, month: date) -> dict[int | None, tuple[int, int]]:
    units: Counter[int | None] = Counter()
    cents: Counter[int | None] = Counter()
    usage = InvoiceLine.objects.filter(project=project, charge_month=month, invoice__corrects=None)
    for line in usage:
        units[line.unit_price_micro] += line.unit_seconds
        cents[line.unit_price_micro] += line.amount_minor or 0
    return {price: (units[price], cents[price]) for price in units if units[price] or cents[price]}


def test_whatever_happens_the_invoices_are_the_usage(
    examples: int,
    project: Project,
    other_project: Project,
    h100: Flavor,
    alice: User,
    as_olga: Actor,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(issuing, "ORGANIZATIONS", 1)
    Closing.flavor, Closing.operator = h100, as_olga
    Closing.workspaces = [
        workspace_make(each, h100, alice, name=f"train-{number}")
        for number, each in enumerate((project, project, other_project))
    ]
    run_state_machine_as_test(
        Closing,
        settings=settings(
            phases=[Phase.generate],
            max_examples=examples // 4,
            stateful_step_count=10,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

"""An invoice credited in parts, however it is split: with its notes it is always what one document of the rest would be."""

from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Invoice
from billing.selectors.balances import invoices_open
from billing.services import rate_set
from billing.services.notes import lines_left, note_issue
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.billing import invoice_of

CREDIT, DEBIT = InvoiceKind.CREDIT_NOTE, InvoiceKind.DEBIT_NOTE
LINES = [6833, 6833, 5750, 8500]


def tax_by_hand(subtotal: int, rate_bp: int) -> int:
    """By another arithmetic than the product's."""
    exact = Decimal(subtotal) * rate_bp / 10_000
    return int(exact.quantize(Decimal(1), ROUND_HALF_UP))


def euros(minor: int) -> str:
    return f"{minor / 100:.2f}"


@pytest.mark.parametrize(
    "parts",
    [
        [{1: 6833}, {2: 6833}, {3: 5750}, {4: 8500}],
        [{4: 8500}, {3: 5750}, {2: 6833}, {1: 6833}],
        [{3: 5750}, {1: 6833, 4: 8500}, {2: 6833}],
        [{1: 1}, {1: 6831, 2: 3417}, {3: 2875, 1: 1}, {2: 3416}, {4: 8500}, {3: 2875}],
    ],
)
def test_four_lines_at_20_percent_credited_in_parts_are_334_99(
    project: Project, as_olga: Actor, parts: list[dict[int, int]]
) -> None:
    """Rounded by themselves, the notes would be 334.98 or 335.00."""
    invoice = invoice_of(project, LINES, tax_rate_bp=2000, tax=5583)
    assert invoice.total_minor == 33_499
    for part in parts:
        amounts = {position: euros(minor) for position, minor in part.items()}
        note_issue(actor=as_olga, invoice=invoice, kind=CREDIT, amounts=amounts, reason="down")
    sums = Invoice.objects.filter(corrects=invoice).aggregate(
        net=Sum("subtotal_minor"), all=Sum("total_minor")
    )
    assert sums == {"net": -27_916, "all": -33_499}
    assert set(lines_left(invoice=invoice).values()) == {0}
    assert invoices_open(invoices=[invoice.pk])[invoice.pk] == 0


# by each: of which line, how much of what is left of it, in thousandths, and whether it is taken back by a debit note
splits = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 1000), st.booleans()), min_size=1, max_size=3)


@given(
    amounts=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=5),
    rate=st.integers(0, 10_000),
    notes=st.lists(splits, max_size=3),
)
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_after_every_note_the_sum_is_that_of_one_document_and_at_last_nothing(
    project: Project, as_olga: Actor, amounts: list[int], rate: int, notes: list[list[Any]]
) -> None:
    with transaction.atomic():
        invoice = invoice_of(project, amounts, tax_rate_bp=rate, tax=tax_by_hand(sum(amounts), rate))
        rest = dict(enumerate(amounts, start=1))

        def issue(kind: InvoiceKind, wish: dict[int, int]) -> None:
            given_ = {at: euros(minor) for at, minor in wish.items() if minor}
            if given_:
                note_issue(actor=as_olga, invoice=invoice, kind=kind, amounts=given_, reason="agreed")
            for at, minor in wish.items():
                rest[at] += minor if kind == DEBIT else -minor
            found = Invoice.objects.filter(organization=invoice.organization).aggregate(
                net=Sum("subtotal_minor"), tax=Sum("tax_minor"), all=Sum("total_minor")
            )
            net = sum(rest.values())
            tax = tax_by_hand(net, rate)
            assert found == {"net": net, "tax": tax, "all": net + tax}
            assert invoices_open(invoices=[invoice.pk])[invoice.pk] == net + tax

        for split in notes:
            wish = {}
            for line, part, _ in split:
                at = line % len(amounts) + 1
                wish[at] = -(-rest[at] * part // 1000)
            issue(CREDIT, wish)
            if split[0][2]:
                issue(DEBIT, wish)
        issue(CREDIT, dict(rest))
        assert sum(rest.values()) == 0
        transaction.set_rollback(True)


def test_what_came_late_is_credited_once(project: Project, h100: Flavor, alice: User, as_olga: Actor) -> None:
    """10.00 in October, and 5.00 of October on November's invoice: each on its own line, and 15.00 in all."""
    workspace = workspace_make(project, h100, alice)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="1", valid_from=utc("2025-01-01"))
    invoices: list[Invoice] = []
    for month, hours in ((date(2026, 10, 1), 10), (date(2026, 11, 1), 5)):
        start = utc("2026-10-05 00:00:00") + timedelta(days=len(invoices))
        interval_make(workspace, h100, start, start + timedelta(hours=hours))
        month_close(as_olga, month)
        invoices.append(Invoice.objects.get(month=month))
    for invoice, minor in zip(invoices, (1000, 500), strict=True):
        assert lines_left(invoice=invoice) == {1: minor}
        given: dict[str, Any] = {"actor": as_olga, "invoice": invoice, "kind": CREDIT, "reason": "down"}
        with pytest.raises(Invalid, match="cannot be corrected"):
            note_issue(**given, amounts={1: euros(minor + 1)})
        note_issue(**given, amounts={1: euros(minor)})
    assert Invoice.objects.aggregate(sum=Sum("total_minor"))["sum"] == 0


def test_what_came_late_and_was_taken_back_is_credited_no_more(
    project: Project, h100: Flavor, l40s: Flavor, alice: User, as_olga: Actor
) -> None:
    """5.00 of October on November's invoice, of which the next close takes 4.00 back: 1.00 is left, on whichever line it is."""
    workspace = workspace_make(project, h100, alice)
    for flavor in (h100, l40s):
        rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="1", valid_from=utc("2025-01-01"))
    interval_make(workspace, h100, utc("2026-10-05"), utc("2026-10-05 10:00:00"))
    month_close(as_olga, date(2026, 10, 1))
    late = interval_make(workspace, l40s, utc("2026-10-06"), utc("2026-10-06 05:00:00"))
    month_close(as_olga, date(2026, 11, 1))
    late.ended_at = utc("2026-10-06 01:00:00")
    late.save()
    month_close(as_olga, date(2026, 12, 1))
    added, taken = (Invoice.objects.get(month=date(2026, month, 1)).lines.get() for month in (11, 12))
    assert (added.amount_minor, taken.amount_minor, taken.corrects) == (500, -400, added)
    assert lines_left(invoice=added.invoice) == {1: 100}


def test_what_a_close_took_back_is_left_of_no_line(
    project: Project, h100: Flavor, alice: User, as_olga: Actor
) -> None:
    """10.00 in October, 5.00 more on November's invoice, and 12.00 taken back: 3.00 are left to credit, not 5.00."""
    workspace = workspace_make(project, h100, alice)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="1", valid_from=utc("2025-01-01"))
    used = interval_make(workspace, h100, utc("2026-10-05"), utc("2026-10-05 10:00:00"))
    for month, hours in ((10, 15), (11, 3), (12, 3)):
        month_close(as_olga, date(2026, month, 1))
        used.ended_at = utc("2026-10-05") + timedelta(hours=hours)
        used.save()
    october, november = (Invoice.objects.get(month=date(2026, month, 1)) for month in (10, 11))
    assert Invoice.objects.aggregate(sum=Sum("subtotal_minor"))["sum"] == 300
    assert max(lines_left(invoice=october)[1], 0) == 0
    assert lines_left(invoice=november) == {1: 300}
    note_issue(actor=as_olga, invoice=november, kind=CREDIT, amounts={1: "3"}, reason="down")
    assert lines_left(invoice=november) == {1: 0}

"""What comes late in any order: the invoices of a month and their corrections always add up to what its usage says now."""

from collections import Counter
from datetime import date
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Invoice, InvoiceLine, InvoiceShare
from billing.rating import LineStatus
from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.test_terms_properties import NOVEMBER, OCTOBER, Stage, any_mode, discounts, terms_of, used

CLOSES = (OCTOBER, NOVEMBER, date(2026, 12, 1))
first_price = st.tuples(
    st.just(-30_000_000), st.integers(0, 9_999_999), any_mode, st.just([(1, 5)]), st.just((1, 0))
)


@given(
    known=st.tuples(used, used, used),
    opening=first_price,
    terms=terms_of(st.just((1, 0)), any_mode),
    lowered=discounts,
)
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_lines_and_corrections_add_up_to_what_is_known_at_last(
    project: Project,
    h100: Flavor,
    alice: User,
    as_olga: Actor,
    known: tuple[list[Any], ...],
    opening: Any,
    terms: list[Any],
    lowered: list[Any],
) -> None:
    """Each close knows other usage than the one before: more, less, elsewhere."""
    with transaction.atomic():
        stage = Stage(project, h100, alice)
        stage.price([opening, *terms], lowered)
        for month, usage in zip(CLOSES, known, strict=True):
            stage.use(usage)
            month_close(as_olga, month, accept="random usage")
        for month in (OCTOBER, NOVEMBER):
            assert _invoiced(month) == _rated(stage, month)
        _documents_add_up()
        transaction.set_rollback(True)


Sums = dict[int, tuple[int, int]]


def _invoiced(month: date) -> Sums:
    units: Counter[int] = Counter()
    cents: Counter[int] = Counter()
    for line in InvoiceLine.objects.filter(charge_month=month):
        units[line.unit_price_micro or 0] += line.unit_seconds
        cents[line.unit_price_micro or 0] += line.amount_minor or 0
    return {price: (units[price], cents[price]) for price in units if units[price] or cents[price]}


def _rated(stage: Stage, month: date) -> Sums:
    lines = stage.lines(month)
    assert all(line.status == LineStatus.BILLED for line in lines)
    return {
        int((line.unit_price or 0) * 1_000_000): (line.unit_seconds, int((line.amount or 0) * 100))
        for line in lines
    }


def _documents_add_up() -> None:
    for invoice in Invoice.objects.all():
        assert invoice.subtotal_minor == sum(line.amount_minor or 0 for line in invoice.lines.all())
    for line in InvoiceLine.objects.all():
        shares = InvoiceShare.objects.filter(line=line)
        assert sum(share.unit_seconds for share in shares) == line.unit_seconds
        assert sum(share.amount_minor or 0 for share in shares) == (line.amount_minor or 0)

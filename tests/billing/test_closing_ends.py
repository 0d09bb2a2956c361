"""Months closed end to end: of 743 and 745 hours, in several currencies at once, after the tax has changed."""

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from billing.models import BillingAccount, Invoice, InvoiceLine, RateCard
from billing.months import month_next, month_span
from billing.rating import Slots, rate_usage
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, UsageInterval
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.factories.tenants import OrganizationFactory, ProjectFactory

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)


@pytest.mark.parametrize(
    ("month", "hours"), [(date(2026, 3, 1), 743), (OCTOBER, 745), (date(2026, 1, 1), 744)], ids=str
)
def test_a_month_has_its_own_hours(
    project: Project, h100: Flavor, alice: User, as_olga: Actor, month: date, hours: int
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="1", valid_from=utc("2025-01-01"))
    span = month_span(month)
    interval_make(workspace_make(project, h100, alice), h100, span.starts_at, utc("2027-01-01"))
    month_close(as_olga, month)
    invoice = Invoice.objects.get()
    line = invoice.lines.get()
    assert (line.unit_seconds, invoice.subtotal_minor) == (hours * 3600, hours * 100)
    assert sorted({share.unit_seconds // 3600 for share in line.shares.all()}) == sorted(
        {24, 24 + hours - 744}
    )


def test_each_organization_is_billed_in_its_currency_in_one_series(
    organization: Organization, h100: Flavor, alice: User, as_olga: Actor
) -> None:
    """EUR has two places, JPY none, KWD three; one account each, taxes of its own."""
    expected = {}
    for slug, currency, micro in (
        ("a-berlin", "EUR", 2_405_000),
        ("b-tokyo", "JPY", 361_500_000),
        ("c-kuwait", "KWD", 735_500),
    ):
        row = OrganizationFactory.create(slug=slug)
        BillingAccount.objects.create(organization=row, currency=currency, tax_rate_bp=1000, tax_label="VAT")
        card, _ = RateCard.objects.get_or_create(
            currency=currency, organization=None, defaults={"slug": currency.lower(), "name": currency}
        )
        rate_make(card, h100, micro, utc("2026-01-01"))
        workspace = workspace_make(ProjectFactory.create(organization=row, slug=f"{slug}-p"), h100, alice)
        interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 10:59:55"))
        expected[slug] = (currency, (2 * micro * 3595 + _divisor(currency)) // (2 * _divisor(currency)))
    month_close(as_olga, OCTOBER)
    found = {row.organization.slug: (row.currency, row.subtotal_minor) for row in Invoice.objects.all()}
    assert found == expected
    numbers = Invoice.objects.order_by("organization__slug").values_list("number", flat=True)
    assert list(numbers) == ["INV-2026-0001", "INV-2026-0002", "INV-2026-0003"]
    for invoice in Invoice.objects.all():
        assert invoice.tax_minor == (invoice.subtotal_minor * 1000 + 5000) // 10_000


def _divisor(currency: str) -> int:
    return 3600 * {"EUR": 10_000, "JPY": 1_000_000, "KWD": 1000}[currency]


def test_late_usage_is_taxed_as_the_invoice_on_which_it_stands(
    project: Project, organization: Organization, h100: Flavor, alice: User, as_olga: Actor
) -> None:
    account = BillingAccount.objects.create(
        organization=organization, currency="EUR", tax_rate_bp=1900, tax_label="VAT 19%"
    )
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    workspace = workspace_make(project, h100, alice)
    interval_make(workspace, h100, utc("2026-10-02 10:00:00"), utc("2026-10-02 11:00:00"))
    month_close(as_olga, OCTOBER)
    account.tax_rate_bp, account.tax_label = 700, "VAT 7%"
    account.save()
    interval_make(workspace, h100, utc("2026-10-03 10:00:00"), utc("2026-10-03 11:00:00"))
    month_close(as_olga, NOVEMBER)
    late = Invoice.objects.get(month=NOVEMBER)
    assert (late.lines.get().charge_month, late.subtotal_minor, late.tax_minor) == (OCTOBER, 240, 17)
    assert late.tax_label == "VAT 7%"
    assert Invoice.objects.get(month=OCTOBER).tax_minor == 46


pieces = st.lists(
    st.tuples(st.integers(0, 364 * 24 * 3600), st.integers(1, 90 * 24 * 3600), st.integers(1, 8)),
    min_size=1,
    max_size=5,
)


@given(usage=pieces)
@bounded(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_months_are_the_year_and_no_more_than_was_there(
    project: Project, h100: Flavor, alice: User, usage: list[tuple[int, int, int]]
) -> None:
    """Twelve months closed one by one and the year in one go have the same seconds; billed ≤ physical GPU-seconds."""
    UsageInterval.objects.all().delete()
    if not RateCard.objects.exists():
        rate_make(
            RateCard.objects.create(slug="eur", name="EUR", currency="EUR"),
            h100,
            1_370_000,
            utc("2025-01-01"),
        )
    row = project.workspaces.first() or workspace_make(project, h100, alice)
    months = [date(2026, 1, 1)]
    while len(months) < 12:
        months.append(month_next(months[-1]))
    first, last = month_span(months[0]).starts_at, month_span(months[-1]).ends_at
    physical = 0
    for start, lasts, quantity in usage:
        begins = first + timedelta(seconds=start)
        ends = begins + timedelta(seconds=lasts)
        interval_make(row, h100, begins, ends, quantity=quantity)
        physical += quantity * int((min(ends, last) - begins).total_seconds())
    asked: dict[str, Any] = {"now": utc("2028-01-01"), "projects": [project.pk]}
    at_once = rate_usage(slots=Slots(months, [month_span(month) for month in months]), **asked)
    apart = [
        cell for month in months for cell in rate_usage(slots=Slots([month], [month_span(month)]), **asked)
    ]
    assert at_once == apart
    assert sum(cell.unit_seconds for cell in at_once) == physical


def test_what_is_invoiced_is_no_more_than_was_held(
    project: Project, h100: Flavor, alice: User, as_olga: Actor
) -> None:
    """Over a year with open ends, closed month by month: the lines have the seconds of the intervals, no more, no less."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="1.37", valid_from=utc("2025-01-01"))
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, utc("2026-01-15 10:00:07"), None, quantity=3)
    interval_make(row, h100, utc("2026-02-28 22:59:59"), utc("2026-03-29 03:00:01"), quantity=2)
    month = date(2026, 1, 1)
    while month < date(2026, 7, 1):
        month_close(as_olga, month)
        month = month_next(month)
    end = month_span(date(2026, 6, 1)).ends_at
    held = 3 * int((end - utc("2026-01-15 10:00:07")).total_seconds())
    held += 2 * int((utc("2026-03-29 03:00:01") - utc("2026-02-28 22:59:59")).total_seconds())
    assert sum(InvoiceLine.objects.values_list("unit_seconds", flat=True)) == held

"""What it would cost, before the click."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pytest_django import Settings

from billing.held import what_if
from billing.models import BillingAccount, Discount
from billing.quotes import QuoteItem, quote
from billing.services import rate_card_ensure, rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import WorkspaceFlavor
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.factories.catalog import FlavorFactory

NOW = utc("2026-11-21 12:00:00")
JANUARY = utc("2026-01-01")


@pytest.fixture
def prices(as_olga: Actor, h100: Flavor) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=JANUARY)
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.000137", valid_from=JANUARY)


@pytest.mark.usefixtures("prices")
def test_a_quote_is_exact(h100: Flavor, organization: Organization) -> None:
    found = quote(
        organization=organization,
        items=[QuoteItem(h100, 2)],
        storage_gib=500,
        lease_ends_at=NOW + timedelta(days=7),
        now=NOW,
    )
    assert [(line.label, line.quantity, line.per_hour) for line in found.lines] == [
        ("H100 SXM", 2, Decimal("4.80")),
        ("Storage (GiB)", 500, Decimal("0.0685")),
    ]
    assert str(found.per_hour) == "4.8685"
    assert (found.per_month, found.hours) == (Decimal("3505.32"), 720)
    assert found.to_lease_end == Decimal("817.91")
    assert (found.complete, found.currency) == (True, "EUR")


@pytest.mark.usefixtures("prices")
def test_a_flavor_of_several_gpus_costs_each_of_them(
    h100: Flavor, as_olga: Actor, organization: Organization
) -> None:
    eight = FlavorFactory.create(pool=h100.pool, gpus=8, name="8 × H100")
    rate_set(actor=as_olga, flavor=eight, meter=Meter.GPU_HELD, price="2", valid_from=JANUARY)
    found = quote(organization=organization, items=[QuoteItem(eight, 2), QuoteItem(h100, 3)], now=NOW)
    assert [line.per_hour for line in found.lines] == [Decimal("32.00"), Decimal("7.20")]
    assert [line.gpu_words for line in found.lines] == ["16 GPUs (8 × H100)", f"3 × {h100.name}"]


@pytest.mark.usefixtures("prices")
def test_a_missing_price_is_said_not_guessed(h100: Flavor, l40s: Flavor, organization: Organization) -> None:
    found = quote(organization=organization, items=[QuoteItem(h100, 1), QuoteItem(l40s, 1)], now=NOW)
    assert not found.complete
    assert [line.per_hour for line in found.lines] == [Decimal("2.40"), None]
    assert found.to_lease_end is None


def test_without_any_price_there_is_a_quote_of_nothing(h100: Flavor, organization: Organization) -> None:
    found = quote(organization=organization, items=[QuoteItem(h100, 1)], now=NOW)
    assert (found.complete, found.per_hour, found.currency) == (False, Decimal("0.00"), "EUR")


@pytest.mark.usefixtures("prices")
def test_a_lease_in_the_past_costs_nothing_more(h100: Flavor, organization: Organization) -> None:
    found = quote(
        organization=organization, items=[QuoteItem(h100, 1)], lease_ends_at=NOW - timedelta(days=1), now=NOW
    )
    assert found.to_lease_end == Decimal("0.00")


@pytest.mark.usefixtures("prices")
def test_the_quote_is_what_the_statement_will_say(h100: Flavor, organization: Organization) -> None:
    """The price in force at the time of the quote is shown, not a later one."""
    before = quote(organization=organization, items=[QuoteItem(h100, 1)], now=JANUARY - timedelta(seconds=1))
    assert not before.complete


@pytest.mark.usefixtures("prices")
def test_the_organization_pays_its_own_price_to_the_fraction(
    h100: Flavor, organization: Organization, other_project: Project
) -> None:
    Discount.objects.create(
        organization=organization, flavor=None, basis_points=3333, valid_from=JANUARY, created_by="olga"
    )
    lease = NOW + timedelta(days=30)
    found = quote(organization=organization, items=[QuoteItem(h100, 1)], lease_ends_at=lease, now=NOW)
    assert str(found.per_hour) == "1.60008"
    assert (found.per_month, found.to_lease_end) == (Decimal("1152.06"), Decimal("1152.06"))
    others = quote(organization=other_project.organization, items=[QuoteItem(h100, 1)], now=NOW)
    assert others.per_hour == Decimal("2.40")


def test_a_published_change_counts_from_its_second_on(h100: Flavor, organization: Organization) -> None:
    card, change = rate_card_ensure(), NOW + timedelta(hours=10)
    rate_make(card, h100, 1_000_000, JANUARY, change)
    rate_make(card, h100, 3_000_000, change)
    found = quote(
        organization=organization,
        items=[QuoteItem(h100, 1)],
        lease_ends_at=NOW + timedelta(hours=15),
        now=NOW,
    )
    assert (found.per_hour, found.to_lease_end) == (Decimal("1.00"), Decimal("25.00"))
    assert not found.estimate
    assert "Prices change on 21 Nov 2026" in " ".join(found.notes)


def test_a_price_that_ends_before_the_lease_is_said(h100: Flavor, organization: Organization) -> None:
    rate_make(rate_card_ensure(), h100, 1_000_000, JANUARY, NOW + timedelta(hours=1))
    asked: dict[str, Any] = {"organization": organization, "items": [QuoteItem(h100, 1)], "now": NOW}
    assert quote(**asked).complete
    assert not quote(**asked, lease_ends_at=NOW + timedelta(hours=2)).complete


def test_what_the_flavor_includes_until_its_own_price_starts_is_charged_from_then(
    h100: Flavor, organization: Organization
) -> None:
    card, change = rate_card_ensure(), NOW + timedelta(hours=10)
    rate_make(card, h100, 1_000_000, JANUARY)
    rate_make(card, None, 500_000, change, meter=Meter.STORAGE_HELD)
    asked: dict[str, Any] = {"organization": organization, "items": [QuoteItem(h100, 1)], "now": NOW}
    lease = NOW + timedelta(hours=15)
    found = quote(**asked, storage_gib=2, lease_ends_at=lease)
    assert (found.per_hour, found.to_lease_end, found.in_month) == (
        Decimal("1.00"),
        Decimal("20.00"),
        Decimal("20.00"),
    )
    assert [(line.label, line.unit_price, line.in_month) for line in found.lines] == [
        ("H100 SXM", Decimal("1.00"), Decimal("15.00")),
        ("Storage (GiB)", Decimal("0.00"), Decimal("5.00")),
    ]
    assert found.complete
    assert found.notes == (
        "Prices change on 21 Nov 2026 at 23:00 (Europe/Berlin); the sum to the end includes that.",
    )
    before = quote(**asked, storage_gib=2, lease_ends_at=change)
    assert (len(before.lines), before.to_lease_end, before.notes) == (1, Decimal("10.00"), ())


def test_what_the_flavor_includes_again_lacks_no_price(h100: Flavor, organization: Organization) -> None:
    card, change = rate_card_ensure(), NOW + timedelta(hours=10)
    rate_make(card, h100, 1_000_000, JANUARY)
    rate_make(card, None, 500_000, JANUARY, change, meter=Meter.STORAGE_HELD)
    found = quote(
        organization=organization,
        items=[QuoteItem(h100, 1)],
        storage_gib=2,
        lease_ends_at=NOW + timedelta(hours=15),
        now=NOW,
    )
    assert (found.per_hour, found.to_lease_end) == (Decimal("2.00"), Decimal("25.00"))
    assert found.complete
    assert "Prices change on 21 Nov 2026 at 23:00" in " ".join(found.notes)


def test_tiers_and_use_make_it_an_estimate(h100: Flavor, l40s: Flavor, organization: Organization) -> None:
    card = rate_card_ensure()
    rate_make(card, h100, 2_000_000, JANUARY, tiers=[(100, 1_000_000)], tier_mode="graduated")
    rate_make(card, l40s, 1_000_000, JANUARY)
    plain = quote(organization=organization, items=[QuoteItem(l40s, 1)], now=NOW)
    assert (plain.estimate, plain.notes) == (False, ())
    tiered = quote(organization=organization, items=[QuoteItem(h100, 1)], now=NOW)
    assert tiered.estimate
    assert "first tier" in tiered.notes[0]
    rate_make(card, l40s, 1_000_000, JANUARY, meter=Meter.GPU_ALLOCATED)
    assert quote(organization=organization, items=[QuoteItem(l40s, 1)], now=NOW).estimate


@pytest.mark.usefixtures("prices")
def test_another_currency_has_no_price_of_this_one(h100: Flavor, organization: Organization) -> None:
    BillingAccount.objects.create(organization=organization, currency="USD")
    found = quote(organization=organization, items=[QuoteItem(h100, 1)], now=NOW)
    assert (found.currency, found.complete) == ("USD", False)


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(("month", "hours"), [("2026-03", 743), ("2026-10", 745), ("2026-02", 672)])
def test_the_month_is_the_running_one_of_the_billing_zone(
    h100: Flavor, organization: Organization, settings: Settings, month: str, hours: int
) -> None:
    settings.BILLING_TIME_ZONE = "Europe/Berlin"
    found = quote(organization=organization, items=[QuoteItem(h100, 1)], now=utc(f"{month}-10 00:00:00"))
    assert (f"{found.month.day:%Y-%m}", found.hours) == (month, hours)
    assert found.per_month == Decimal("2.40") * hours


@pytest.mark.usefixtures("prices")
def test_what_a_resize_makes_of_it(project: Project, h100: Flavor, alice: User) -> None:
    row = workspace_make(project, h100, alice)
    row.lease_ends_at = NOW + timedelta(hours=100)
    WorkspaceFlavor.objects.create(workspace=row, flavor=h100, count=2)
    held = interval_make(row, h100, NOW - timedelta(hours=1), None, quantity=2)
    less = what_if(workspace=row, items=[QuoteItem(h100, 1)], now=NOW)
    assert (less.now.per_hour, less.then.per_hour, less.per_hour) == (
        Decimal("4.80"),
        Decimal("2.40"),
        Decimal("-2.40"),
    )
    assert (less.to_lease_end, less.per_month) == (Decimal("-240.00"), Decimal("-1728.00"))
    longer = what_if(workspace=row, lease_ends_at=NOW + timedelta(hours=110), now=NOW)
    assert (longer.per_hour, longer.to_lease_end) == (Decimal("0.00"), Decimal("48.00"))
    held.ended_at = NOW
    held.save()
    woken = what_if(workspace=row, now=NOW)
    assert (woken.now.per_hour, woken.per_hour) == (Decimal("0.00"), Decimal("4.80"))

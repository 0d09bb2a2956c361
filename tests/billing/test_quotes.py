"""What it would cost, before the click."""

from datetime import timedelta
from decimal import Decimal

import pytest

from billing.quotes import QuoteItem, quote
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tests.billing.stage import utc
from tests.factories.catalog import FlavorFactory

NOW = utc("2026-11-21 12:00:00")
JANUARY = utc("2026-01-01")


@pytest.fixture
def prices(as_olga: Actor, h100: Flavor) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=JANUARY)
    rate_set(actor=as_olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.000137", valid_from=JANUARY)


@pytest.mark.usefixtures("prices")
def test_a_quote_is_exact(h100: Flavor) -> None:
    found = quote(items=[QuoteItem(h100, 2)], storage_gib=500, lease_ends_at=NOW + timedelta(days=7), now=NOW)
    assert [(line.label, line.quantity, line.per_hour) for line in found.lines] == [
        ("H100 SXM", 2, Decimal("4.80")),
        ("Storage (GiB)", 500, Decimal("0.0685")),
    ]
    assert str(found.per_hour) == "4.8685"
    assert found.days_30 == Decimal("3505.32")
    assert found.to_lease_end == Decimal("817.91")
    assert (found.complete, found.currency) == (True, "EUR")


@pytest.mark.usefixtures("prices")
def test_a_flavor_of_several_gpus_costs_each_of_them(h100: Flavor, as_olga: Actor) -> None:
    eight = FlavorFactory.create(pool=h100.pool, gpus=8)
    rate_set(actor=as_olga, flavor=eight, meter=Meter.GPU_HELD, price="2", valid_from=JANUARY)
    assert quote(items=[QuoteItem(eight, 2)], now=NOW).per_hour == Decimal("32.00")


@pytest.mark.usefixtures("prices")
def test_a_missing_price_is_said_not_guessed(h100: Flavor, l40s: Flavor) -> None:
    found = quote(items=[QuoteItem(h100, 1), QuoteItem(l40s, 1)], now=NOW)
    assert not found.complete
    assert [line.per_hour for line in found.lines] == [Decimal("2.40"), None]
    assert found.to_lease_end is None


def test_without_any_price_there_is_a_quote_of_nothing(h100: Flavor) -> None:
    found = quote(items=[QuoteItem(h100, 1)], now=NOW)
    assert (found.complete, found.per_hour, found.currency) == (False, Decimal("0.00"), "EUR")


@pytest.mark.usefixtures("prices")
def test_a_lease_in_the_past_costs_nothing_more(h100: Flavor) -> None:
    found = quote(items=[QuoteItem(h100, 1)], lease_ends_at=NOW - timedelta(days=1), now=NOW)
    assert found.to_lease_end == Decimal("0.00")


@pytest.mark.usefixtures("prices")
def test_the_quote_is_what_the_statement_will_say(h100: Flavor) -> None:
    """The price in force at the time of the quote is shown, not a later one."""
    before = quote(items=[QuoteItem(h100, 1)], now=JANUARY - timedelta(seconds=1))
    assert not before.complete

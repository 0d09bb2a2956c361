"""What is lent costs what ran of it; what is merely held of it costs nothing."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from billing.quotes import QuoteItem, quote
from billing.selectors import statement
from billing.selectors.running import rates_of
from billing.services import rate_card_ensure, rate_set
from billing.services.drafts import LineTerms, rate_draft_line_set, rate_draft_open
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.workspaces.spotted import spot_flavor

NOW = utc("2026-11-21 12:00:00")
BEGAN = NOW - timedelta(minutes=61)


@pytest.fixture(autouse=True)
def _noon() -> "object":
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def spot(h100: Flavor) -> Flavor:
    return spot_flavor(h100)


def test_what_ran_is_charged_to_the_second_beside_what_was_bought(
    project: Project, spot: Flavor, h100: Flavor, alice: User, as_alice: Actor
) -> None:
    card = rate_card_ensure()
    rate_make(card, spot, 960_000, utc("2026-01-01"), meter=Meter.GPU_ALLOCATED)
    rate_make(card, h100, 2_400_000, utc("2026-01-01"))
    borrowed = workspace_make(project, spot, alice, name="borrowed")
    bought = workspace_make(project, h100, alice, name="bought")
    interval_make(borrowed, spot, BEGAN, NOW - timedelta(minutes=1), quantity=2, meter=Meter.GPU_ALLOCATED)
    interval_make(borrowed, spot, NOW - timedelta(seconds=30), None, meter=Meter.GPU_ALLOCATED)
    interval_make(bought, h100, BEGAN, NOW - timedelta(minutes=1))
    interval_make(bought, h100, BEGAN, NOW - timedelta(minutes=1), meter=Meter.GPU_ALLOCATED)
    sheet = statement(actor=as_alice, project=project, now=NOW)
    lines = {(line.flavor, line.meter, line.price_class): line for line in sheet.lines}
    ran = lines["h100.spot", Meter.GPU_ALLOCATED, "spot"]
    assert (ran.unit_seconds, ran.amount) == (2 * 3600 + 30, Decimal("1.93"))  # 1.92 and 0.008
    assert lines["h100.1", Meter.GPU_HELD, "on_demand"].amount == Decimal("2.40")
    assert sheet.total == Decimal("4.33")
    rates = rates_of(actor=as_alice, holders=[borrowed.pk, bought.pk], project=project, now=NOW)
    assert (rates[borrowed.pk].per_hour, rates[bought.pk].per_hour) == (Decimal("0.96"), Decimal(0))


def test_what_ran_without_a_price_is_not_given_away(
    project: Project, spot: Flavor, alice: User, as_alice: Actor
) -> None:
    borrowed = workspace_make(project, spot, alice)
    interval_make(borrowed, spot, BEGAN, NOW, meter=Meter.GPU_ALLOCATED)
    (line,) = statement(actor=as_alice, project=project, now=NOW).lines
    assert (line.status.value, line.amount) == ("quarantined", None)


@pytest.mark.parametrize("meter", [Meter.GPU_HELD, Meter.GPU_IDLE, Meter.GPU_STOPPED])
def test_no_other_meter_of_it_has_a_price(as_olga: Actor, spot: Flavor, meter: Meter) -> None:
    words = "of which only what runs is charged: set a price for GPU allocated"
    with pytest.raises(Invalid, match=words) as refused:
        rate_set(actor=as_olga, flavor=spot, meter=meter, price="1")
    assert list(refused.value.fields) == ["meter"]
    draft = rate_draft_open(actor=as_olga)
    with pytest.raises(Invalid, match=words):
        rate_draft_line_set(
            actor=as_olga, draft=draft, flavor=spot, meter=meter.value, terms=LineTerms(price="1")
        )
    assert rate_set(actor=as_olga, flavor=spot, meter=Meter.GPU_ALLOCATED, price="1").price == 1


def test_an_estimate_says_that_only_what_runs_is_charged(
    project: Project, spot: Flavor, as_olga: Actor
) -> None:
    rate_set(actor=as_olga, flavor=spot, meter=Meter.GPU_ALLOCATED, price="0.96")
    rate_set(actor=as_olga, flavor=None, meter=Meter.VCPU_HELD, price="1")
    found = quote(organization=project.organization, items=[QuoteItem(spot, 2)])
    assert (found.per_hour, found.estimate) == (Decimal("1.92"), True)
    assert "only hours in which GPUs are allocated are charged" in found.notes[0]
    assert [line.meter for line in found.lines] == [Meter.GPU_ALLOCATED]

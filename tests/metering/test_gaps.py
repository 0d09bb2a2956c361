"""The meter was away for longer than the site remembers: what can be proved is counted, the rest is said to be unknown."""

from datetime import datetime, timedelta

import pytest

from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.models import EndedBy, MeterGap, SiteMeter, UsageInterval
from gpuaas.metering.selectors import gaps_between, gaps_of
from gpuaas.metering.services import meter_claim, meter_flush
from gpuaas.providers.base import UsageEvent
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.metering.stage import bookmark, listed, pod, seconds_of, seen, utc

START = utc("2026-11-02 10:00:00")
DOWN, BACK = START + timedelta(seconds=90), START + timedelta(hours=9)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def flush(workspace: Workspace, *events: UsageEvent) -> None:
    assert meter_claim(site_id=workspace.site_id, holder="a", now=START, seconds=20)
    meter_flush(site_id=workspace.site_id, holder="a", events=events, now=START, claim_seconds=20)


@pytest.fixture
def away(workspace: Workspace) -> Workspace:
    """Two pods ran when the meter went away; nine hours later there is only a list."""
    before = [seen(workspace, pod(uid, start=START), later(1)) for uid in ("stays", "vanished")]
    flush(workspace, *listed(START), *before, bookmark(DOWN))
    there = [
        seen(workspace, pod("stays", start=START), BACK),
        seen(workspace, pod("kept", start=later(3600), end=later(3661)), BACK),
    ]
    flush(workspace, *listed(BACK, *there))
    return workspace


def test_what_can_be_proved_is_counted_and_the_rest_is_a_gap(away: Workspace) -> None:
    assert seconds_of("kept") == 61, "it began and ended inside, and its object tells"
    assert seconds_of("vanished") == 90
    assert UsageInterval.objects.get(consumer_uid="vanished").ended_by == EndedBy.PROOF_OF_LIFE
    assert UsageInterval.objects.get(consumer_uid="stays").ended_at is None
    gap = MeterGap.objects.get()
    assert (gap.site_id, gap.starts_at, gap.ends_at, gap.closed) == (away.site_id, DOWN, BACK, 1)


def test_the_first_list_is_no_gap_and_a_replayed_one_makes_no_second(workspace: Workspace) -> None:
    flush(workspace, *listed(START))
    assert not MeterGap.objects.exists()
    flush(workspace, bookmark(later(5)), *listed(later(60)), *listed(later(60)))
    flush(workspace, *listed(later(60)))
    assert list(MeterGap.objects.values_list("starts_at", "ends_at")) == [(later(5), later(60))]


def test_history_that_could_be_read_leaves_no_gap(workspace: Workspace) -> None:
    flush(workspace, *listed(START))
    flush(workspace, bookmark(BACK))
    assert not MeterGap.objects.exists()


def test_a_bill_asks_for_the_gaps_that_touch_its_month(away: Workspace) -> None:
    def found(first: datetime, last: datetime) -> int:
        return gaps_between(site_ids=[away.site_id], starts_at=first, ends_at=last).count()

    assert found(START, DOWN) == found(BACK, BACK + timedelta(days=1)) == 0
    assert found(DOWN, BACK) == found(START, DOWN + timedelta(seconds=1)) == 1
    assert not gaps_between(site_ids=[], starts_at=START, ends_at=BACK).exists()


def test_operators_see_it_and_tenants_do_not(away: Workspace, as_olga: Actor, as_alice: Actor) -> None:
    assert gaps_of(actor=as_olga, site=away.site).count() == 1
    with pytest.raises(NotFound):
        gaps_of(actor=as_alice, site=away.site)


def test_the_condition_names_the_last_long_gap_for_a_month(away: Workspace) -> None:
    def complete(now: datetime) -> Status:
        found = {each.type: each for each in meter_conditions(site_id=away.site_id, now=now)}
        return found["UsageComplete"].status

    assert complete(BACK) is Status.FALSE
    assert complete(BACK + timedelta(days=32)) is Status.UNKNOWN, "nobody has looked since"
    SiteMeter.objects.update(last_proof_at=BACK + timedelta(days=32))
    assert complete(BACK + timedelta(days=32)) is Status.TRUE
    SiteMeter.objects.update(last_proof_at=BACK)
    MeterGap.objects.update(ends_at=DOWN + timedelta(seconds=59))
    assert complete(BACK) is Status.TRUE
    assert SiteMeter.objects.get().last_proof_at == BACK

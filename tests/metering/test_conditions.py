"""What the meter's conditions say of a site that was never reached, and since when they say it."""

import itertools
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.catalog.models import Site
from gpuaas.core.conditions import Condition, Status
from gpuaas.metering.health import CHECK_LATE, GAPS_SHOWN, PROOF_LATE, meter_conditions
from gpuaas.metering.models import CrossCheck, MeterGap, SiteMeter
from gpuaas.metering.services import _heard, meter_claim, meter_flush
from gpuaas.workspaces.models import Workspace
from tests.factories.catalog import SiteFactory
from tests.metering.stage import bookmark, listed, utc

START = utc("2026-11-02 10:00:00")
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def told(site: Site, now: datetime) -> dict[str, Condition]:
    return {each.type: each for each in meter_conditions(site_id=site.pk, now=now)}


def proof(site: Site, at: datetime, *, relisted: bool = False) -> None:
    assert meter_claim(site_id=site.pk, holder="a", now=at, seconds=20)
    events = listed(at) if relisted else [bookmark(at)]
    meter_flush(site_id=site.pk, holder="a", events=events, now=at, claim_seconds=20)


def test_of_a_site_that_nobody_reached_nothing_is_known(db: None) -> None:
    site: Site = SiteFactory.create()
    now = site.created_at + 40 * DAY
    for condition in told(site, now).values():
        assert condition.status is Status.UNKNOWN
        assert condition.message
        assert condition.remedy
        assert condition.since == site.created_at
    assert "The site was never reached" in told(site, now)["UsageComplete"].message


def test_what_was_before_the_meter_began_is_not_called_complete(workspace: Workspace) -> None:
    site = workspace.site
    proof(site, START, relisted=True)
    young = told(site, START + MINUTE)["UsageComplete"]
    assert (young.status, young.since) == (Status.TRUE, START)
    assert "Since the first count (2026-11-02 10:00:00 UTC)" in young.message
    proof(site, START + 31 * DAY)
    assert "In the last 31 days" in told(site, START + 31 * DAY)["UsageComplete"].message


def test_what_the_meter_cannot_see_is_not_complete(workspace: Workspace) -> None:
    proof(workspace.site, START, relisted=True)
    blind = told(workspace.site, START + 2 * DAY)["UsageComplete"]
    assert (blind.status, blind.since) == (Status.UNKNOWN, START + PROOF_LATE)


def test_since_moves_with_the_status_and_not_with_the_look(workspace: Workspace) -> None:
    site = workspace.site
    proof(site, START, relisted=True)
    for minute in range(1, 4):
        proof(site, START + minute * MINUTE)
    again = START + 3 * MINUTE
    assert told(site, again)["Metered"].since == START
    late = told(site, again + timedelta(hours=2))["Metered"]
    assert (late.status, late.since) == (Status.FALSE, again + PROOF_LATE)
    back = again + timedelta(hours=3)
    proof(site, back)
    proof(site, back + MINUTE)
    assert told(site, back + MINUTE)["Metered"].since == back


def test_gaps_hold_the_condition_from_the_first_to_a_month_after_the_last(workspace: Workspace) -> None:
    site = workspace.site
    proof(site, START, relisted=True)
    SiteMeter.objects.update(last_proof_at=START + 90 * DAY)
    ends = [START + DAY, START + 20 * DAY, START + 60 * DAY]
    for end in ends:
        MeterGap.objects.create(site=site, starts_at=end - 2 * MINUTE, ends_at=end)
    open_again = told(site, START + 90 * DAY)["UsageComplete"]
    assert (open_again.status, open_again.since) == (Status.FALSE, ends[2])
    MeterGap.objects.filter(ends_at=ends[2]).delete()
    SiteMeter.objects.update(last_proof_at=START + 21 * DAY)
    chained = told(site, START + 21 * DAY)["UsageComplete"]
    assert (chained.status, chained.since) == (Status.FALSE, ends[0])
    SiteMeter.objects.update(last_proof_at=START + 80 * DAY)
    over = told(site, START + 80 * DAY)["UsageComplete"]
    assert (over.status, over.since) == (Status.TRUE, ends[1] + GAPS_SHOWN)


def test_a_comparison_like_the_one_before_moves_nothing(workspace: Workspace) -> None:
    site, differs = workspace.site, [{"repaired": False}]
    hours = [(0, []), (23, [{"repaired": True}]), (46, []), (69, differs), (92, differs), (115, [])]
    found = []
    for hour, findings in hours:
        at = START + timedelta(hours=hour)
        CrossCheck.objects.create(site=site, checked_at=at, compared=1, findings=findings)
        found.append(told(site, at)["CrossChecked"])
    since = [round((each.since - START) / timedelta(hours=1)) for each in found]
    assert since == [0, 0, 0, 69, 69, 115]
    assert found[3].status is found[4].status is Status.FALSE
    late = START + timedelta(hours=115) + CHECK_LATE + DAY
    assert told(site, late)["CrossChecked"].status is Status.UNKNOWN
    CrossCheck.objects.create(site=site, checked_at=late, compared=1, findings=[])
    assert told(site, late)["CrossChecked"].since == late


@given(gaps=st.lists(st.integers(1, 400), min_size=1, max_size=12))
def test_a_silence_is_one_where_it_was_too_long(gaps: list[int]) -> None:
    """The arithmetic of `watching_since`, against the plain reading of it."""
    moments = [START]
    for seconds in gaps:
        moments.append(moments[-1] + timedelta(seconds=seconds))
    wanted = START
    for before, after in itertools.pairwise(moments):
        wanted = after if after - before > PROOF_LATE else wanted
    changes = _heard(SiteMeter(), [bookmark(at) for at in moments])
    assert (changes["watching_since"], changes["first_proof_at"]) == (wanted, START)

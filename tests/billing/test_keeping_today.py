"""The day that runs is kept in parts: as rating from nothing says, whatever happens inside of it, and only where it saves something."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import KeptDay, KeptHolder, KeptMonth
from billing.services.keeping import MANY, PART, kept_check, part_until, past_until, usage_keep
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_keeping import DAYS, METERS, MONTHS, NOVEMBER, Stage, cells
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
# the second of November in Berlin, and its evening
MIDNIGHT = utc("2026-11-01 23:00:00")
EVENING = MIDNIGHT + timedelta(hours=22, minutes=37)
MINUTE = timedelta(minutes=1)

# from the noon before on, so that steps meet the day before, which is kept as a part of its month
moments = st.integers(-11 * 60, 22 * 60).map(lambda minutes: MIDNIGHT + minutes * MINUTE)
which = st.integers(0, 20)
micros = st.integers(0, 9_999_999)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("late"),
            moments,
            st.integers(1, 300),
            st.integers(0, 3),
            st.sampled_from(METERS),
            st.booleans(),
        ),
        st.tuples(
            st.just("start"),
            moments,
            st.integers(0, 3),
            st.integers(1, 9),
            st.sampled_from(METERS),
            st.booleans(),
        ),
        st.tuples(st.just("end"), moments, which),
        st.tuples(st.just("shrink"), moments, which),
        st.tuples(st.just("correct"), st.integers(1, 9), which),
        st.tuples(st.just("delete"), which),
        st.tuples(st.just("price"), moments, micros),
        st.tuples(st.just("tiers"), moments, micros, st.sampled_from(["volume", "graduated"])),
        st.tuples(st.just("discount"), moments, st.integers(1, 9_999)),
        st.tuples(st.just("gap"), moments, st.integers(1, 90)),
    ),
    min_size=2,
    max_size=6,
)


class Today(Stage):
    def late(self, at: Any, minutes: int, who: int, meter: Meter, sold: bool) -> None:
        """What ran and ended before anybody heard of it."""
        self.start(at, who, 1, meter, sold)
        UsageInterval.objects.filter(ended_at=None, started_at=at).update(ended_at=at + minutes * MINUTE)

    def look(self, at: Any) -> None:
        for slots in (MONTHS, DAYS):
            kept, anew = (cells(self.project, slots, at, False, stored=stored) for stored in (True, False))
            assert kept == anew


@given(history=steps, minutes=st.integers(1, 22 * 60))
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_parts_are_rated_from_nothing(
    project: Project, h100: Flavor, alice: User, history: list[tuple[Any, ...]], minutes: int
) -> None:
    stage = Today(project, h100, alice)
    stage.clear()
    now = MIDNIGHT + timedelta(hours=1) + minutes * MINUTE
    stage.price(MIDNIGHT - timedelta(days=9), 2_400_000)
    for at in (MIDNIGHT - timedelta(days=2), MIDNIGHT - 90 * MINUTE, MIDNIGHT):
        stage.late(at, 30, 0, Meter.GPU_HELD, True)
    for step in history:
        stage.keep(now)
        stage.do(step)
        stage.look(now)
    stage.keep(now)
    stage.look(now)
    assert kept_check() == []


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    """What runs since October, and more than is worth adding up has ended by noon."""
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, MIDNIGHT - timedelta(days=9), None)
    for number in range(MANY):
        start = MIDNIGHT + number * 5 * MINUTE
        interval_make(row, h100, start, start + 3 * MINUTE, meter=Meter.GPU_ALLOCATED)
    return row


def kept_today() -> KeptMonth | None:
    return KeptMonth.objects.filter(month=NOVEMBER.replace(day=2)).first()


def same(project: Project) -> bool:
    return all(
        cells(project, slots, EVENING, by, stored=True) == cells(project, slots, EVENING, by, stored=False)
        for slots in (MONTHS, DAYS)
        for by in (False, True)
    )


def test_a_look_in_the_evening_reads_no_interval_that_ended_in_a_part(workspace: Workspace) -> None:
    usage_keep(now=EVENING)
    today = kept_today()
    assert today is not None
    assert today.starts_at == MIDNIGHT
    assert today.until == part_until(EVENING) == MIDNIGHT + timedelta(hours=22, minutes=20)
    assert {row.starts_at for row in KeptDay.objects.filter(kept=today)} == {MIDNIGHT}
    assert not KeptHolder.objects.filter(kept=today).exists()
    assert same(workspace.project)
    KeptDay.objects.filter(kept=today, meter=Meter.GPU_ALLOCATED).update(unit_seconds=7)
    for slots in (MONTHS, DAYS):  # it is what was kept that the look shows
        found = cells(workspace.project, slots, EVENING, False, stored=True)
        assert [cell.unit_seconds for cell in found if cell.meter is Meter.GPU_ALLOCATED] == [7]


def test_few_that_ended_are_not_worth_a_part(workspace: Workspace) -> None:
    UsageInterval.objects.filter(started_at=MIDNIGHT).delete()
    usage_keep(now=EVENING)
    assert kept_today() is None
    assert same(workspace.project)


def test_a_part_is_added_up_anew_only_when_much_more_has_ended(workspace: Workspace) -> None:
    noon = MIDNIGHT + timedelta(hours=12)
    usage_keep(now=noon)
    first = kept_today()
    assert first is not None
    assert usage_keep(now=noon + 2 * PART) == 0
    for number in range(MANY):
        interval_make(
            workspace,
            None,
            noon,
            noon + (number + 1) * timedelta(seconds=1),
            meter=Meter.VCPU_HELD,
            resource="vcpu",
        )
    assert usage_keep(now=noon + 3 * PART) == 1
    again = kept_today()
    assert again is not None
    assert again.until > first.until
    assert same(workspace.project)


def test_what_changes_today_voids_today_and_no_more(workspace: Workspace) -> None:
    usage_keep(now=EVENING)
    interval_make(
        workspace, None, MIDNIGHT + 7 * MINUTE, MIDNIGHT + 8 * MINUTE, meter=Meter.VCPU_HELD, resource="vcpu"
    )
    today = kept_today()
    assert today is not None
    assert today.until == today.starts_at
    assert KeptMonth.objects.get(month=NOVEMBER).until == past_until(EVENING)
    assert same(workspace.project)
    assert usage_keep(now=EVENING) == 1
    assert same(workspace.project)
    assert kept_check() == []


def test_a_day_that_is_over_is_a_part_of_its_month(workspace: Workspace) -> None:
    usage_keep(now=EVENING)
    usage_keep(now=EVENING + timedelta(hours=3))
    assert kept_today() is None
    assert KeptMonth.objects.get(month=NOVEMBER).until == MIDNIGHT + timedelta(days=1)
    assert same(workspace.project)
    assert kept_check() == []


def test_the_first_day_of_a_month_is_its_month(workspace: Workspace) -> None:
    UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED).delete()
    midnight = MIDNIGHT - timedelta(days=1)
    for number in range(MANY):
        interval_make(
            workspace,
            None,
            midnight,
            midnight + (number + 1) * MINUTE,
            meter=Meter.VCPU_HELD,
            resource="vcpu",
        )
    usage_keep(now=midnight + timedelta(hours=20))
    assert KeptMonth.objects.get(month=NOVEMBER).until == midnight + timedelta(hours=20) - PART
    assert same(workspace.project)
    usage_keep(now=EVENING)
    assert KeptMonth.objects.get(month=NOVEMBER).until == MIDNIGHT
    assert same(workspace.project)


def test_the_statement_is_one_whatever_is_kept(workspace: Workspace) -> None:
    counts = set()
    for many in (10**6, MANY):
        usage_keep(now=EVENING, many=many)
        with CaptureQueriesContext(connection) as queries:
            cells(workspace.project, DAYS, EVENING, False, stored=True)
        counts.add(len(queries))
    assert counts == {2}

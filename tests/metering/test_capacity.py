"""Allocated + idle = capacity, exactly: a count second by second agrees, whatever changes and whoever holds what."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.months import Span, day_span, month_span
from gpuaas.catalog.models import Flavor, GpuPool, Node
from gpuaas.core.errors import NotFound
from gpuaas.metering.capacity import Used, capacity_used
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from quotas.history import LATE
from quotas.models import CapacityStretch, CapacityWatch
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.lasting import lasting

# midnight in Berlin, where the clock was changed the night before
BOUND = day_span(utc("2026-10-26 12:00:00").date()).starts_at
WINDOW = 400
ORIGIN = BOUND - timedelta(seconds=WINDOW // 2)
DAYS = [day_span((BOUND + timedelta(days=days, hours=12)).date()) for days in (-1, 0)]
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

Change = tuple[int, int, bool]  # from, devices, known
Taken = tuple[int, int, int, str]  # from, seconds, devices, what

changes = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(0, 6), st.booleans()),
    max_size=6,
    unique_by=lambda row: row[0],
)
takings = st.lists(
    st.tuples(
        st.integers(0, WINDOW), st.integers(1, 300), st.integers(1, 4), st.sampled_from(["held", "running"])
    ),
    max_size=7,
)


def at(seconds: int) -> datetime:
    return ORIGIN + timedelta(seconds=seconds)


def had(flavor: Flavor, devices: int, start: datetime, end: datetime | None, *, known: bool = True) -> None:
    pool = flavor.pool
    CapacityStretch.objects.create(
        site=pool.site, gpu_type=pool.gpu_type, devices=devices, known=known, starts_at=start, ends_at=end
    )


def seen(flavor: Flavor, when: datetime) -> None:
    CapacityWatch.objects.update_or_create(site=flavor.pool.site, defaults={"seen_at": when})


@contextmanager
def undone() -> Iterator[None]:
    """What one example writes is gone before the next."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def second_by_second(found: list[Change], took: list[Taken], until: int) -> dict[date, Used]:
    """By day, counted by hand: at each second what was there, whether anybody looked, what was held and what ran."""
    sums: dict[date, dict[str, int]] = {
        span.day: dict.fromkeys(Used.__dataclass_fields__, 0) for span in DAYS
    }
    for second in range(until):
        day = next(span.day for span in DAYS if span.starts_at <= at(second) < span.ends_at)
        before = [change for change in found if change[0] <= second]
        devices, known = (before[-1][1], before[-1][2]) if before else (0, False)
        held = sum(row[2] for row in took if row[0] <= second < row[0] + row[1] and row[3] == "held")
        running = sum(row[2] for row in took if row[0] <= second < row[0] + row[1] and row[3] == "running")
        row = sums[day]
        row["held"] += held
        row["running"] += running
        if not known:
            row["unknown"] += devices
            row["unseen"] += max(held, running)
            continue
        row["capacity"] += devices
        free = devices
        ran = min(running, free)
        row["in_use"] += ran
        free -= ran
        kept = min(max(held - running, 0), free)
        row["unused"] += kept
        row["idle"] += free - kept
        row["over"] += max(max(held, running) - devices, 0)
    return {day: Used(**counted) for day, counted in sums.items()}


@given(found=changes, took=takings, until=st.integers(1, WINDOW + 300), goes_on=st.booleans())
@QUICK
def test_a_count_second_by_second_agrees(
    found: list[Change],
    took: list[Taken],
    until: int,
    goes_on: bool,
    workspace: Workspace,
    h100: Flavor,
    as_olga: Actor,
) -> None:
    with undone():
        ordered = sorted(found)
        # the last stretch is open, and an open one is known
        ordered = [*ordered[:-1], (*ordered[-1][:2], True)] if ordered else []
        for number, (start, devices, known) in enumerate(ordered):
            end = ordered[number + 1][0] if number + 1 < len(ordered) else None
            had(h100, devices, at(start), None if end is None else at(end), known=known)
        last = ordered[-1][0] if ordered else 0
        seen(h100, at(until) if goes_on else at(last))
        if ordered and not goes_on and until - last > LATE.total_seconds():
            ordered.append((last, ordered[-1][1], False))
        for start, lasts, quantity, what in took:
            meter = Meter.GPU_HELD if what == "held" else Meter.GPU_ALLOCATED
            interval_make(workspace, h100, at(start), at(start + lasts), quantity=quantity, meter=meter)

        rows = capacity_used(actor=as_olga, slots=DAYS, now=at(until))

        wanted = second_by_second(ordered, took, until)
        assert {row.day: row.used for row in rows} == {
            day: used for day, used in wanted.items() if used != Used()
        }
        for used in (row.used for row in rows):
            assert used.allocated + used.idle == used.capacity
            assert min(used.idle, used.over, used.unused) >= 0
        months = capacity_used(actor=as_olga, slots=[month_span(date(2026, 10, 1))], now=at(until))
        assert sum((row.used for row in months), Used()) == sum(wanted.values(), Used())


def test_what_is_open_counts_up_to_now_and_a_silent_site_is_not_known(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    had(h100, 4, at(0), None)
    interval_make(workspace, h100, at(0), None, quantity=3)
    interval_make(workspace, h100, at(0), None, quantity=1, meter=Meter.GPU_ALLOCATED)
    seen(h100, at(100))
    (row,) = capacity_used(actor=as_olga, slots=DAYS, now=at(200))[:1]
    assert (row.site, row.gpu_type, row.gpu_type_name) == ("ber-1", "h100-sxm-80gb", "H100 SXM 80 GB")
    assert row.used == Used(800, 200, 400, 200, 0, 0, 0, 600, 200)
    late = sum((row.used for row in capacity_used(actor=as_olga, slots=DAYS, now=at(300))), Used())
    assert late == Used(400, 100, 200, 100, 0, unknown=800, unseen=600, held=900, running=300)


def test_pods_of_a_model_that_is_not_sold_take_their_place(
    workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    """Two pools count by one name: the node says which it is."""
    l40s = GpuPool.objects.get(site=h100.pool.site, gpu_type__slug="l40s-48gb")
    Node.objects.create(site=h100.pool.site, pool=l40s, name="l-1", observed_at=at(0))
    had(h100, 4, at(0), None)
    CapacityStretch.objects.create(site=l40s.site, gpu_type=l40s.gpu_type, devices=2, starts_at=at(0))
    seen(h100, at(100))
    row = interval_make(workspace, None, at(0), at(50), quantity=2, meter=Meter.GPU_ALLOCATED)
    UsageInterval.objects.filter(pk=row.pk).update(node="l-1")
    used: dict[str, Used] = {}
    for each in capacity_used(actor=as_olga, slots=DAYS, now=at(100)):
        used[each.gpu_type_name] = used.get(each.gpu_type_name, Used()) + each.used
    assert used["L40S 48 GB"] == Used(200, 100, 0, 100, running=100)
    assert used["H100 SXM 80 GB"] == Used(400, idle=400)


def test_slots_with_a_hole_between_them_count_neither_side_of_it(h100: Flavor, as_olga: Actor) -> None:
    had(h100, 1, at(0), None)
    seen(h100, at(300))
    slots = [Span(DAYS[0].day, at(10), at(20)), Span(DAYS[1].day, at(30), at(50))]
    found = capacity_used(actor=as_olga, slots=slots, now=at(300))
    assert [(row.day, row.used.idle) for row in found] == [(slots[0].day, 10), (slots[1].day, 20)]


def test_capacity_is_for_operators(h100: Flavor, as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        capacity_used(actor=as_alice, slots=DAYS)

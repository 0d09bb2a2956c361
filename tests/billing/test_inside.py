"""What jobs and environments have cost so far: what is charged of them by themselves, and their shares of their workspace."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Rate
from billing.selectors import statement
from billing.selectors.inside import InsideCost, inside_cost
from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import NotFound
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.metering.models import FinalMonth, Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.environments.stage import row_in as environment_in
from tests.jobs.stage import row_in as job_in
from tests.workspaces.spotted import spot_flavor

NOW, BEGIN = utc("2026-11-21 12:00:00"), utc("2026-01-01")
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def bought(project: Project, h100: Flavor, alice: User) -> Workspace:
    """Whose GPUs cost 2.40 an hour while it holds them."""
    rate_make(rate_card_ensure(), h100, 2_400_000, BEGIN)
    return workspace_make(project, h100, alice)


@pytest.fixture
def borrowed(project: Project, h100: Flavor, alice: User) -> Workspace:
    """Whose GPUs cost 0.96 an hour while they run."""
    spot = spot_flavor(h100)
    rate_make(rate_card_ensure(), spot, 960_000, BEGIN, meter=Meter.GPU_ALLOCATED)
    room = workspace_make(project, spot, alice, name="borrowed")
    Workspace.objects.filter(pk=room.pk).update(notice_seconds=120)
    return Workspace.objects.get(pk=room.pk)


def job_at(room: Workspace, flavor: Flavor, name: str = "a", **changes: Any) -> Job:
    row = job_in(room, name, pool=flavor.pool, gpus=1, vcpus=8, memory_gib=64, **changes)
    Job.objects.filter(pk=row.pk).update(created_at=NOW - 8 * HOUR)
    return Job.objects.select_related("project", "workspace").get(pk=row.pk)


def lab_at(room: Workspace, flavor: Flavor, **changes: Any) -> Environment:
    row = environment_in(room, "lab", pool=flavor.pool, gpus=1, vcpus=4, memory_gib=16, **changes)
    return Environment.objects.select_related("project", "workspace").get(pk=row.pk)


def had(
    room: Workspace, flavor: Flavor | None, pod: str, start: timedelta, end: timedelta | None, count: int = 1
) -> None:
    """GPUs of a pod, so long ago; None: it still has them."""
    ended_at = None if end is None else NOW - end
    made = interval_make(room, flavor, NOW - start, ended_at, quantity=count, meter=Meter.GPU_ALLOCATED)
    UsageInterval.objects.filter(pk=made.pk).update(consumer_name=pod)


def cost(actor: Actor, row: Job | Environment) -> InsideCost:
    return inside_cost(actor=actor, row=row, now=NOW)


def sums(actor: Actor, row: Job | Environment) -> tuple[str, str, int, bool]:
    found = cost(actor, row)
    return str(found.charged), str(found.included), found.gpu_seconds, found.complete


def test_borrowed_gpus_are_charged_by_themselves(borrowed: Workspace, as_alice: Actor) -> None:
    spot = Flavor.objects.get(price_class="spot")
    job, other = job_at(borrowed, spot), job_at(borrowed, spot, "a-b")
    had(borrowed, spot, f"{job.external_name}-x7k2p", 2 * HOUR, HOUR, 2)
    had(borrowed, spot, f"{job.external_name}-b4c5d", timedelta(seconds=61), None)
    had(borrowed, spot, f"{other.external_name}-x7k2p", 5 * HOUR, None, 4)
    had(borrowed, spot, "train-0", 5 * HOUR, None)
    assert sums(as_alice, job) == ("1.936267", "0.00", 7261, True)
    assert cost(as_alice, job).currency == "EUR"
    Rate.objects.all().delete()
    assert sums(as_alice, job) == ("0.00", "0.00", 7261, False)


def test_of_what_is_held_it_is_a_share(bought: Workspace, h100: Flavor, as_alice: Actor) -> None:
    card = rate_card_ensure()
    rate_make(card, None, 30_000, BEGIN, meter=Meter.VCPU_HELD)
    rate_make(card, None, 4_000, BEGIN, meter=Meter.MEMORY_HELD)
    job = job_at(bought, h100, tasks=3)
    for number in range(3):
        had(bought, h100, f"{job.external_name}-{number}-x7k2p", 2 * HOUR, HOUR, 2)
    assert sums(as_alice, job) == ("0.00", "15.888", 21600, True)  # 3 × (2 × 2.40 + 8 × 0.03 + 64 × 0.004)


def test_workers_are_counted_by_their_own_sizes(bought: Workspace, h100: Flavor, as_alice: Actor) -> None:
    rate_make(rate_card_ensure(), None, 30_000, BEGIN, meter=Meter.VCPU_HELD)
    lab = lab_at(bought, h100, workers=2, worker_gpus=1, worker_vcpus=10, worker_memory_gib=1)
    for pod in (*lab.pods, f"{lab.external_name}-w3", f"{lab.external_name}-x"):
        had(bought, h100, pod, HOUR, None)
    assert sums(as_alice, lab) == (
        "0.00",
        str(3 * Decimal("2.40") + (4 + 2 * 10) * Decimal("0.03")),
        10800,
        True,
    )


def test_where_use_is_charged_it_is_no_share(
    project: Project, h100: Flavor, alice: User, as_alice: Actor
) -> None:
    rate_make(rate_card_ensure(), h100, 3_000_000, BEGIN, meter=Meter.GPU_ALLOCATED, minimum_seconds=300)
    room = workspace_make(project, h100, alice)
    job = job_at(room, h100)
    had(room, h100, f"{job.external_name}-x7k2p", HOUR, HOUR - timedelta(seconds=60))
    assert sums(as_alice, job) == ("0.25", "0.00", 60, True), "a session is charged for 300 seconds at least"


def test_each_second_at_the_price_of_its_own_time(bought: Workspace, h100: Flavor, as_alice: Actor) -> None:
    Rate.objects.update(valid_to=NOW - HOUR)
    rate_make(rate_card_ensure(), h100, 1_200_000, NOW - HOUR)
    job = job_at(bought, h100)
    had(bought, h100, f"{job.external_name}-x7k2p", 3 * HOUR, None)
    assert sums(as_alice, job)[1] == "6.00"


def test_tokens_of_an_endpoint_are_charged(bought: Workspace, h100: Flavor, as_alice: Actor) -> None:
    rate_make(rate_card_ensure(), None, 600_000, BEGIN, meter=Meter.TOKENS_OUT)
    lab = lab_at(bought, h100)
    for uid in (f"tokens:{lab.pk}:2026-11-20", f"tokens:{bought.pk}:2026-11-20"):
        made = interval_make(
            bought, None, NOW - HOUR, NOW - HOUR + timedelta(seconds=1), quantity=7200, meter=Meter.TOKENS_OUT, resource="tokens_out"
        )  # fmt: skip
        UsageInterval.objects.filter(pk=made.pk).update(consumer_uid=uid)
    assert sums(as_alice, lab) == ("1.20", "0.00", 0, True)


def test_what_has_no_price_is_no_zero(project: Project, h100: Flavor, alice: User, as_alice: Actor) -> None:
    room = workspace_make(project, h100, alice)
    job = job_at(room, h100)
    assert sums(as_alice, job) == ("0.00", "0.00", 0, True), "nothing of it ran"
    had(room, h100, f"{job.external_name}-x7k2p", HOUR, None)
    assert sums(as_alice, job) == ("0.00", "0.00", 3600, False)


def test_what_was_beyond_the_purchase_is_nobodys_share(
    bought: Workspace, h100: Flavor, as_alice: Actor
) -> None:
    job = job_at(bought, h100)
    had(bought, h100, f"{job.external_name}-x7k2p", HOUR, None)
    UsageInterval.objects.update(surplus=True)
    assert sums(as_alice, job)[1] == "0.00"


def test_who_may_see_it(
    bought: Workspace, h100: Flavor, as_bob: Actor, as_charlie: Actor, as_olga: Actor
) -> None:
    job = job_at(bought, h100)
    with pytest.raises(NotFound):
        cost(as_charlie, job)
    assert cost(as_bob, job).charged == cost(as_olga, job).charged == 0


def test_what_is_archived_is_told(bought: Workspace, h100: Flavor, as_alice: Actor) -> None:
    lab = lab_at(bought, h100)
    Environment.objects.update(created_at=utc("2026-02-01"))
    lab.refresh_from_db()
    assert cost(as_alice, lab).counted_since is None
    ends_at = utc("2026-07-01")
    FinalMonth.objects.create(month=utc("2026-06-01").date(), ends_at=ends_at, marked_at=NOW, archived_at=NOW)
    assert cost(as_alice, lab).counted_since == ends_at


@pytest.mark.parametrize("tiers", ["", "graduated"])
def test_queries_do_not_grow(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, tiers: str
) -> None:
    rate_make(
        rate_card_ensure(), h100, 2_000_000, BEGIN, tier_mode=tiers, tiers=[(10, 1_000_000)] if tiers else []
    )
    room = workspace_make(project, h100, alice)
    job = job_at(room, h100)
    asked = []
    for number in range(1, 41):
        had(room, h100, f"{job.external_name}-{number}-x7k2p", HOUR, None)
        if number in (1, 40):
            with CaptureQueriesContext(connection) as found:
                cost(as_alice, job)
            asked.append(len(found))
    assert asked == ([4, 4] if not tiers else [6, 6])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    pods=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2000), st.integers(1, 1500)), min_size=1, max_size=6
    ),
    prices=st.lists(
        st.tuples(st.integers(0, 2400), st.integers(0, 9_999_999)), max_size=3, unique_by=lambda row: row[0]
    ),
    tiers=st.sampled_from(["", "graduated", "volume"]),
    reached=st.integers(0, 9_999_999),
)
def test_jobs_together_cost_no_more_than_their_workspace(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, pods: list[tuple[int, int, int]],
    prices: list[tuple[int, int]], tiers: str, reached: int,
) -> None:  # fmt: skip
    """Which holds as many GPUs as its pods have at any time, whatever prices there are."""
    UsageInterval.objects.all().delete()
    Rate.objects.all().delete()
    room = Workspace.objects.filter(project=project).first() or workspace_make(project, h100, alice)
    jobs = list(Job.objects.filter(workspace=room).order_by("name")) or [
        job_at(room, h100, name) for name in ("a", "a-b", "b", "c")
    ]
    jobs = [Job.objects.select_related("project", "workspace").get(pk=row.pk) for row in jobs]
    first, ordered = NOW - timedelta(seconds=4000), sorted(prices)
    interval_make(room, h100, first, NOW, quantity=len(pods))
    for number, (whose, start, lasts) in enumerate(pods):
        name = f"{jobs[whose].external_name}-{number}-x7k2p"
        had(room, h100, name, timedelta(seconds=4000 - start), timedelta(seconds=4000 - start - lasts))
    for number, (start, micro) in enumerate(ordered):
        end = first + timedelta(seconds=ordered[number + 1][0]) if number + 1 < len(ordered) else None
        terms: dict[str, Any] = {"tier_mode": tiers, "tiers": [(1, reached)] if tiers else []}
        rate_make(rate_card_ensure(), h100, micro, first + timedelta(seconds=start), end, **terms)
    shares = [cost(as_alice, job) for job in jobs]
    lines = [
        line
        for line in statement(actor=as_alice, project=project, now=NOW).lines
        if line.unit_price is not None
    ]
    whole = sum(Fraction(line.unit_price or 0) * line.unit_seconds / 3600 for line in lines)
    assert sum(Fraction(each.included) for each in shares) <= whole + Fraction(len(jobs), 2_000_000)
    assert sum(each.gpu_seconds for each in shares) == sum(lasts for *_, lasts in pods)
    assert all(each.charged == 0 for each in shares)
    if ordered and ordered[0][0] == 0 and not tiers:
        assert all(each.complete for each in shares)


def test_what_a_price_adds_to_a_session_counts_beyond_the_end_of_its_month(
    borrowed: Workspace, as_alice: Actor
) -> None:
    """Five minutes, charged as an hour, of which ten minutes are in October."""
    spot = Flavor.objects.get(price_class="spot")
    Rate.objects.update(minimum_seconds=3600)
    row, end = job_at(borrowed, spot), utc("2026-10-31 23:00:00")
    minutes = timedelta(minutes=1)
    had(borrowed, spot, f"{row.external_name}-0", NOW - end + 10 * minutes, NOW - end + 5 * minutes)
    months = [
        statement(actor=as_alice, project=borrowed.project, month=month, now=NOW).total
        for month in (end - HOUR, end + HOUR)
    ]
    assert months == [Decimal("0.16"), Decimal("0.80")]
    assert sums(as_alice, row) == ("0.96", "0.00", 300, True)

"""The SQL agrees with a second-by-second count; views add up; months partition; order is nothing."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import selectors
from billing.models import Rate, RateCard
from billing.months import month_span
from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.oracle import Priced, Used, lines
from tests.billing.stage import interval_make, utc, version_make, workspace_make

# The end of October 2026 in Berlin, an hour after its clock change: the month's bound is inside the window.
BOUND = month_span(date(2026, 11, 1)).starts_at
WINDOW = 600
NOW = utc("2026-12-24 00:00:00")
QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

used = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(1, 400), st.integers(1, 9), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)
priced = st.lists(
    st.tuples(st.integers(0, WINDOW + 200), st.integers(0, 9_999_999)),
    max_size=4,
    unique_by=lambda row: row[0],
)


def stage_set(
    workspaces: list[Workspace], flavor: Flavor, usage: list[Any], prices: list[Any]
) -> list[Priced]:
    UsageInterval.objects.all().delete()
    Rate.objects.all().delete()
    origin = BOUND - timedelta(seconds=WINDOW / 2)
    for start, lasts, quantity, who in usage:
        first = origin + timedelta(seconds=start)
        interval_make(workspaces[who], flavor, first, first + timedelta(seconds=lasts), quantity=quantity)
    ordered = sorted(prices)
    card: RateCard = rate_card_ensure()
    rates = []
    for number, (start, micro) in enumerate(ordered):
        following = ordered[number + 1][0] if number + 1 < len(ordered) else None
        end = None if following is None else origin + timedelta(seconds=following)
        rates.append(Priced(origin + timedelta(seconds=start), end, micro))
        Rate.objects.create(
            card=card,
            version=version_make(card, rates[-1].start),
            flavor=flavor,
            meter=Meter.GPU_HELD,
            price_micro=micro,
            valid_from=rates[-1].start,
            valid_to=end,
            created_by="olga",
        )
    return rates


def make_three(project: Project, flavor: Flavor, user: User) -> list[Workspace]:
    found = list(Workspace.objects.filter(project=project).order_by("name"))
    return found or [workspace_make(project, flavor, user, name=f"train-{n}") for n in range(3)]


@given(usage=used, prices=priced)
@QUICK
def test_the_statement_is_the_second_by_second_count(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, usage: list[Any], prices: list[Any]
) -> None:
    workspaces = make_three(project, h100, alice)
    rates = stage_set(workspaces, h100, usage, prices)
    origin = BOUND - timedelta(seconds=WINDOW / 2)
    counted = [
        Used(origin + timedelta(seconds=start), origin + timedelta(seconds=start + lasts), quantity)
        for start, lasts, quantity, _ in usage
    ]
    for month in (date(2026, 10, 1), date(2026, 11, 1)):
        span = month_span(month)
        expected = lines(counted, rates, span.starts_at, span.ends_at)
        found = selectors.statement(actor=as_alice, project=project, month=month, now=NOW)
        assert {
            None if line.unit_price is None else int(line.unit_price * 1_000_000): (
                line.unit_seconds,
                None if line.amount is None else int(line.amount * 100),
            )
            for line in found.lines
        } == expected
        assert found.total == sum((line.amount or Decimal(0) for line in found.lines), Decimal(0))


@given(usage=used, prices=priced)
@QUICK
def test_days_and_workspaces_add_up_to_the_statement(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, usage: list[Any], prices: list[Any]
) -> None:
    workspaces = make_three(project, h100, alice)
    stage_set(workspaces, h100, usage, prices)
    for month in (date(2026, 10, 1), date(2026, 11, 1)):
        found = selectors.statement(actor=as_alice, project=project, month=month, now=NOW)
        days = selectors.cost_by_day(actor=as_alice, project=project, month=month, now=NOW)
        shares = selectors.cost_by_holder(actor=as_alice, project=project, month=month, now=NOW)
        assert sum(row.amount for row in days) == found.total
        assert sum(row.amount for row in shares) == found.total
        assert sum(row.gpu_seconds for row in days) == found.gpu_seconds
        assert sum(row.gpu_seconds for row in shares) == found.gpu_seconds


@given(usage=used, prices=priced)
@QUICK
def test_months_partition_usage(
    project: Project, h100: Flavor, alice: User, as_alice: Actor, usage: list[Any], prices: list[Any]
) -> None:
    """No second is lost or counted twice at a month's bound; a workspace's cost is the sum of its months' shares."""
    workspaces = make_three(project, h100, alice)
    stage_set(workspaces, h100, usage, prices)
    months = [date(2026, 9, 1), date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1)]
    found = [selectors.statement(actor=as_alice, project=project, month=month, now=NOW) for month in months]
    assert sum(row.gpu_seconds for row in found) == sum(lasts * quantity for _, lasts, quantity, _ in usage)
    costs = [selectors.holder_cost(actor=as_alice, holder=row, now=NOW) for row in workspaces]
    assert sum(costs) == sum(row.total for row in found)


@given(usage=used, prices=priced, cut=st.integers(1, 399))
@QUICK
def test_cutting_an_interval_changes_nothing(
    project: Project,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    usage: list[Any],
    prices: list[Any],
    cut: int,
) -> None:
    workspaces = make_three(project, h100, alice)
    stage_set(workspaces, h100, usage, prices)
    before = selectors.statement(actor=as_alice, project=project, month=date(2026, 11, 1), now=NOW)
    pieces = [
        piece
        for start, lasts, quantity, who in reversed(usage)
        for piece in (
            (start, min(cut, lasts), quantity, who),
            (start + cut, lasts - cut, quantity, who),
        )
        if piece[1] > 0
    ]
    stage_set(workspaces, h100, pieces, prices)
    after = selectors.statement(actor=as_alice, project=project, month=date(2026, 11, 1), now=NOW)
    assert after == before

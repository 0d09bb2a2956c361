"""What is past is added up once: kept and running together are what rating from nothing says, after whatever has happened."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import Discount, KeptDay, KeptHolder, KeptMonth, Rate, RateCard
from billing.months import month_days, month_span
from billing.rating import Cell, Slots, rate_usage
from billing.services import rate_card_ensure
from billing.services.keeping import kept_check, usage_keep
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster
from gpuaas.metering.models import Meter, MeterGap, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.stage import cluster_make, interval_make, rate_make, utc, workspace_make

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
# two days before and four after the month's bound in Berlin, an hour's change of the clock a week before
ORIGIN = utc("2026-10-29 23:00:00")
HOURS = 24 * 6
METERS = (Meter.GPU_HELD, Meter.GPU_ALLOCATED, Meter.VCPU_HELD)
LONG = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

moments = st.integers(0, HOURS * 60).map(
    lambda minutes: ORIGIN + timedelta(minutes=minutes, seconds=minutes % 60)
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("start"),
            moments,
            st.integers(0, 3),
            st.integers(1, 9),
            st.sampled_from(METERS),
            st.booleans(),
        ),
        st.tuples(st.just("end"), moments, st.integers(0, 20)),
        st.tuples(st.just("shrink"), moments, st.integers(0, 20)),
        st.tuples(st.just("correct"), st.integers(1, 9), st.integers(0, 20)),
        st.tuples(st.just("surplus"), st.integers(0, 20)),
        st.tuples(st.just("sold"), st.integers(0, 20)),
        st.tuples(st.just("delete"), st.integers(0, 20)),
        st.tuples(st.just("price"), moments, st.integers(0, 9_999_999)),
        st.tuples(st.just("discount"), moments, st.integers(1, 9_999)),
        st.tuples(st.just("gap"), moments, st.integers(1, 600)),
        st.tuples(st.just("keep"), moments),
        st.tuples(st.just("look"), moments),
    ),
    min_size=4,
    max_size=14,
)


class Stage:
    """One project with two workspaces and two clusters, and what may happen to its usage and prices."""

    def __init__(self, project: Project, flavor: Flavor, user: User) -> None:
        self.project, self.flavor = project, flavor
        found = [*Workspace.objects.filter(project=project), *Cluster.objects.filter(project=project)]
        self.holders: list[Any] = found or [
            *(workspace_make(project, flavor, user, name=f"w-{n}") for n in range(2)),
            *(cluster_make(project, flavor, user, name=f"c-{n}") for n in range(2)),
        ]

    def clear(self) -> None:
        for model in (UsageInterval, Rate, Discount, MeterGap, KeptDay, KeptHolder, KeptMonth):
            model.objects.all().delete()

    def do(self, step: tuple[Any, ...]) -> None:
        what, *values = step
        getattr(self, what)(*values)

    def start(self, at: datetime, who: int, quantity: int, meter: Meter, sold: bool) -> None:
        flavor = None if meter is Meter.VCPU_HELD or not sold else self.flavor
        name = "vcpu" if meter is Meter.VCPU_HELD else "nvidia.com/gpu"
        interval_make(self.holders[who], flavor, at, None, quantity=quantity, meter=meter, resource=name)

    def end(self, at: datetime, which: int) -> None:
        with self.one(which) as row:
            row.ended_at = max(at, row.started_at)

    def shrink(self, at: datetime, which: int) -> None:
        """It began at another time than was told."""
        with self.one(which) as row:
            row.started_at = at if row.ended_at is None else min(at, row.ended_at)

    def correct(self, quantity: int, which: int) -> None:
        with self.one(which) as row:
            row.quantity = quantity

    def surplus(self, which: int) -> None:
        with self.one(which) as row:
            row.surplus = not row.surplus

    def sold(self, which: int) -> None:
        with self.one(which) as row:
            row.flavor = None if row.flavor else self.flavor

    def delete(self, which: int) -> None:
        found = list(UsageInterval.objects.order_by("pk"))
        if found:
            found[which % len(found)].delete()

    @contextmanager
    def one(self, which: int) -> Iterator[UsageInterval]:
        found = list(UsageInterval.objects.order_by("pk"))
        row = found[which % len(found)] if found else UsageInterval(started_at=ORIGIN)
        yield row
        if found:
            row.save()

    def price(self, at: datetime, micro: int) -> None:
        """A price of that time on: also one that is dated back."""
        card: RateCard = rate_card_ensure()
        Rate.objects.filter(card=card, valid_from__gte=at).delete()
        Rate.objects.filter(card=card).exclude(valid_to__lte=at).update(valid_to=at)
        rate_make(card, self.flavor, micro, at)

    def tiers(self, at: datetime, micro: int, mode: str) -> None:
        """A price of that time on, which is another one after an hour of a unit."""
        self.price(at, micro)
        rate = Rate.objects.get(card=rate_card_ensure(), valid_from=at)
        Rate.objects.filter(pk=rate.pk).update(tier_mode=mode)
        rate.tiers.create(from_unit_hours=1, price_micro=micro // 2)

    def discount(self, at: datetime, points: int) -> None:
        Discount.objects.all().delete()
        Discount.objects.create(
            organization=self.project.organization, basis_points=points, valid_from=at, created_by="olga"
        )

    def gap(self, at: datetime, minutes: int) -> None:
        MeterGap.objects.get_or_create(
            site=self.holders[0].site, starts_at=at, defaults={"ends_at": at + timedelta(minutes=minutes)}
        )

    def keep(self, at: datetime) -> None:
        usage_keep(now=at, many=1)

    def look(self, at: datetime) -> None:
        for slots, by in SLOTS:
            assert cells(self.project, slots, at, by, stored=True) == cells(
                self.project, slots, at, by, stored=False
            )


def cells(project: Project, slots: Slots, now: datetime, by_holder: bool, *, stored: bool) -> list[Cell]:
    return rate_usage(slots=slots, now=now, projects=[project.pk], by_holder=by_holder, stored=stored)


MONTHS = Slots([OCTOBER, NOVEMBER], [month_span(OCTOBER), month_span(NOVEMBER)])
DAYS = Slots(
    [month for month in (OCTOBER, NOVEMBER) for _ in month_days(month)],
    [day for month in (OCTOBER, NOVEMBER) for day in month_days(month)],
)
SLOTS = [(MONTHS, False), (MONTHS, True), (DAYS, False), (DAYS, True)]


@given(history=steps, last=moments)
@LONG
def test_kept_and_running_are_rated_from_nothing(
    project: Project, h100: Flavor, alice: User, history: list[tuple[Any, ...]], last: datetime
) -> None:
    stage = Stage(project, h100, alice)
    stage.clear()
    for step in history:
        stage.keep(last)  # so that what happens next meets sums that are kept
        stage.do(step)
        if step[0] not in ("keep", "look"):
            stage.look(last)
    stage.keep(last)
    stage.look(last)
    stage.look(last + timedelta(days=40))
    assert kept_check() == []

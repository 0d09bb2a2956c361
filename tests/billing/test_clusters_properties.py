"""Clusters of any history are metered to the second, rated as by hand, and add up with the workspaces beside them."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing import selectors
from billing.months import month_span
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.holdings import holdings_end, holdings_set
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.spec import Takes
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import held_sync
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.oracle import Priced, Used, lines
from tests.billing.stage import cluster_make
from tests.billing.test_rating_properties import BOUND, NOW, WINDOW, make_three, priced, stage_set, used

ORIGIN = BOUND - timedelta(seconds=WINDOW / 2)
LATER = BOUND + timedelta(hours=1)
MONTHS = (date(2026, 10, 1), date(2026, 11, 1))
CORES, DISK = 4, 40  # of a control plane
DELETED = None
Held = tuple[int, int | None]  # from this second on: so many GPUs, none (asleep), or deleted

history = st.lists(
    st.tuples(st.integers(0, WINDOW), st.one_of(st.integers(0, 5), st.just(DELETED)), st.booleans()),
    max_size=6,
)
QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def live(cluster: Cluster, flavor: Flavor, asked: Iterable[tuple[int, int | None, bool]]) -> list[Held]:
    """Ordered, scaled, put to sleep and deleted in the order of time, synced now and then; what was held from when on."""
    held: list[Held] = []
    for second, gpus, synced in sorted(asked, key=lambda one: one[0]):
        moment = ORIGIN + timedelta(seconds=second, milliseconds=700)
        if gpus is DELETED:
            holdings_end(cluster=cluster, at=moment)
        else:
            amounts = {"vcpu": CORES + 8 * gpus, "memory": 16, "storage": DISK}
            items = [(flavor, gpus)] if gpus else []
            holdings_set(cluster=cluster, items=items, takes=Takes(amounts, {}), at=moment)
        held.append((second, gpus))
        if synced:
            held_sync(now=moment)
        if gpus is DELETED:
            break
    return held


def stretches(held: list[Held], end: datetime) -> list[tuple[datetime, datetime, int | None]]:
    """Written without a look at how holdings are rotated."""
    known = [(ORIGIN + timedelta(seconds=second), gpus) for second, gpus in held]
    return [(start, after, gpus) for (start, gpus), (after, _) in pairwise([*known, (end, DELETED)])]


@given(usage=used, prices=priced, histories=st.lists(history, min_size=1, max_size=3))
@QUICK
def test_what_is_held_is_metered_and_billed(
    project: Project,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    usage: list[tuple[int, int, int, int]],
    prices: list[tuple[int, int]],
    histories: list[list[tuple[int, int | None, bool]]],
) -> None:
    rates = stage_set(make_three(project, h100, alice), h100, usage, prices)
    Cluster.objects.all().delete()
    clusters = [cluster_make(project, h100, alice, name=f"sim-{number}") for number in range(len(histories))]
    known = {
        row: stretches(live(row, h100, asked), NOW) for row, asked in zip(clusters, histories, strict=True)
    }
    held_sync(now=NOW)
    assert held_sync(now=NOW) == 0

    gpus: dict[Cluster, list[Used]] = {}
    for row, found in known.items():
        gpus[row] = [Used(start, end, count) for start, end, count in found if count and start < end]
        _metered(row, Meter.GPU_HELD, gpus[row])
        alive = [(start, end, count) for start, end, count in found if count is not DELETED]
        _metered(
            row, Meter.VCPU_HELD, [Used(start, end, CORES + 8 * (count or 0)) for start, end, count in alive]
        )
        _metered(row, Meter.STORAGE_HELD, [Used(start, end, DISK) for start, end, _ in alive])

    rooms = [
        Used(ORIGIN + timedelta(seconds=start), ORIGIN + timedelta(seconds=start + lasts), quantity)
        for start, lasts, quantity, _ in usage
    ]
    billed = sum(_billed(as_alice, project, month, rates, rooms, gpus) for month in MONTHS)
    costs = [selectors.holder_cost(actor=as_alice, holder=row, now=LATER) for row in clusters]
    assert sum(costs) == billed


def _billed(
    actor: Actor,
    project: Project,
    month: date,
    rates: list[Priced],
    rooms: list[Used],
    gpus: dict[Cluster, list[Used]],
) -> Decimal:
    """The month is what the oracle says, and the shares of all add up to it; what the clusters cost in it."""
    start, end = month_span(month).starts_at, min(month_span(month).ends_at, LATER)
    counted = [_until(one, end) for one in (*rooms, *(one for found in gpus.values() for one in found))]
    at: dict[str, Any] = {"actor": actor, "project": project, "month": month, "now": end}
    said = selectors.statement(**at)
    assert {
        None if line.unit_price is None else int(line.unit_price * 1_000_000): (
            line.unit_seconds,
            None if line.amount is None else int(line.amount * 100),
        )
        for line in said.lines
        if line.meter is Meter.GPU_HELD
    } == lines(counted, rates, start, end)
    shares = selectors.cost_by_holder(**at)
    assert sum(row.amount for row in shares) == said.total
    assert sum(row.gpu_seconds for row in shares) == said.gpu_seconds
    of_clusters = {row.holder_id: row for row in shares if row.kind == "cluster"}
    for row, pieces in gpus.items():
        share = of_clusters.get(row.pk)
        assert (share.gpu_seconds if share else 0) == sum(_seconds(_until(one, end), start) for one in pieces)
    return sum((row.amount for row in of_clusters.values()), Decimal(0))


def _metered(row: Cluster, meter: Meter, expected: list[Used]) -> None:
    """Unit-seconds up to NOW, and nothing twice at any moment."""
    rows = UsageInterval.objects.filter(cluster=row, meter=meter).order_by("started_at", "ended_at")
    found = [(one.started_at, one.ended_at or NOW, one.quantity) for one in rows]
    assert sum(_seconds(Used(*one), ORIGIN) for one in found) == sum(
        _seconds(one, ORIGIN) for one in expected
    )
    for (_, end, _), (start, _, _) in pairwise(found):
        assert end <= start


def _until(one: Used, end: datetime) -> Used:
    return Used(one.start, max(one.start, min(one.end, end)), one.quantity)


def _seconds(one: Used, start: datetime) -> int:
    return max(int((one.end - max(one.start, start)).total_seconds()), 0) * one.quantity

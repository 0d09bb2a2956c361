"""What scaling by policy may spend, and what a policy would have cost over a recorded time."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import ceil

from django.db.models import Q

from billing.models import BLOCKING, Budget, Measure
from billing.money import HOUR, amount_of, charge_divisor, minor_places, price_of, round_half_up
from billing.months import month_of, month_span
from billing.quotes import WHOLE
from billing.readings import Reading, budgets_read
from billing.selectors.budgets import amount_shown, units_of
from billing.selectors.costs import currency_of
from billing.tariffs import Stretch, price_stretches
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.clusters.models import Cluster, ClusterHolding, ClusterPool, PoolSample, ScalingPolicy
from gpuaas.clusters.policies.facts import Cap, Rules, Signals
from gpuaas.clusters.policies.registry import policy_make
from gpuaas.clusters.policies.replay import GAP, Point, Purse, Setup, State, Tick, caps_of, horizon, replay
from gpuaas.clusters.reconcile.policies import Allowance
from gpuaas.clusters.selectors import cluster_require, usual_time
from gpuaas.clusters.services.policies import PolicyTerms, terms_check
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.lifecycle.holdings import GPU_HELD
from gpuaas.metering.models import Meter
from gpuaas.providers.base import Change
from tenants.actors import Actor
from tenants.roles import Permission

BOOT = 600  # seconds, where no scaling has shown how long it takes
HISTORY = timedelta(days=7)
HISTORY_MAX = timedelta(days=31)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LAST = 60  # seconds that the newest sample stands for
BUCKETS = 168
HOURS, MONEY = "gpu_hours", "money"


@dataclass(frozen=True)
class Work:
    """`workers` over [start, end)."""

    start: datetime
    end: datetime
    workers: int


class WorkerPrices:
    """The cost of a worker of a flavor for one organization over a time; its GPUs, and its vCPU and memory if those
    have prices."""

    def __init__(self, organization_id: uuid.UUID, flavor: Flavor, first: datetime, last: datetime) -> None:
        self.currency = currency_of(organization_id)
        self._sizes = {
            (flavor.pk, Meter.GPU_HELD): flavor.gpus,
            (None, Meter.VCPU_HELD): flavor.vcpus,
            (None, Meter.MEMORY_HELD): flavor.memory_gib,
        }
        found = price_stretches(first=first, last=last, organization_id=organization_id)
        self._stretches: list[Stretch] = [one for one in found if (one.flavor_id, one.meter) in self._sizes]
        edges = {first, last} | {
            at for one in self._stretches for at in (one.starts_at, one.ends_at) if first < at < last
        }
        self.pieces = [(start, end, self._at(start)) for start, end in pairwise(sorted(edges))]

    def at(self, moment: datetime) -> int:
        """An hour of one worker in the units of `Stretch.per_hour`; 0 if its GPUs have no price."""
        return next((each for start, end, each in self.pieces if start <= moment < end), 0)

    def charge(self, works: Iterable[Work]) -> int:
        """In units of which `minor_unit` make one minor unit of the currency."""
        return sum(
            work.workers * each * seconds
            for work in works
            for start, end, each in self.pieces
            if (seconds := int((min(end, work.end) - max(start, work.start)).total_seconds())) > 0
        )

    @property
    def minor_unit(self) -> int:
        return charge_divisor(self.currency) * WHOLE

    def amount(self, charge: int) -> Decimal:
        return amount_of(round_half_up(charge, self.minor_unit), self.currency)

    def _at(self, moment: datetime) -> int:
        now = [one for one in self._stretches if one.starts_at <= moment < one.ends_at]
        if not any(one.meter is Meter.GPU_HELD for one in now):
            return 0
        return sum(one.per_hour * self._sizes[one.flavor_id, one.meter] for one in now)


def boot_seconds(cluster: Cluster) -> int:
    """Seconds from a decision to working workers: the 90th percentile of the template's scalings."""
    usual = usual_time(template_id=cluster.template_version.template_id, kind=Change.SCALE)
    return BOOT if usual is None else max(1, round(usual.p90))


# -- while a policy runs ----------------------------------------------------------------------------------------------


def policy_allowance(policy: ScalingPolicy, now: datetime) -> Allowance:
    """What the policy's own caps and the budgets above it still pay for."""
    pool = ClusterPool.objects.select_related(
        "flavor__pool", "cluster__project__organization", "cluster__template_version"
    ).get(pk=policy.pool_id)
    organization = pool.cluster.project.organization
    month = month_span(month_of(now))
    prices = WorkerPrices(organization.pk, pool.flavor, month.starts_at, now + timedelta(seconds=1))
    each = prices.at(now)
    boot = boot_seconds(pool.cluster)
    purses = purses_of(policy.gpu_hours_month, policy.money_month, prices, pool.flavor)
    caps = []
    if purses:
        works = _worked(pool, month.starts_at, now)
        seconds = sum(work.workers * int((work.end - work.start).total_seconds()) for work in works)
        spent = {HOURS: seconds * pool.flavor.gpus, MONEY: prices.charge(works)}
        caps = caps_of(purses, spent, {HOURS: pool.flavor.gpus, MONEY: each}, count=pool.count, boot=boot)
    caps += _budget_caps(pool, prices, now, horizon(boot))
    priced = price_of(round_half_up(each, WHOLE)) if each else None
    return Allowance(tuple(caps), priced, prices.currency)


def purses_of(
    gpu_hours: int | None, money: Decimal | None, prices: WorkerPrices, flavor: Flavor
) -> tuple[Purse, ...]:
    """That of GPU-hours is kept in the flavor's devices, of which slices of a card are more."""
    found = []
    if gpu_hours is not None:
        words = (
            f"The policy may use {gpu_hours:,} GPU-hours a month; the rest is not enough for more workers."
        )
        found.append(Purse(HOURS, round(gpu_hours * HOUR / flavor.pool.card_share), words))
    if money is not None:
        minor = int(money * 10 ** minor_places(prices.currency))
        words = (
            f"The policy may spend {amount_of(minor, prices.currency):,f} {prices.currency} a month; the rest "
            "is not enough for more workers."
        )
        found.append(Purse(MONEY, minor * prices.minor_unit, words))
    return tuple(found)


def _worked(pool: ClusterPool, first: datetime, last: datetime) -> list[Work]:
    """What the pool's flavor held in its cluster, cut to [first, last); pools of one flavor count together."""
    rows = ClusterHolding.objects.filter(
        cluster=pool.cluster_id, project=pool.cluster.project_id, flavor=pool.flavor_id, meter=GPU_HELD
    )
    rows = rows.filter(Q(ended_at=None) | Q(ended_at__gt=first), started_at__lt=last)
    return [
        Work(max(row.started_at, first), min(row.ended_at or last, last), row.quantity // pool.flavor.gpus)
        for row in rows
    ]


def _budget_caps(pool: ClusterPool, prices: WorkerPrices, now: datetime, ahead: int) -> list[Cap]:
    """Growth does not start if a blocking budget could not pay for it for `ahead` seconds, beside everything that
    continues."""
    project = pool.cluster.project
    rows = Budget.objects.filter(
        Q(project=None) | Q(project=project),
        Q(cluster=None) | Q(cluster=pool.cluster_id),
        organization=project.organization_id,
        workspace=None,
        ended_at=None,
        thresholds__action__in=BLOCKING,
    )
    budgets = list(rows.distinct().select_related("organization", "project").prefetch_related("thresholds"))
    readings, units = budgets_read(budgets, now=now, anomalies=False), units_of(budgets)
    caps = []
    for budget in budgets:
        reading = readings.get(budget.pk)
        each = (
            -(-prices.at(now) * ahead // prices.minor_unit)
            if budget.measure == Measure.MONEY
            else ceil(pool.flavor.pool.in_cards(pool.flavor.gpus * ahead))
        )
        if reading is None or not each:
            continue
        left = _left(budget, reading, ahead)
        shown = amount_shown(budget, max(left, 0), units[budget.pk])
        words = (
            f"The budget {budget.name} has {shown} {units[budget.pk]} left before it blocks: not enough "
            "for more workers."
        )
        caps.append(Cap(max(pool.count, pool.confirmed) + max(left, 0) // each, words))
    return caps


def _left(budget: Budget, reading: Reading, ahead: int) -> int:
    """Until it blocks, less what everything held costs in `ahead` seconds."""
    percent = min(one.percent for one in budget.thresholds.all() if one.action in BLOCKING)
    to_go = max(int((reading.period.span.ends_at - reading.at).total_seconds()), ahead)
    pace = max(reading.forecast - reading.spent, 0) * ahead // to_go
    return budget.amount * percent // 100 - reading.spent - pace


# -- over what was recorded -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bucket:
    """An interval of the answer: the maximum of workers, of GPUs requested and of GPUs waited for, and the actual
    workers."""

    at: datetime
    workers: int
    actual: int
    demand_gpus: int
    pending_gpus: int


@dataclass(frozen=True)
class Total:
    """cost: by the prices of that time; None if unknown or not visible to the actor. waited_seconds: how long
    anything waited."""

    gpu_hours: Decimal
    cost: Decimal | None
    waited_seconds: int
    changes: int


@dataclass(frozen=True)
class DryRun:
    """recorded_seconds: the part of the period that has samples. boot: assumed start time of new workers in seconds."""

    since: datetime
    until: datetime
    recorded_seconds: int
    boot: int
    currency: str
    would: Total
    was: Total
    refused: int
    broken: str
    series: tuple[Bucket, ...]


def policy_dry_run(
    *,
    actor: Actor,
    cluster: Cluster,
    pool: str,
    terms: PolicyTerms,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DryRun:
    """What the terms would have done with the recorded signals of the pool, by default in the last 7 days. Writes
    nothing."""
    cluster_require(actor=actor, cluster=cluster, permission=Permission.WORKSPACE_VIEW)
    found = ClusterPool.objects.filter(cluster=cluster, name=pool).select_related("flavor__pool").first()
    if found is None:
        raise Invalid.field("pool", f"the cluster has no pool {pool[:40]!r}")
    settings = terms_check(cluster=cluster, pool=pool, terms=terms)
    last = clock.whole_second(until or clock.now())
    first = clock.whole_second(since) if since else last - min(HISTORY, last - EARLIEST)
    if not timedelta() < last - first <= HISTORY_MAX:
        raise Invalid.field(
            "since", f"choose a period of at most {HISTORY_MAX.days} days, from `since` to `until`"
        )
    prices = WorkerPrices(cluster.project.organization_id, found.flavor, first, last)
    setup = Setup(
        policy=policy_make(terms.kind, settings),
        rules=Rules(
            terms.minimum, terms.maximum, terms.step, terms.up_delay, terms.down_delay, terms.cool_down
        ),
        gpus=found.flavor.gpus,
        boot=boot_seconds(cluster),
        purses=purses_of(terms.gpu_hours_month, terms.money_month, prices, found.flavor),
    )
    samples = list(PoolSample.objects.filter(pool=found, at__gte=first, at__lt=last).order_by("at"))
    ticks = _ticks(samples, found.flavor.gpus, prices)
    began = samples[0].count if samples else 0
    _, points = replay(setup, ticks, State(max(terms.minimum, min(began, terms.maximum))))
    held = actor.on_project(cluster.project_id, cluster.project.organization_id)
    priced = prices if Permission.BILLING_VIEW in held and all(each for *_, each in prices.pieces) else None
    return _answered(first, last, setup, points, samples, priced, prices.currency, found.flavor.pool)


def _ticks(samples: Sequence[PoolSample], gpus: int, prices: WorkerPrices) -> list[Tick]:
    months = [month_span(month_of(one.at)) for one in samples[:1]]
    ticks = []
    for place, sample in enumerate(samples):
        if months[-1].ends_at <= sample.at:
            months.append(month_span(month_of(sample.at)))
        following = samples[place + 1].at if place + 1 < len(samples) else None
        gap = LAST if following is None else int((following - sample.at).total_seconds())
        ticks.append(
            Tick(
                Signals(sample.at, sample.used_gpus, sample.pending_gpus, sample.queued),
                seconds=min(gap, GAP),
                month=months[-1].day.isoformat(),
                room=sample.room,
                each={HOURS: gpus, MONEY: prices.at(sample.at)},
            )
        )
    return ticks


def _answered(
    first: datetime,
    last: datetime,
    setup: Setup,
    points: Sequence[Point],
    samples: Sequence[PoolSample],
    prices: WorkerPrices | None,
    currency: str,
    devices: GpuPool,
) -> DryRun:
    gpus = devices.in_cards(setup.gpus)
    actual = [sample.count for sample in samples]
    waited = [sample.pending_gpus > 0 for sample in samples]
    decisions = [point.decision for point in points if point.decision is not None]
    return DryRun(
        since=first,
        until=last,
        recorded_seconds=sum(point.seconds for point in points),
        boot=setup.boot,
        currency=currency,
        would=_total(
            gpus,
            points,
            [one.count for one in points],
            [one.pending_gpus > 0 for one in points],
            prices,
        ),
        was=_total(gpus, points, actual, waited, prices),
        refused=sum(bool(one.refused) for one in decisions),
        broken=next((one.reason for one in decisions if one.broken), ""),
        series=tuple(_series(points, actual)),
    )


def _total(
    gpus: Decimal,
    points: Sequence[Point],
    counts: Sequence[int],
    waited: Sequence[bool],
    prices: WorkerPrices | None,
) -> Total:
    works = [
        Work(point.at, point.at + timedelta(seconds=point.seconds), count)
        for point, count in zip(points, counts, strict=True)
    ]
    gpu_seconds = sum(point.seconds * count for point, count in zip(points, counts, strict=True)) * gpus
    return Total(
        gpu_hours=round(gpu_seconds / HOUR, 2),
        cost=None if prices is None else prices.amount(prices.charge(works)),
        waited_seconds=sum(point.seconds for point, waits in zip(points, waited, strict=True) if waits),
        changes=sum(one != other for one, other in pairwise(counts)),
    )


def _series(points: Sequence[Point], actual: Sequence[int]) -> Iterable[Bucket]:
    """At most BUCKETS intervals of equal length from the first sample to the last; those without a sample are left
    out."""
    if not points:
        return
    first = points[0].at
    length = max((points[-1].at - first) / BUCKETS, timedelta(seconds=LAST))
    found: dict[int, list[tuple[Point, int]]] = {}
    for point, count in zip(points, actual, strict=True):
        found.setdefault(min((point.at - first) // length, BUCKETS - 1), []).append((point, count))
    for place, held in found.items():
        yield Bucket(
            at=first + length * place,
            workers=max(point.count for point, _ in held),
            actual=max(count for _, count in held),
            demand_gpus=max(point.demand_gpus for point, _ in held),
            pending_gpus=max(point.pending_gpus for point, _ in held),
        )

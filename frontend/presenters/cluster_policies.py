"""Policies, their log and dry runs as pages show them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.urls import reverse

from billing.policies import DryRun
from frontend import formats
from frontend.charts import Chart, Series
from frontend.components import Notice, Stat
from gpuaas.clusters.models import Cluster, ClusterPool, ScalingDecision, ScalingOutcome, ScalingPolicy
from gpuaas.clusters.policies.registry import kinds
from gpuaas.core.looks import Tone

TONES = {
    ScalingOutcome.SCALED: Tone.OK,
    ScalingOutcome.REFUSED: Tone.WARN,
    ScalingOutcome.BROKEN: Tone.BAD,
}


@dataclass(frozen=True)
class PoolRow:
    """A pool with its policy, or without one."""

    pool: str
    flavor: str
    count: int
    kind: str
    bounds: str
    caps: str
    tone: Tone
    word: str
    url: str


@dataclass(frozen=True)
class DecisionRow:
    at: datetime
    pool: str
    kind: str
    tone: Tone
    word: str
    change: str
    reason: str
    refused: str
    seen: str
    price: str


@dataclass(frozen=True)
class Trial:
    """A dry run: numbers, a chart, and notices about how far to trust them."""

    stats: tuple[Stat, ...]
    chart: Chart | None
    notices: tuple[Notice, ...]


def url_of(cluster: Cluster, name: str = "policies", *args: object) -> str:
    return reverse(f"frontend:cluster_{name}", args=[cluster.project.slug, cluster.pk, *args])


def label_of(kind: str) -> str:
    found = kinds().get(kind)
    return found.label if found else f"{kind} (not installed)"


def rows_of(cluster: Cluster, policies: Iterable[ScalingPolicy], *, currency: str) -> list[PoolRow]:
    """Every pool of the cluster."""
    held = {policy.pool_id: policy for policy in policies}
    return [_row(cluster, pool, held.get(pool.pk), currency) for pool in cluster.pools.all()]


def _row(cluster: Cluster, pool: ClusterPool, policy: ScalingPolicy | None, currency: str) -> PoolRow:
    flavor = pool.flavor.name
    if policy is None:
        return PoolRow(pool.name, flavor, pool.count, "", "", "", Tone.OFF, "Manual", "")
    return PoolRow(
        pool=pool.name,
        flavor=flavor,
        count=pool.count,
        kind=label_of(policy.kind),
        bounds=f"{policy.minimum} to {policy.maximum}",
        caps=caps_of(policy, currency),
        tone=Tone.OK if policy.enabled else Tone.WAIT,
        word="Enabled" if policy.enabled else "Watch only",
        url=url_of(cluster, "policy", policy.pk),
    )


def caps_of(policy: ScalingPolicy, currency: str) -> str:
    caps = []
    if policy.gpu_hours_month is not None:
        caps.append(f"{policy.gpu_hours_month:,} GPU-hours")
    if policy.money_month is not None:
        caps.append(formats.money(policy.money_month, currency))
    return " and ".join(caps)


def decision_of(row: ScalingDecision, *, prices: bool) -> DecisionRow:
    outcome = ScalingOutcome(row.outcome)
    seen = row.signals
    price = f"{formats.signed_price(row.per_hour, row.currency)} an hour" if row.per_hour and prices else ""
    return DecisionRow(
        at=row.at,
        pool=row.pool,
        kind=label_of(row.kind),
        tone=TONES[outcome],
        word=outcome.label,
        change=f"{row.before} → {row.after}" if row.before != row.after else f"stays {row.before}",
        reason=row.reason,
        refused=row.refused,
        seen=f"{seen['used_gpus']} used, {seen['pending_gpus']} pending",
        price=price,
    )


def trial_of(run: DryRun, *, zone: ZoneInfo) -> Trial:
    if not run.series:
        text = "Once added, a policy records demand every minute, even while it is not enabled."
        return Trial((), None, (Notice(Tone.WAIT, "No data recorded yet", text),))
    stats = [
        Stat("GPU-hours", f"{run.would.gpu_hours:,}", note=f"actual: {run.was.gpu_hours:,}"),
        Stat(
            "Waiting",
            formats.duration(timedelta(seconds=run.would.waited_seconds)),
            note=f"actual: {formats.duration(timedelta(seconds=run.was.waited_seconds))}",
        ),
        Stat("Changes", str(run.would.changes), note=f"actual: {run.was.changes}"),
    ]
    if run.would.cost is not None:
        cost = formats.money(run.would.cost, run.currency)
        stats.insert(0, Stat("Cost", cost, note=f"actual: {formats.money(run.was.cost, run.currency)}"))
    return Trial(tuple(stats), _chart(run, zone), tuple(_notices(run)))


def _chart(run: DryRun, zone: ZoneInfo) -> Chart:
    gpus = [Decimal(one.workers) for one in run.series]
    series = (
        Series("workers with this policy", tuple(gpus)),
        Series("actual workers", tuple(Decimal(one.actual) for one in run.series)),
        Series("pending GPUs with this policy", tuple(Decimal(one.pending_gpus) for one in run.series)),
    )
    days = run.series[-1].at - run.series[0].at > timedelta(hours=20)
    shape = "%a %H:%M" if days else "%H:%M"
    return Chart(
        id="trial",
        title="Workers and pending GPUs",
        labels=tuple(one.at.astimezone(zone).strftime(shape) for one in run.series),
        series=series,
        kind="line",
        label_head="From",
        note="The maximum in each interval.",
    )


def _notices(run: DryRun) -> Iterable[Notice]:
    asked = int((run.until - run.since).total_seconds())
    recorded = formats.duration(timedelta(seconds=run.recorded_seconds))
    boot = formats.duration(timedelta(seconds=run.boot))
    if run.recorded_seconds < asked * 9 // 10:
        text = f"Only {recorded} of {formats.duration(timedelta(seconds=asked))} were recorded; the rest is not counted."
        yield Notice(Tone.WARN, "The data is incomplete", text)
    if run.broken:
        yield Notice(Tone.BAD, "The policy failed", run.broken)
    if run.refused:
        checks = f"{run.refused:,} check{'' if run.refused == 1 else 's'}"
        text = f"In {checks}, a limit, the site or a cap allowed fewer workers than the policy wanted."
        yield Notice(Tone.WARN, "The policy wanted more than was allowed", text)
    yield Notice(
        Tone.OFF,
        "How this was calculated",
        f"New workers are assumed to start in {boot}. Nothing was changed.",
    )

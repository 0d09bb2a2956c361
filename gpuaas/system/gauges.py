"""The state of the portal as Prometheus gauges, read from the database when it is asked.

They are the same in whichever process they are asked, so they have an address of their own (`/metrics/portal`): one
target to scrape, through the load balancer. What a process counts itself stays at `/metrics`.
Names and units follow Prometheus' conventions for naming: seconds, bytes, `_total` only for what never falls.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from billing.rating import LineStatus
from billing.running import open_lines
from billing.selectors.checklist import months_open
from gpuaas.backup.selectors import backup_last
from gpuaas.catalog.models import Site
from gpuaas.catalog.services.probe import AUTHORIZED
from gpuaas.clusters.models import Cluster, ClusterOperation
from gpuaas.clusters.states import ClusterState
from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.core.models import SEEN, Process, ProcessKind
from gpuaas.lifecycle.enforce import ENFORCED
from gpuaas.lifecycle.operations import OperationRow
from gpuaas.lifecycle.visits import REACHABLE
from gpuaas.metering.models import Meter
from gpuaas.metering.selectors import intervals_unsold, sites_metered
from gpuaas.system.work import work_list
from gpuaas.workspaces.models import Drift, Operation, Workspace
from gpuaas.workspaces.states import DriftState, WorkspaceState
from quotas.models import SiteCapacity

RECENT = timedelta(hours=1)
Samples = Sequence[tuple[Sequence[str], float]]


class Gauges(Collector):
    """One round of statements for each scrape; their number does not depend on how much there is."""

    def collect(self) -> Iterator[Metric]:
        now = clock.now()
        for part in PARTS:
            yield from part(now)


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    found.register(Gauges())
    return found


def processes(now: datetime) -> Iterator[Metric]:
    alive = Counter[str]()
    skews: dict[str, float] = {}
    claimed = 0.0
    for row in Process.objects.filter(seen_at__gt=now - SEEN):
        alive[row.kind] += 1
        skews[row.kind] = max(skews.get(row.kind, 0.0), abs(row.skew_seconds or 0.0))
        claimed = max(claimed, seconds(now, row.claim_since))
    yield gauge(
        "gpuaas_processes",
        "Processes that were seen within 15 seconds.",
        ("kind",),
        [((kind.value,), alive[kind.value]) for kind in ProcessKind.wanted()],
    )
    yield gauge(
        "gpuaas_clock_skew_seconds",
        "By how much the clock of a process differs from the database's, at most.",
        ("kind",),
        [((kind,), skew) for kind, skew in skews.items()],
    )
    yield gauge(
        "gpuaas_claim_oldest_seconds",
        "For how long the oldest claim of a process that is alive has been held; 0 if there is none.",
        (),
        [((), claimed)],
    )


def work(now: datetime) -> Iterator[Metric]:
    rows = [((row.kind.replace(" ", "_"),), row) for row in work_list(now)]
    yield gauge(
        "gpuaas_work_due",
        "Rows that wait for a worker.",
        ("kind",),
        [(kind, row.due) for kind, row in rows],
    )
    yield gauge(
        "gpuaas_work_oldest_due_seconds",
        "How long the oldest of them has waited.",
        ("kind",),
        [(kind, seconds(now, row.oldest)) for kind, row in rows],
    )
    yield gauge(
        "gpuaas_work_claimed",
        "Rows that a worker has claimed.",
        ("kind",),
        [(kind, row.claimed) for kind, row in rows],
    )


def holders(_now: datetime) -> Iterator[Metric]:
    counted = [
        *by_site("workspace", Workspace.objects.exclude(state=WorkspaceState.DELETED), "state"),
        *by_site("cluster", Cluster.objects.exclude(state=ClusterState.DELETED), "state"),
    ]
    yield gauge(
        "gpuaas_holders",
        "Workspaces and clusters that are not deleted.",
        ("holder", "site", "state"),
        counted,
    )


def enforcement(_now: datetime) -> Iterator[Metric]:
    counted: list[tuple[Sequence[str], float]] = []
    for holder, rows in (("workspace", Workspace.objects.all()), ("cluster", Cluster.objects.all())):
        late = rows.filter(conditions__has_key=ENFORCED).order_by().values_list("site__slug")
        counted += [((holder, slug), count) for slug, count in late.annotate(Count("pk"))]
    yield gauge(
        "gpuaas_not_ended",
        "Workspaces and clusters that a lease or a budget was to end, and that still run.",
        ("holder", "site"),
        counted,
    )


def operations(now: datetime) -> Iterator[Metric]:
    opened: list[tuple[Sequence[str], float]] = []
    oldest: list[tuple[Sequence[str], float]] = []
    finished: list[tuple[Sequence[str], float]] = []
    for holder, rows in OPERATIONS.items():
        site = f"{holder}__site__slug"
        waiting = rows().filter(finished_at__isnull=True).order_by().values_list(site, "kind")
        for slug, kind, count, since in waiting.annotate(Count("pk"), Min("requested_at")):
            opened.append(((holder, slug, kind), count))
            oldest.append(((holder, slug, kind), seconds(now, since)))
        ended = rows().filter(finished_at__gt=now - RECENT).order_by().values_list(site, "kind", "succeeded")
        for slug, kind, succeeded, count in ended.annotate(Count("pk")):
            outcome = {True: "succeeded", False: "failed", None: "overtaken"}[succeeded]
            finished.append(((holder, slug, kind, outcome), count))
    yield gauge(
        "gpuaas_operations_open",
        "Operations that are not finished.",
        ("holder", "site", "operation"),
        opened,
    )
    yield gauge(
        "gpuaas_operations_oldest_open_seconds",
        "How long ago the oldest of them was requested.",
        ("holder", "site", "operation"),
        oldest,
    )
    yield gauge(
        "gpuaas_operations_last_hour",
        "Operations that ended within the last hour.",
        ("holder", "site", "operation", "outcome"),
        finished,
    )


def sites(_now: datetime) -> Iterator[Metric]:
    rows = list(Site.objects.filter(enabled=True, removed_at__isnull=True))
    answers = [((slug,), value) for slug, value in known(rows, REACHABLE)]
    admits = [((slug,), value) for slug, value in known(rows, AUTHORIZED)]
    took = [((row.slug,), row.answer_ms / 1000) for row in rows if row.answer_ms is not None]
    yield gauge(
        "gpuaas_site_reachable",
        "1 if the site answered its last probe, whether it took the portal's credentials or not.",
        ("site",),
        answers,
    )
    yield gauge(
        "gpuaas_site_credentials_valid",
        "1 if the site took the portal's credentials; none while it does not answer.",
        ("site",),
        admits,
    )
    yield gauge("gpuaas_site_answer_seconds", "How long the last probe took.", ("site",), took)
    yield gauge(
        "gpuaas_site_fit",
        "1 if no check of the site blocks sales.",
        ("site",),
        [((row.slug,), float(row.fit)) for row in rows],
    )


def metering(now: datetime) -> Iterator[Metric]:
    lag = []
    for site in sites_metered().filter(reached_at__isnull=False).select_related("meter"):
        meter = getattr(site, "meter", None)
        since = meter.last_proof_at if meter is not None else None
        lag.append(((site.slug,), seconds(now, since or site.reached_at)))
    yield gauge(
        "gpuaas_meter_lag_seconds", "How long ago the meter last heard from the site.", ("site",), lag
    )
    unsold = intervals_unsold().order_by()
    yield gauge(
        "gpuaas_usage_unsold_intervals",
        "Open intervals of GPUs that no flavor sells: without a price by their name they are not billed.",
        ("site",),
        [((slug,), count) for slug, count in unsold.values_list("site__slug").annotate(Count("pk"))],
    )


def money(now: datetime) -> Iterator[Metric]:
    unpriced = {meter.value: 0 for meter in Meter if meter.value.startswith("gpu_")}
    for line in open_lines(now=now, projects=None):
        if line.status is LineStatus.QUARANTINED:
            unpriced[line.meter] += line.quantity
    yield gauge(
        "gpuaas_usage_unpriced_gpus",
        "GPUs that are metered now and have no price, sold by a flavor or not: their usage is not invoiced.",
        ("meter",),
        [((meter,), count) for meter, count in unpriced.items()],
    )
    yield gauge(
        "gpuaas_months_open",
        "Months whose grace period is over and that are not closed.",
        (),
        [((), months_open(now=now))],
    )


def drift(_now: datetime) -> Iterator[Metric]:
    rows = Drift.objects.filter(state=DriftState.OPEN).order_by().values_list("workspace__site__slug")
    yield gauge(
        "gpuaas_drift_open",
        "Workspaces whose objects at the site differ from what they should be.",
        ("site",),
        [((slug,), count) for slug, count in rows.annotate(Count("pk"))],
    )


def capacity(_now: datetime) -> Iterator[Metric]:
    rows = list(
        SiteCapacity.objects.filter(site__removed_at__isnull=True)
        .select_related("site")
        .order_by("site__slug", "resource")
    )

    def figures(name: str) -> Samples:
        found = [((row.site.slug, row.resource), getattr(row, name)) for row in rows]
        return [(labels, figure) for labels, figure in found if figure is not None]

    yield gauge(
        "gpuaas_capacity_healthy",
        "Healthy devices at the site.",
        ("site", "resource"),
        figures("healthy"),
    )
    yield gauge(
        "gpuaas_capacity_sellable",
        "What may be sold of them; absent where the site does not count it.",
        ("site", "resource"),
        figures("hard"),
    )
    yield gauge(
        "gpuaas_capacity_reserved",
        "What is reserved by workspaces and clusters.",
        ("site", "resource"),
        figures("used"),
    )


def backups(_now: datetime) -> Iterator[Metric]:
    last = backup_last()
    yield gauge(
        "gpuaas_backup_last_timestamp_seconds",
        "The instant whose state the newest backup holds; 0 if none was ever made, absent where none is expected.",
        (),
        [((), last.taken_at.timestamp() if last is not None else 0)] if settings.BACKUPS_EXPECTED else [],
    )


PARTS: tuple[Callable[[datetime], Iterator[Metric]], ...] = (
    processes,
    work,
    holders,
    enforcement,
    operations,
    sites,
    metering,
    money,
    drift,
    capacity,
    backups,
)
OPERATIONS: Mapping[str, Callable[[], QuerySet[OperationRow]]] = {
    "workspace": Operation.objects.all,
    "cluster": ClusterOperation.objects.all,
}


def by_site(holder: str, rows: QuerySet[Workspace] | QuerySet[Cluster], field: str) -> Samples:
    counted = rows.order_by().values_list("site__slug", field).annotate(count=Count("pk"))
    return [((holder, slug, value), count) for slug, value, count in counted.order_by("site__slug", field)]


def gauge(name: str, help_text: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, value in samples:
        family.add_metric(list(values), value)
    return family


def seconds(now: datetime, since: datetime | None) -> float:
    """0 where nothing waits."""
    return max((now - since).total_seconds(), 0.0) if since is not None else 0.0


def known(rows: Iterable[Site], kind: str) -> Iterator[tuple[str, float]]:
    """Of the sites of which it is known whether they are so; Reachable before the first probe, too, where they are not."""
    for row in rows:
        unasked = Status.FALSE if kind == REACHABLE else Status.UNKNOWN
        status = row.conditions.get(kind, {}).get("status", unasked)
        if status != Status.UNKNOWN:
            yield row.slug, float(status == Status.TRUE)

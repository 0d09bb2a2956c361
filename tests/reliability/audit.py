"""What must hold once a portal has settled, read from its own database and from the simulated sites' storage, in the portal's
environment (world.py). Each finding is a sentence."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db.models import QuerySet, Sum

from gpuaas.api.models import IdempotencyKey
from gpuaas.clusters.models import Cluster, ClusterHolding, ClusterOperation, LedgerEntry
from gpuaas.core.clock import now, whole_second
from gpuaas.metering.models import STREAMED_METERS, UsageInterval
from gpuaas.providers.sandbox.models import (
    SandboxClusterObject,
    SandboxEvent,
    SandboxNamespace,
    SandboxQuota,
)
from gpuaas.system.work import claimables
from gpuaas.workspaces.models import Holding, Operation, Workspace
from quotas.models import Reservation, ReservationState
from quotas.selectors import counters_mismatches

Expected = list[dict[str, Any]]
HELD = ("workspace", "cluster")


def never(expected: Expected) -> list[str]:
    """What may not be wrong for a moment once the load has ended."""
    return [*accepted_once(expected), *counters(), *overlaps()]


def wrong(expected: Expected) -> list[str]:
    """What is still on its way, or will never come."""
    return [
        *states(expected),
        *open_work(),
        *namespaces(),
        *cluster_objects(),
        *reservations(),
        *held_usage(),
        *allocated_usage(),
    ]


def accepted_once(expected: Expected) -> Iterator[str]:
    """Every request that was answered with 2xx is there once; nothing is there that was not."""
    wanted = {row["id"] for row in expected}
    if len(wanted) != len(expected):
        yield "two requests were answered with the same holder"
    names = {row["id"]: (row["project"], row["name"]) for row in expected}
    there = {
        str(row.pk): (row.project.slug, row.name)
        for model in (Workspace, Cluster)
        for row in model.objects.select_related("project")
    }
    yield from (f"{names[key]} was accepted and is not there" for key in wanted - set(there))
    yield from (f"{there[key]} is there and was not accepted" for key in set(there) - wanted)
    yield from (f"{key} is {there[key]}" for key in wanted & set(there) if there[key] != names[key])
    remembered = Counter(IdempotencyKey.objects.values_list("caller", "key"))
    yield from (f"{key} is remembered {count} times" for key, count in remembered.items() if count > 1)


def counters() -> Iterator[str]:
    yield from (f"counter: {mismatch}" for mismatch in counters_mismatches())


def states(expected: Expected) -> Iterator[str]:
    ends = {row["id"]: row["end"] for row in expected}
    for model in (Workspace, Cluster):
        for row in model.objects.all():
            if row.state != ends.get(str(row.pk)):
                why = getattr(row, "failure", "") or getattr(row, "trouble", "")
                yield f"{row} is {row.state}, not {ends.get(str(row.pk))}: {why} {row.conditions}"
    for row in Workspace.objects.filter(state="ready").prefetch_related("flavors"):
        yield from (f"{row} has {one} unconfirmed" for one in row.flavors.all() if one.confirmed != one.count)


def open_work() -> Iterator[str]:
    """No operation is under way, the newest of each succeeded, and nobody holds a claim. One that is over binds nobody: a
    worker that was killed as it looked at a row that was not due leaves it there until the next visit.

    What was overtaken may seem to be the newest: ids begin with the time, and clocks were stepped."""
    for model, holder in ((Operation, "workspace_id"), (ClusterOperation, "cluster_id")):
        yield from (f"open: {one}" for one in model._default_manager.filter(finished_at=None))
        ended = model._default_manager.filter(finished_at__isnull=False).order_by(holder, "-pk")
        newest = list(ended.exclude(succeeded=None).distinct(holder))
        yield from (f"not succeeded: {one}" for one in newest if not one.succeeded)
        known = {getattr(one, holder) for one in newest}
        yield from (f"overtaken by nothing: {one}" for one in ended if getattr(one, holder) not in known)
    for claimed in claimables():
        for row in claimed._default_manager.filter(claim_until__gt=now()).values("pk", "claim_until"):
            yield f"claimed: {claimed.__name__} {row}"


def namespaces() -> Iterator[str]:
    """One for each workspace that is not deleted, with what was bought; of clusters only those of living ones."""
    alive: dict[Any, Workspace] = {row.pk: row for row in Workspace.objects.exclude(state="deleted")}
    clusters = set(Cluster.objects.exclude(state="deleted").values_list("pk", flat=True))
    found = [room for room in SandboxNamespace.objects.exclude(owner=None) if room.owner not in clusters]
    owners = Counter(room.owner for room in found)
    yield from (f"{room} at the site is an orphan" for room in found if room.owner not in alive)
    yield from (f"{row} has no namespace" for key, row in alive.items() if key not in owners)
    yield from (f"{alive.get(key)} has {count} namespaces" for key, count in owners.items() if count > 1)
    bought: Counter[Any] = Counter()
    for row in Workspace.objects.filter(state="ready").prefetch_related("flavors__flavor"):
        bought[row.pk] = sum(one.count * one.flavor.gpus for one in row.flavors.all())
    hard = SandboxQuota.objects.filter(resource="nvidia.com/gpu").values_list("namespace__owner", "hard")
    yield from (
        f"{alive[key]} has a quota of {most}" for key, most in hard if key in alive and bought[key] != most
    )


def cluster_objects() -> Iterator[str]:
    alive = {row.pk: row for row in Cluster.objects.exclude(state="deleted")}
    at_site = set(SandboxClusterObject.objects.exclude(tag=None).values_list("tag", "kind", "name"))
    ledger = set(LedgerEntry.objects.filter(gone_at=None).values_list("cluster", "kind", "name"))
    yield from (f"at the site and not in the ledger: {one}" for one in at_site - ledger)
    yield from (f"in the ledger and not at the site: {one}" for one in ledger - at_site)
    yield from (f"{tag} at the site is an orphan" for tag, _, _ in at_site if tag not in alive)


def reservations() -> Iterator[str]:
    """GPUs are reserved for exactly what is ready."""
    held = Reservation.objects.filter(state=ReservationState.HELD, resource__startswith="gpu:").order_by()
    found = dict(held.values_list("holder_id").annotate(total=Sum("amount")))
    wanted: Counter[Any] = Counter()
    for row in Workspace.objects.filter(state="ready").prefetch_related("flavors__flavor"):
        wanted[row.pk] = sum(one.count * one.flavor.gpus for one in row.flavors.all())
    for cluster in Cluster.objects.filter(state="ready").prefetch_related("pools__flavor"):
        wanted[cluster.pk] = sum(pool.count * pool.flavor.gpus for pool in cluster.pools.all())
    for key in set(found) | set(wanted):
        if found.get(key, 0) != wanted[key]:
            yield f"{key} has {found.get(key, 0)} GPUs reserved, not {wanted[key]}"


def overlaps() -> Iterator[str]:
    """Of one meter of one holder, or of one consumer, no second is counted twice."""
    spans: dict[Any, list[tuple[datetime, datetime | None]]] = defaultdict(list)
    for row in UsageInterval.objects.order_by("started_at", "ended_at"):
        consumer = row.consumer_uid if row.meter in STREAMED_METERS else ""
        key = (row.workspace_id or row.cluster_id, row.meter, row.flavor_id, consumer)
        spans[key].append((row.started_at, row.ended_at))
    for key, found in spans.items():
        for (_, ended), (started, _) in pairwise(found):
            if ended is None or started < ended:
                yield f"{key} is counted twice at {started}"


def held_usage() -> Iterator[str]:
    """The intervals are the holdings; what was never changed was held in one piece, and what is over is held no more."""
    shown = {
        row.consumer_uid: (row.quantity, row.started_at, row.ended_at)
        for row in UsageInterval.objects.exclude(meter__in=STREAMED_METERS)
    }
    held = {
        f"{prefix}:{row.pk}": (row.quantity, row.started_at, row.ended_at)
        for prefix, rows in (
            ("holding", Holding.objects.all()),
            ("cluster-holding", ClusterHolding.objects.all()),
        )
        for row in rows
    }
    yield from (
        f"{uid} is {shown.get(uid)}, held {held.get(uid)}"
        for uid in set(shown) | set(held)
        if shown.get(uid) != held.get(uid)
    )
    yield from _in_one_piece(Workspace.objects.all(), Holding.objects.all(), "workspace_id")
    yield from _in_one_piece(Cluster.objects.all(), ClusterHolding.objects.all(), "cluster_id")


def _in_one_piece(holders: QuerySet[Any], holdings: QuerySet[Any], owner: str) -> Iterator[str]:
    rows: dict[Any, list[Any]] = defaultdict(list)
    for row in holdings:
        rows[getattr(row, owner)].append(row)
    for holder in holders:
        pieces = Counter((row.meter, row.flavor_id) for row in rows[holder.pk])
        yield from (f"{holder} held {what} in {count} pieces" for what, count in pieces.items() if count > 1)
        yield from _over(holder, rows[holder.pk])
        if holder.state == "ready" and not rows[holder.pk]:
            yield f"{holder} is ready and holds nothing"


def _over(holder: Any, rows: Iterable[Any]) -> Iterator[str]:
    for row in rows:
        kept = holder.state == "ready" or (holder.state == "suspended" and row.meter == "storage_held")
        if (row.ended_at is None) != kept:
            yield f"{holder} is {holder.state} and {row} ended at {row.ended_at}"
        if holder.state == "ready" and row.started_at != whole_second(holder.ready_at):
            yield f"{holder} is ready since {holder.ready_at} and {row} began at {row.started_at}"


def allocated_usage() -> Iterator[str]:
    """Each pod that ever ran in a workspace is one interval, exactly as long as the site says. Of a cluster only what is
    held is counted (decision 0033)."""
    truth: dict[str, tuple[Any, Any]] = {}
    for event in SandboxEvent.objects.order_by("site", "revision"):
        one = event.consumer
        if one["started_at"] and one["gpus"] and not one["owner"].startswith("Cluster/"):
            truth[one["uid"]] = (_second(one["started_at"]), _second(one["ended_at"]))
    counted = {
        row.consumer_uid: (row.started_at, row.ended_at)
        for row in UsageInterval.objects.filter(meter="gpu_allocated")
    }
    for uid in set(truth) | set(counted):
        if truth.get(uid) != counted.get(uid):
            yield f"the pod {uid} ran {truth.get(uid)}, counted {counted.get(uid)}"


def _second(value: str | None) -> datetime | None:
    return whole_second(datetime.fromisoformat(value)) if value else None


def figures() -> dict[str, Any]:
    """How long it took from the request until it was ready, by site; how much was counted."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in Workspace.objects.select_related("site"):
        if row.ready_at:
            seconds[row.site.slug].append((row.ready_at - row.created_at).total_seconds())
    ready = {
        site: [round(sorted(each)[len(each) // 2], 1), round(max(each), 1)] for site, each in seconds.items()
    }
    pods = UsageInterval.objects.filter(meter="gpu_allocated").count()
    return {"ready": ready, "pods": pods, "intervals": UsageInterval.objects.count()}

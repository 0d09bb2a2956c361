"""The owner of a consumer: workspaces by their name at the site, and the flavor as which a resource was sold."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Case, F, IntegerField, Q, Value, When

from gpuaas.catalog.models import Node
from gpuaas.metering.models import UsageInterval
from gpuaas.providers.base import UsageEvent
from gpuaas.workspaces.models import PREFIX_LENGTH, Workspace, WorkspaceFlavor


@dataclass(frozen=True)
class Owner:
    """since: for a consumer from before the adoption, when it became this workspace's; earlier usage is not metered."""

    workspace_id: uuid.UUID
    project_id: uuid.UUID
    since: datetime | None = None


@dataclass(frozen=True)
class Owners:
    """Answers for one batch: made with three queries (five if names are gone), whatever its size."""

    by_name: dict[str, Owner] = field(default_factory=dict)
    flavors: dict[tuple[uuid.UUID, str], list[tuple[uuid.UUID, uuid.UUID]]] = field(default_factory=dict)
    pools: dict[str, set[uuid.UUID]] = field(default_factory=dict)
    by_uid: dict[str, Owner] = field(default_factory=dict)

    def of(self, workspace_name: str, uid: str) -> Owner | None:
        """None for what does not belong to one of our workspaces. If the name is gone from the site, as the first
        stretch was written."""
        return self.by_name.get(workspace_name) if workspace_name else self.by_uid.get(first_uid(uid))

    def flavor_of(self, workspace_id: uuid.UUID, *, resource: str, node: str) -> uuid.UUID | None:
        """None for a resource that the workspace did not buy. Of several flavors the one whose pool has the node."""
        sold = self.flavors.get((workspace_id, resource), [])
        there = self.pools.get(node, set())
        return next((flavor for flavor, pool in sold if pool in there), sold[0][0] if sold else None)


def first_uid(uid: str) -> str:
    """Of the consumer's first stretch."""
    return uid.partition(":")[0]


def owners_find(*, site_id: uuid.UUID, events: Sequence[UsageEvent]) -> Owners:
    """Includes deleted workspaces: a pod's end may be reported after its workspace is gone."""
    names = {event.workspace_name for event in events if event.workspace_name}
    by_uid = _written(site_id, events)
    if not names and not by_uid:
        return Owners()
    owners = workspaces_named(site_id=site_id, names=names)
    flavors: dict[tuple[uuid.UUID, str], list[tuple[uuid.UUID, uuid.UUID]]] = {}
    workspaces = {owner.workspace_id for owner in (*owners.values(), *by_uid.values())}
    sold = WorkspaceFlavor.objects.filter(workspace__in=workspaces)
    # a flavor that was given back is only there for what is told late: what is held comes first
    given_back = Case(
        When(count=0, confirmed=0, then=Value(1)), default=Value(0), output_field=IntegerField()
    )
    for workspace_id, resource, flavor_id, pool_id in sold.order_by(given_back, "flavor__slug").values_list(
        "workspace_id", "flavor__pool__resource_name", "flavor_id", "flavor__pool_id"
    ):
        flavors.setdefault((workspace_id, resource), []).append((flavor_id, pool_id))
    return Owners(owners, flavors, _pools_of_nodes(site_id, events), by_uid)


def workspaces_named(*, site_id: uuid.UUID, names: Collection[str]) -> dict[str, Owner]:
    """Our workspaces of these names at the site, deleted ones too; one query."""
    ours = Q(adopted_name="", name__in={name[PREFIX_LENGTH:] for name in names})
    adopted = Q(adopted_name__in=names, adoption__adopted_at__isnull=False)
    candidates = Workspace.objects.filter(ours | adopted, site_id=site_id).order_by("pk")
    since = F("adoption__adopted_at")
    rows = candidates.only("pk", "name", "adopted_name", "project_id").annotate(since=since)
    # of two that took over the same name one after the other, the later
    by_name = {row.external_name: Owner(row.pk, row.project_id, row.since) for row in rows}
    return {name: owner for name, owner in by_name.items() if name in names}


def _written(site_id: uuid.UUID, events: Sequence[UsageEvent]) -> dict[str, Owner]:
    """For consumers whose project is gone from the site: the owner recorded when they were written."""
    uids = {first_uid(each.consumer.uid) for each in events if each.consumer and not each.workspace_name}
    if not uids:
        return {}
    rows = UsageInterval.objects.filter(site_id=site_id, consumer_uid__in=uids)
    since = F("workspace__adoption__adopted_at")
    columns = ("consumer_uid", "workspace_id", "project_id", "since")
    written = rows.annotate(since=since).order_by().values_list(*columns)
    return {uid: Owner(workspace, project, moment) for uid, workspace, project, moment in written}


def _pools_of_nodes(site_id: uuid.UUID, events: Sequence[UsageEvent]) -> dict[str, set[uuid.UUID]]:
    names = {event.consumer.node for event in events if event.consumer is not None and event.consumer.node}
    pools: dict[str, set[uuid.UUID]] = {}
    rows = Node.objects.filter(site_id=site_id, name__in=names, pool__isnull=False)
    for name, pool_id in rows.values_list("name", "pool_id"):
        if pool_id is not None:
            pools.setdefault(name, set()).add(pool_id)
    return pools

"""The objects of simulated clusters: created, advanced in time and removed by the site's single writer."""

import uuid
from collections.abc import Iterable
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import ClusterSpec, FlavorAmount, SiteObject
from gpuaas.providers.base.steps import object_not_ours
from gpuaas.providers.sandbox.clusters.plan import MACHINE, ROOM
from gpuaas.providers.sandbox.dials import site_write
from gpuaas.providers.sandbox.models import (
    SandboxClusterObject,
    SandboxNamespace,
    SandboxPod,
    SandboxSite,
)
from gpuaas.providers.sandbox.pods import pod_admit, pods_end
from gpuaas.providers.sandbox.simulation import advance

Thing = SandboxClusterObject


def move(site: SandboxSite) -> None:
    """Advance the time: objects whose deletion is due are gone, once no pod holds devices for them."""
    now = clock.now()
    advance(site, now=now)
    for row in Thing.objects.filter(site=site, gone_at__lte=now):
        held = SandboxPod.objects.filter(site=site, namespace__name=row.room, name=row.name)
        rooms = SandboxNamespace.objects.filter(site=site, name=row.room)
        left = row.room and (held if row.kind == MACHINE else rooms).exists()
        if not left:
            row.delete()


def things(site: SandboxSite, tag: uuid.UUID, *kinds: str) -> list[Thing]:
    rows = Thing.objects.filter(site=site, tag=tag)
    return list(rows.filter(kind__in=kinds) if kinds else rows)


def ensure(site: SandboxSite, spec: ClusterSpec, kind: str, name: str, **facts: object) -> Thing | None:
    """The object, created if missing, with its owner's names; None while one of this name is still being deleted."""
    owner = {"project": spec.project_slug, "organization": spec.organization_slug}
    found = one_or_none(Thing.objects.filter(site=site, kind=kind, name=name))
    if found is not None and found.tag != spec.id:
        raise object_not_ours(kind, name, str(found.tag or ""))
    if found is not None:
        if not found.facts.items() >= owner.items():
            found.facts = {**found.facts, **owner}
            found.save(update_fields=["facts"])
        return found if found.gone_at is None else None
    slow = timedelta(milliseconds=site.machine_ms if kind == MACHINE else 0)
    ready_at = clock.now() + slow
    return Thing.objects.create(
        site=site, tag=spec.id, kind=kind, name=name, facts={**facts, **owner}, ready_at=ready_at
    )


def room_ensure(site: SandboxSite, spec: ClusterSpec, name: str, flavor: FlavorAmount) -> bool:
    """Ensure the room in which a pool's workers hold devices; False while one of this name is still being deleted."""
    row = ensure(site, spec, ROOM, name)
    if row is None:
        return False
    room, _ = SandboxNamespace.objects.get_or_create(site=site, name=name, defaults={"owner": spec.id})
    selectors = {flavor.resource_name: dict(flavor.selector)}
    if room.selectors != selectors:
        room.selectors = selectors
        room.save(update_fields=["selectors"])
    if row.room != name:
        row.room = name
        row.save(update_fields=["room"])
    return True


def devices_hold(
    site: SandboxSite, spec: ClusterSpec, row: Thing, room: str, flavor: FlavorAmount
) -> SandboxPod:
    """The pod by which a worker holds its devices."""
    if row.room != room:
        row.room = room
        row.save(update_fields=["room"])
    held = SandboxPod.objects.filter(
        site=site, namespace__name=room, name=row.name, finished_at=None, gone_at=None
    ).first()
    if held is not None:
        return held
    pod = SandboxPod(name=row.name, owner=f"Cluster/{spec.external_name}"[:100], gpus=flavor.gpus)
    pod.vcpus, pod.memory_gib, pod.resource_name = flavor.vcpus, flavor.memory_gib, flavor.resource_name
    pod_admit(site, SandboxNamespace.objects.get(site=site, name=room), pod)
    advance(site, now=clock.now())
    pod.refresh_from_db()
    return pod


def remove(site: SandboxSite, rows: Iterable[Thing]) -> None:
    """Request their deletion; a worker holds its devices until its grace period is over."""
    now = clock.now()
    for row in rows:
        if row.room and row.kind == MACHINE:
            pods_end(site, SandboxPod.objects.filter(site=site, namespace__name=row.room, name=row.name))
        if row.room and row.kind == ROOM:
            SandboxNamespace.objects.filter(site=site, name=row.room, gone_at=None).update(gone_at=now)
        if row.gone_at is None:
            slow = site.grace_ms if row.kind == MACHINE else site.namespace_ms
            row.gone_at = now + timedelta(milliseconds=slow)
            row.save(update_fields=["gone_at"])
    move(site)


def shown(row: Thing) -> SiteObject:
    return SiteObject(row.kind, row.name, str(row.uid), row.tag)


# -- events at a site without the portal ------------------------------------------------------------------------


def machine_break(site_id: uuid.UUID, name: str, reason: str) -> None:
    """A machine of a cluster breaks; a repair replaces it."""
    with site_write(site_id) as site:
        row = Thing.objects.get(site=site, kind=MACHINE, name=name)
        row.facts = {**row.facts, "fault": reason}
        row.save(update_fields=["facts"])


def foreign_object(site_id: uuid.UUID, kind: str, name: str, *, cluster_id: uuid.UUID | None = None) -> None:
    """An object of somebody else, or (with a tag) a leftover of a lost answer or a deleted cluster."""
    with site_write(site_id) as site:
        Thing.objects.create(site=site, tag=cluster_id, kind=kind, name=name, ready_at=clock.now())

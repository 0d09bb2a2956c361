"""The tenant's side of a simulated site, like kubectl, for tests and the demo."""

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused, Unauthorized
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import storage_key
from gpuaas.providers.sandbox.dials import refuse_where_down, site_write
from gpuaas.providers.sandbox.models import (
    SandboxNamespace,
    SandboxPod,
    SandboxQuota,
    SandboxSite,
    SandboxToken,
)
from gpuaas.providers.sandbox.simulation import advance, event_add

# keys of a quota that count something else
NO_GPU = Q(resource__in=("cpu", "memory", "storage")) | Q(resource__startswith=storage_key(""))
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def pod_create(
    site_id: uuid.UUID,
    namespace: str,
    name: str,
    gpus: int,
    run_seconds: int | None = None,
    *,
    resource_name: str = "",
    vcpus: int = 1,
    memory_gib: int = 1,
    owner: str = "",
    token: str = "",
    outrun: bool = False,
) -> SandboxPod:
    """Raises QuotaRefused if the namespace's quota is used up. `resource_name` "" = the GPU that was bought; with
    `token` the pod is created with that credential's rights. `owner` ("Job/train") = it comes back after a suspension.
    `outrun`: it exceeds the quota, as on a real cluster where many pods are created and deleted at once.
    """
    _asked_check(name, gpus, vcpus, memory_gib, run_seconds or 0)
    with site_write(site_id) as site:
        refuse_where_down(site)
        now = clock.now()
        advance(site, now=now)
        room = namespace_for(site, namespace, token)
        if room.pods.filter(name=name).exists():
            raise Conflict(f'pods "{name}" already exists')
        pod = SandboxPod(
            name=name,
            owner=owner,
            gpus=gpus,
            vcpus=vcpus,
            memory_gib=memory_gib,
            run_seconds=run_seconds,
        )
        pod.resource_name = (resource_name or _bought(room)) if gpus else ""
        pod_admit(site, room, pod, outrun=outrun)
        advance(site, now=now)
    pod.refresh_from_db()
    return pod


@transaction.atomic
def pod_admit(site: SandboxSite, room: SandboxNamespace, pod: SandboxPod, *, outrun: bool = False) -> None:
    """Charge it to the quota and store it, or neither; the caller is the site's writer."""
    if room.suspended:
        raise QuotaRefused(
            f'pods "{pod.name}" is forbidden: exceeded quota: {room.name}, requested: pods=1, used: pods=0, '
            "limited: pods=0",
            detail={"resource": "pods", "asked": 1, "used": 0, "limit": 0},
        )
    pod.site, pod.namespace, pod.created_at = site, room, clock.now()
    charge(room, f'pods "{pod.name}"', pod.charges, outrun=outrun)
    pod.save(force_insert=True)
    event_add(site, pod, at=pod.created_at)


def pod_delete(site_id: uuid.UUID, namespace: str, name: str, *, token: str = "") -> None:
    """Request its deletion; it holds its devices and its quota until the grace period is over."""
    with site_write(site_id) as site:
        refuse_where_down(site)
        now = clock.now()
        advance(site, now=now)
        room = namespace_for(site, namespace, token)
        pod = one_or_none(room.pods.filter(name=name))
        if pod is None:
            raise NotFound(f'pods "{name}" not found')
        pods_end(site, [pod])
        advance(site, now=now)


def pod_evict(site_id: uuid.UUID, namespace: str, uid: str, *, reason: str) -> bool:
    """Remove it at once and record the reason; False if it was already gone."""
    with site_write(site_id) as site:
        refuse_where_down(site)
        now = clock.now()
        advance(site, now=now)
        pod = SandboxPod.objects.filter(
            site=site, namespace__name=namespace, uid=uid, finished_at=None
        ).first()
        if pod is None:
            return False
        pod.gone_at, pod.waiting_for = now, reason[:300]
        pod.save(update_fields=["gone_at", "waiting_for"])
        advance(site, now=now)
    return True


def pods_end(site: SandboxSite, pods: Iterable[SandboxPod], *, most: int = 0) -> None:
    """Start the grace period where it has not started; finished pods are removed at once. most: of its seconds; 0: no limit."""
    now, grace = clock.now(), timedelta(milliseconds=site.grace_ms)
    for pod in pods:
        if pod.gone_at is None:
            longest = min(grace, pod.namespace.notice or grace, timedelta(seconds=most) if most else grace)
            pod.gone_at = now if pod.finished_at else now + longest
            pod.save(update_fields=["gone_at"])


def foreign_namespace(site_id: uuid.UUID, name: str, *, hard: Mapping[str, int] | None = None) -> None:
    """A namespace of somebody else, which the portal must leave alone; `hard` is its own quota."""
    with site_write(site_id) as site:
        room = SandboxNamespace.objects.create(site=site, name=name)
        SandboxQuota.objects.bulk_create(
            SandboxQuota(namespace=room, resource=key, wanted=amount, hard=amount)
            for key, amount in (hard or {}).items()
        )


def token_role(site_id: uuid.UUID, namespace: str, token: str) -> str:
    """The role that a personal credential gives in a namespace now; raises Unauthorized or Forbidden."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    row = one_or_none(SandboxToken.objects.select_related("member__namespace").filter(digest=digest))
    if row is None or row.member.namespace.site_id != site_id or row.expires_at <= clock.now():
        raise Unauthorized("You must be logged in to the server (Unauthorized)")
    if row.member.namespace.name != namespace:
        raise Forbidden(f'"{row.member.subject}" has no role in the namespace "{namespace}"')
    return row.member.role


def _asked_check(name: str, *amounts: int) -> None:
    if not NAME.fullmatch(name):
        raise Invalid.field("name", "a pod's name is a DNS label: lower-case letters, digits and hyphens")
    if min(amounts) < 0:
        raise Invalid("a pod cannot request negative amounts")


def namespace_for(site: SandboxSite, name: str, token: str) -> SandboxNamespace:
    if token and token_role(site.site_id, name, token) not in {"admin", "edit"}:
        raise Forbidden(f'the role view cannot change pods in the namespace "{name}"')
    room = one_or_none(SandboxNamespace.objects.filter(site=site, name=name))
    if room is None:
        raise NotFound(f'namespaces "{name}" not found')
    if room.gone_at is not None:
        raise Forbidden(f'namespace "{name}" is being terminated: nothing new can be created in it')
    return room


def _bought(room: SandboxNamespace) -> str:
    row = room.quotas.filter(wanted__gt=0).exclude(NO_GPU).first()
    return row.resource if row else "nvidia.com/gpu"


def charge(room: SandboxNamespace, what: str, charges: Mapping[str, int], *, outrun: bool = False) -> None:
    """All or nothing: a refusal rolls back what was already charged. The caller is the site's writer."""
    for resource, amount in charges.items():
        rows = SandboxQuota.objects.filter(namespace=room, resource=resource)
        fits = Q() if outrun else Q(hard__isnull=True) | Q(hard__gte=F("used") + amount)
        if rows.filter(fits).update(used=F("used") + amount):
            continue
        row = rows.first()
        if row is not None:
            raise QuotaRefused(
                f"{what} is forbidden: exceeded quota: {room.name}, requested: {resource}={amount}, "
                f"used: {resource}={row.used}, limited: {resource}={row.hard}",
                detail={"resource": resource, "asked": amount, "used": row.used, "limit": row.hard},
            )

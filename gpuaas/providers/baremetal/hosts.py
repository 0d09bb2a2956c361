"""Which cluster holds which host. Each change is one conditional UPDATE: of two at once only one succeeds. Repeatable."""

import uuid
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, NoCapacity, NotFound
from gpuaas.providers.baremetal.models import HELD, Host, HostState

NOT_DRAINED = {"drained_from": None, "drain_words": ""}


def hosts_of(cluster_id: uuid.UUID) -> QuerySet[Host]:
    return Host.objects.filter(cluster_id=cluster_id, state__in=HELD)


def host_bind(
    *, site_id: uuid.UUID, cluster_id: uuid.UUID, pool: str, slot: str, resource_name: str, gpus: int
) -> Host:
    """The host of this slot: the one bound to it, or a free one of this kind. Raises NoCapacity with the state of all of them."""
    held = hosts_of(cluster_id).filter(slot=slot).first()
    if held is not None:
        return held
    alike = Host.objects.filter(site_id=site_id, resource_name=resource_name, gpus=gpus)
    for key in alike.filter(state=HostState.FREE).values_list("pk", flat=True):
        if _take(key, cluster_id, pool, slot):
            return hosts_of(cluster_id).get(slot=slot)
    raise NoCapacity(
        f"no host with {gpus} {resource_name} is free for {slot}",
        detail={
            "evidence": [f"{row.name}: {_what(row)}" for row in alike[:20]]
            or ["there is no host of this kind"],
            "next": "Retry when other clusters have returned hosts, scale to fewer, or add hosts to the inventory.",
        },
    )


def _take(key: uuid.UUID, cluster_id: uuid.UUID, pool: str, slot: str) -> bool:
    """True once the slot has its host, taken by us or by another worker for the same cluster."""
    try:
        with transaction.atomic():
            taken = Host.objects.filter(pk=key, state=HostState.FREE).update(
                state=HostState.BOUND,
                cluster_id=cluster_id,
                pool=pool,
                slot=slot,
                bound_at=clock.now(),
                binding=F("binding") + 1,
            )
    except IntegrityError:
        return True
    return bool(taken)


def _what(row: Host) -> str:
    return f"{row.get_state_display().lower()}{f' ({row.reason})' if row.reason else ''}"


def host_boots(host: Host) -> None:
    """From now on the host may hold data; stored before it is switched on."""
    Host.objects.filter(pk=host.pk, state=HostState.BOUND).update(dirty=True)


def host_wipe_begin(host: Host) -> None:
    Host.objects.filter(pk=host.pk, state=HostState.BOUND).update(state=HostState.WIPING)


def host_drain_begin(host: Host) -> datetime:
    """When the drain started; a repeated call returns the same time."""
    rows = Host.objects.filter(pk=host.pk)
    rows.filter(state=HostState.BOUND, binding=host.binding, drained_from=None).update(
        drained_from=clock.now()
    )
    return rows.values_list("drained_from", flat=True).get() or clock.now()


def host_drain_end(host: Host) -> None:
    Host.objects.filter(pk=host.pk, state=HostState.BOUND).update(**NOT_DRAINED)


def host_drain_gave_up(host: Host, words: str) -> None:
    Host.objects.filter(pk=host.pk, state=HostState.BOUND).update(drain_words=words[:300])


def host_wiped(host: Host) -> None:
    """The hub has confirmed that its disks are clean."""
    Host.objects.filter(pk=host.pk, state=HostState.WIPING).update(dirty=False)


def host_free(host: Host) -> None:
    """Return the host to the inventory; as broken if it was taken out in the meantime."""
    gone = {"cluster_id": None, "pool": "", "slot": "", "bound_at": None, **NOT_DRAINED}
    clean = Host.objects.filter(pk=host.pk, state=HostState.WIPING, dirty=False)
    clean.filter(reason="").update(state=HostState.FREE, **gone)
    clean.exclude(reason="").update(state=HostState.BROKEN, **gone)


# -- what operators do -----------------------------------------------------------------------------------------------------


def host_take_out(*, site_id: uuid.UUID, name: str, reason: str) -> None:
    """The host takes no more work; a cluster that holds it gets another one."""
    rows = Host.objects.filter(site_id=site_id, name=name)
    if not rows.exclude(state=HostState.FREE).update(reason=reason) and not rows.filter(
        state=HostState.FREE
    ).update(state=HostState.BROKEN, reason=reason):
        raise _unknown(name)


def host_put_back(*, site_id: uuid.UUID, name: str) -> None:
    """Mark the host as repaired and clean, on the operator's word."""
    rows = Host.objects.filter(site_id=site_id, name=name)
    if not rows.filter(state=HostState.BROKEN).update(state=HostState.FREE, reason="", dirty=False):
        found = rows.first()
        if found is None:
            raise _unknown(name)
        raise Conflict(f"{name} is {_what(found)}, not broken")


def host_cleaned(*, site_id: uuid.UUID, name: str) -> None:
    """An operator wiped by hand what the hub could not."""
    if not Host.objects.filter(site_id=site_id, name=name, state=HostState.WIPING).update(dirty=False):
        raise Conflict(f"{name} is not being wiped")


def host_rebind(*, site_id: uuid.UUID, name: str) -> None:
    """Let the host join its cluster again: both certificates may be requested again, for as long as the first time."""
    rows = Host.objects.filter(site_id=site_id, name=name, state=HostState.BOUND)
    if not rows.update(binding=F("binding") + 1, bound_at=clock.now()):
        raise Conflict(f"{name} is not bound to a cluster")


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no host {name!r} at this site")

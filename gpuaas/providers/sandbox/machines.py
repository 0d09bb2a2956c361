"""A simulated cloud: the simulated fleet with machines, each of which holds its devices as a pod."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, NotFound, Permanent, QuotaRefused
from gpuaas.core.ids import short
from gpuaas.core.rows import one_or_none
from gpuaas.providers import base
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.driver import SandboxDriver, timeline
from gpuaas.providers.sandbox.models import SandboxMachine, SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.pods import NO_GPU, pod_admit, pod_evict, pods_end
from gpuaas.providers.sandbox.simulation import MACHINE, advance

S, V = base.MachineStatus, base.MachineVerb
IMAGES = (
    base.MachineImage("img-debian-12", "Debian 12", disk_gib=2, user="debian"),
    base.MachineImage("img-rocky-9", "Rocky Linux 9 with CUDA", disk_gib=12, user="rocky"),
    base.MachineImage("img-ubuntu-2404", "Ubuntu 24.04 with CUDA", disk_gib=16, user="ubuntu"),
)
NO_HOST = "no host has enough free GPUs of this kind: delete it and try again later"
GOALS = {V.START: "running", V.STOP: "stopped", V.SHELVE: "shelved", V.UNSHELVE: "running"}
SETTLED = {"running": S.RUNNING, "stopped": S.STOPPED, "shelved": S.SHELVED}
SITE_STATUS = {
    S.BUILDING: "BUILD",
    S.RUNNING: "ACTIVE",
    S.CHANGING: "changing",
    S.STOPPED: "SHUTOFF",
    S.SHELVED: "SHELVED_OFFLOADED",
    S.FAILED: "ERROR",
    S.DELETING: "deleting",
}


class SandboxCloudDriver(SandboxDriver, base.MachineCapability):
    name = "sandbox-cloud"
    access_kind = base.AccessKind.CLOUDS_YAML
    space, consumers = "project", "machines"
    changes = timeline(space, consumers)

    def images(self, ref: base.WorkspaceRef) -> tuple[base.MachineImage, ...]:
        with self._room(ref, "images"):
            return IMAGES

    def launch(self, ref: base.WorkspaceRef, order: base.MachineOrder) -> base.ObservedMachine:
        with self._room(ref, "launch") as (site, room):
            made = one_or_none(room.machines.filter(order=order.id)) or _make(site, room, order)
            return observed(room, made)

    def machines(self, ref: base.WorkspaceRef) -> tuple[base.ObservedMachine, ...]:
        try:
            with self._room(ref, "machines") as (_, room):
                return tuple(observed(room, each) for each in room.machines.all())
        except NotFound:
            return ()

    def act(
        self, ref: base.WorkspaceRef, uid: str, verb: base.MachineVerb, *, action: uuid.UUID, image: str = ""
    ) -> None:
        with self._room(ref, f"act:{verb.value}") as (site, room):
            machine = one_or_none(room.machines.filter(uid=uid))
            if machine is None:
                raise NotFound("this machine no longer exists at the site")
            if verb is V.DELETE:
                pods_end(site, room.pods.filter(name=machine.pod_name, finished_at=None))
                machine.delete()
            else:
                _change(site, room, machine, verb, action, image)

    def console(self, ref: base.WorkspaceRef, uid: str) -> base.Console:
        with self._room(ref, "console") as (site, room):
            if not room.machines.filter(uid=uid).exists():
                raise NotFound("this machine no longer exists at the site")
            if site.faults.get("screens"):
                raise base.NoScreens("the site has no consoles: use ssh")
            url = f"https://console.{site.slug or 'sandbox'}.example/vnc?token={uuid.uuid4()}"
            return base.Console(url=url, expires_at=clock.now() + timedelta(minutes=10))

    def belongings(self, ref: base.WorkspaceRef) -> base.Belongings:
        items = tuple(
            base.Belonging(kind, f"{kind}-{short(ref.id)}", "workspace", detail)
            for kind, detail in (("network", "active"), ("router", "active"), ("security group", "2 rules"))
        )
        try:
            with self._room(ref, "belongings"):
                return base.Belongings(items=items, volumes_sold=False)
        except NotFound:
            return base.Belongings(items=(), volumes_sold=False)

    def evict(self, workspace_name: str, consumer: base.ObservedConsumer, *, reason: str) -> bool:
        """As at a real cloud the machine is shelved and keeps its disk."""
        machine, _, pod = consumer.uid.rpartition(":")
        with call(self.connection, "evict"), transaction.atomic():
            gone = pod_evict(self.connection.site_id, workspace_name, pod, reason=reason)
            if gone and machine:
                SandboxMachine.objects.filter(uid=machine).update(wanted="shelved")
        return gone

    @contextmanager
    def _room(self, ref: base.WorkspaceRef, verb: str) -> Iterator[tuple[SandboxSite, SandboxNamespace]]:
        with call(self.connection, verb), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            rooms = SandboxNamespace.objects.filter(site=site, name=ref.external_name, owner=ref.id)
            room = rooms.filter(gone_at=None).first()
            if room is None:
                raise NotFound(f"{ref.external_name} is not at the site")
            yield site, room


def machine_behind(
    site_id: uuid.UUID, namespace: str, name: str, *, flavor: str = "own", gpus: int = 1
) -> str:
    """A tenant creates a machine with their own client; returns its uid."""
    with site_write(site_id) as site:
        room = SandboxNamespace.objects.get(site=site, name=namespace)
        quota = room.quotas.filter(wanted__gt=0).exclude(NO_GPU).first()
        made = SandboxMachine(name=name, flavor=flavor, image=IMAGES[0].id, gpus=gpus)
        made.resource_name = quota.resource if quota else "nvidia.com/gpu"
        return str(_admit(site, room, made).uid)


def observed(room: SandboxNamespace, machine: SandboxMachine) -> base.ObservedMachine:
    status = _status(room, machine)
    if status is S.RUNNING and machine.launched_at is None:
        machine.launched_at = machine.moves_until
        machine.save(update_fields=["launched_at"])
    return base.ObservedMachine(
        uid=str(machine.uid),
        order=machine.order,
        name=machine.name,
        status=status,
        site_status=SITE_STATUS[status],
        power="on" if status is S.RUNNING else "off",
        addresses=(machine.address,) if status is not S.BUILDING else (),
        flavor=machine.flavor,
        gpus={machine.resource_name: machine.gpus},
        image=next((image.name for image in IMAGES if image.id == machine.image), machine.image),
        key=machine.key,
        volumes=(),
        fault=machine.fault,
        created_at=machine.created_at,
        launched_at=machine.launched_at,
    )


def _status(room: SandboxNamespace, machine: SandboxMachine) -> base.MachineStatus:
    """A machine whose pod waits found no host; one whose pod is gone was suspended or lost its devices."""
    moving = machine.moves_until > clock.now()
    if moving:
        return S.BUILDING if machine.launched_at is None else S.CHANGING
    if machine.wanted == "shelved":
        return S.SHELVED
    pod = one_or_none(room.pods.filter(name=machine.pod_name, finished_at=None))
    if pod is None and room.suspended:
        return S.SHELVED
    if pod is None or pod.scheduled_at is None:
        _fail(machine, pod)
    return S.FAILED if machine.fault else SETTLED[machine.wanted]


def _fail(machine: SandboxMachine, pod: SandboxPod | None) -> None:
    if not machine.fault:
        machine.fault = NO_HOST if pod is not None else "the site removed its devices"
        machine.save(update_fields=["fault"])


def _make(site: SandboxSite, room: SandboxNamespace, order: base.MachineOrder) -> SandboxMachine:
    if order.image not in {image.id for image in IMAGES}:
        raise Permanent("the site has no such image")
    if order.volume_gib:
        raise Permanent("this site has no volumes: order the machine without one")
    flavor = order.flavor
    machine = SandboxMachine(
        order=order.id, name=order.name, flavor=flavor.slug, image=order.image, gpus=flavor.gpus
    )
    machine.resource_name, machine.vcpus = flavor.resource_name, flavor.vcpus
    machine.memory_gib, machine.key = flavor.memory_gib, "portal" if order.public_key else ""
    return _admit(site, room, machine)


def _admit(site: SandboxSite, room: SandboxNamespace, machine: SandboxMachine) -> SandboxMachine:
    machine.namespace, machine.created_at = room, clock.now()
    machine.pod_name = f"vm-{short(machine.uid)}"
    machine.address = f"10.0.{room.pk % 250}.{10 + machine.uid.int % 240}"
    machine.moves_until = machine.created_at + timedelta(milliseconds=site.machine_ms)
    _hold(site, room, machine)
    machine.save(force_insert=True)
    return machine


def _hold(site: SandboxSite, room: SandboxNamespace, machine: SandboxMachine) -> None:
    pod = SandboxPod(name=machine.pod_name, owner=f"{MACHINE}{machine.uid}/{machine.name}", gpus=machine.gpus)
    pod.vcpus, pod.memory_gib, pod.resource_name = machine.vcpus, machine.memory_gib, machine.resource_name
    try:
        pod_admit(site, room, pod)
    except QuotaRefused as error:
        words = "the workspace uses all that it bought: delete a machine or resize the workspace"
        raise QuotaRefused(words, detail=error.detail) from error
    advance(site, now=clock.now())


def _change(
    site: SandboxSite,
    room: SandboxNamespace,
    machine: SandboxMachine,
    verb: base.MachineVerb,
    action: uuid.UUID,
    image: str,
) -> None:
    goal = GOALS.get(verb)
    if goal == machine.wanted or (verb is V.REBUILD and machine.last_action == action):
        return
    if verb in {V.START, V.STOP, V.RESTART} and machine.wanted == "shelved":
        raise Conflict("the machine is shelved: unshelve it first")
    if verb is V.UNSHELVE:
        _hold(site, room, machine)
    if verb is V.SHELVE:
        pods_end(site, room.pods.filter(name=machine.pod_name, finished_at=None))
        advance(site, now=clock.now())
    machine.wanted = goal or machine.wanted
    machine.image = image or machine.image
    machine.last_action = action
    machine.moves_until = clock.now() + timedelta(milliseconds=site.machine_ms)
    machine.save()

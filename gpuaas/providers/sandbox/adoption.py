"""Adopts foreign namespaces of a simulated site: candidates, plan and adoption."""

from collections import Counter
from collections.abc import Iterator

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent
from gpuaas.core.rows import one_or_none
from gpuaas.providers import base
from gpuaas.providers.base.changes import blocking_check
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.providers.sandbox.simulation import advance, event_add

SITES_OWN = ("kube-", "sandbox-")
PLAIN = ("cpu", "memory", "storage")


class SandboxAdoption(base.AdoptionCapability):
    connection: base.Connection
    space: str
    consumers: str

    def adoptable(self) -> tuple[base.ForeignWorkspace, ...]:
        with call(self.connection, "adoptable"), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            rooms = site.namespaces.filter(owner=None, gone_at=None).order_by("name")
            return tuple(_foreign(room) for room in rooms if not _is_sites_own(room.name))

    def adoption_plan(self, spec: base.WorkspaceSpec) -> tuple[base.AdoptionStep, ...]:
        with call(self.connection, "adoption_plan"), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            return tuple(self._plan(_room(site, spec), spec))

    def adopt(self, spec: base.WorkspaceSpec) -> base.StepOutcome:
        with call(self.connection, "adopt"), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            room = _room(site, spec)
            if room.owner is None:
                blocking_check(self._plan(room, spec))
                room.owner = spec.id
                room.save(update_fields=["owner"])
                for pod in room.pods.all():
                    event_add(site, pod, at=clock.now())  # the watch has not reported them before
            return base.StepOutcome(done=True, detail=f"{room.name} is this workspace's")

    def _plan(self, room: SandboxNamespace, spec: base.WorkspaceSpec) -> Iterator[base.AdoptionStep]:
        name = f"{self.space.capitalize()}/{room.name}"
        yield base.AdoptionStep(
            name, "change", "becomes this workspace's and is pinned to the pools that are bought"
        )
        yield base.AdoptionStep(name, "keep", "deleting the workspace later deletes it and everything in it")
        if room.quotas.exists():
            own = ", ".join(f"{row.resource}={row.wanted}" for row in room.quotas.all())
            yield base.AdoptionStep(
                "Quota/own",
                "remove",
                f"its own quota ({own}) would conflict with the portal's",
                blocking=True,
            )
        bought = {gpu.resource_name: gpu.count for gpu in spec.gpus}
        limits = {**dict.fromkeys(spec.closed, 0), **bought, "cpu": spec.vcpus, "memory": spec.memory_gib}
        yield base.AdoptionStep(
            "Quota/gpuaas", "create", ", ".join(f"{key}={n}" for key, n in sorted(limits.items()))
        )
        live = list(room.pods.filter(finished_at=None).select_related("node"))
        for resource, count in sorted(_used(live).items()):
            if count > limits.get(resource, 0):
                limit = limits.get(resource, 0)
                detail = f"{count} of {resource} in use, {limit} would be bought"
                yield base.AdoptionStep("Quota/gpuaas", "create", detail, blocking=True)
        yield base.AdoptionStep("Network", "create", "isolated from other tenants")
        who = ", ".join(f"{member.name} ({member.role})" for member in spec.members) or "nobody"
        yield base.AdoptionStep("Members", "create", who)
        for pod in live:
            yield _consumer(f"{self.consumers.capitalize().removesuffix('s')}/{pod.name}", pod, spec)


def _is_sites_own(name: str) -> bool:
    return name == "default" or name.startswith(SITES_OWN)


def _room(site: SandboxSite, spec: base.WorkspaceSpec) -> SandboxNamespace:
    room = one_or_none(SandboxNamespace.objects.filter(site=site, name=spec.external_name, gone_at=None))
    if room is None:
        raise NotFound(f"the site has no {spec.external_name}")
    if _is_sites_own(room.name):
        raise Permanent(f"{room.name} belongs to the site itself")
    if room.owner not in {None, spec.id}:
        raise Permanent(f"{room.name} belongs to another workspace")
    return room


def _foreign(room: SandboxNamespace) -> base.ForeignWorkspace:
    live = list(room.pods.filter(finished_at=None).select_related("node"))
    placed: dict[str, Counter[str]] = {}
    for pod in live:
        if pod.node is not None and pod.gpus:
            placed.setdefault(pod.node.name, Counter())[pod.resource_name] += pod.gpus
    used = _used(live)
    return base.ForeignWorkspace(
        external_name=room.name,
        created_at=min((pod.created_at for pod in live), default=clock.now()),
        gpus={name: count for name, count in used.items() if name not in PLAIN},
        vcpus=used["cpu"],
        memory_gib=used["memory"],
        storage_gib=used["storage"],
        consumers=len(live),
        placed={node: dict(counts) for node, counts in placed.items()},
        hard={row.resource: row.wanted for row in room.quotas.exclude(resource__in=PLAIN)},
    )


def _used(pods: list[SandboxPod]) -> Counter[str]:
    used: Counter[str] = Counter()
    for pod in pods:
        used.update(pod.charges)
    return used


def _consumer(name: str, pod: SandboxPod, spec: base.WorkspaceSpec) -> base.AdoptionStep:
    selectors = {gpu.resource_name: gpu.selector for gpu in spec.gpus}
    pin = selectors.get(pod.resource_name, {})
    if pod.node is not None and any(pod.node.labels.get(key) != value for key, value in pin.items()):
        return base.AdoptionStep(name, "keep", f"runs outside the pool, on {pod.node.name}", blocking=True)
    return base.AdoptionStep(name, "keep", "keeps running")

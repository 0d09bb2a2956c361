"""Takes hosts of the inventory into a cluster and back: binds, boots, approves, wipes and returns them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuaas.core.errors import NoCapacity, Permanent
from gpuaas.providers.baremetal import manifests
from gpuaas.providers.baremetal.conditions import agent_words, machine_is_clean, machine_trouble
from gpuaas.providers.baremetal.draining import Drain
from gpuaas.providers.baremetal.hosts import (
    host_bind,
    host_boots,
    host_free,
    host_wipe_begin,
    host_wiped,
    hosts_of,
)
from gpuaas.providers.baremetal.hub import AGENT, POOL, SLOT, Hub, path_of
from gpuaas.providers.baremetal.models import Host, HostState
from gpuaas.providers.baremetal.plan import MACHINE, NETWORK, machine_name
from gpuaas.providers.base import ClusterSpec, StepOutcome
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.names import RELEASE


@dataclass(frozen=True)
class Rack:
    """The desired machines of one pool; for the control plane gpus is 0."""

    pool: str
    slots: Sequence[str]
    resource_name: str
    gpus: int
    role: str
    release: str


def rack_ensure(
    hub: Hub, spec: ClusterSpec, rack: Rack, *, namespace: str, day_one: bool, drain: Drain
) -> StepOutcome:
    """Surplus and broken hosts leave first: another cluster may be waiting for one of them."""
    going, taken = _going(hub, spec, rack, namespace, drain)
    try:
        hosts = [_bound(hub, spec, rack, slot) for slot in rack.slots if slot not in taken]
    except NoCapacity:
        if going:
            return StepOutcome(done=False, detail=going[0])
        raise
    for host in hosts:
        _boot(hub, spec, rack, host, namespace=namespace)
    agents = agents_by_mac(hub)
    waits = [*going]
    for host in hosts:
        words = _join(hub, spec, rack, host, agents, namespace=namespace, day_one=day_one)
        if words:
            waits.append(f"{host.name}: {words}")
    if waits:
        return StepOutcome(
            done=False, detail=f"{len(hosts)} of {len(rack.slots)} hosts are bound; {waits[0]}"
        )
    return StepOutcome(
        done=True, detail=f"{len(hosts)} hosts: {', '.join(host.name for host in hosts) or 'none'}"
    )


def _going(
    hub: Hub, spec: ClusterSpec, rack: Rack, namespace: str, drain: Drain
) -> tuple[list[str], set[str]]:
    """What the leaving hosts wait for, and the slots that they still occupy; a drain that is no longer wanted is cancelled."""
    held = list(hosts_of(spec.id).filter(pool=rack.pool))
    leaving = [host for host in held if host.slot not in rack.slots or host.reason or _is_wiping(host)]
    going = hosts_give_back(hub, spec, leaving, namespace=namespace, drain=drain)
    for host in held:
        if host.drained_from and host not in leaving:
            drain.cancel(host)
    still = hosts_of(spec.id).filter(pk__in=[host.pk for host in leaving])
    return going, set(still.values_list("slot", flat=True))


def _is_wiping(host: Host) -> bool:
    return host.state == HostState.WIPING


def _bound(hub: Hub, spec: ClusterSpec, rack: Rack, slot: str) -> Host:
    return host_bind(
        site_id=hub.connection.site_id,
        cluster_id=spec.id,
        pool=rack.pool,
        slot=slot,
        resource_name=rack.resource_name,
        gpus=rack.gpus,
    )


def _boot(hub: Hub, spec: ClusterSpec, rack: Rack, host: Host, *, namespace: str) -> None:
    """An existing machine stays as it is: the hub's controllers write to it while they install."""
    name = machine_name(spec, host.slot)
    if hub.find(MACHINE, namespace, name) is not None:
        return
    labels = {POOL: rack.pool, SLOT: host.slot, RELEASE: rack.release}
    hub.apply(NETWORK, namespace, name, manifests.network(host), **labels)
    host_boots(host)
    body = manifests.machine(host, cluster=spec.external_name, role=rack.role)
    hub.apply(MACHINE, namespace, name, body, **labels)


def agents_by_mac(hub: Hub) -> dict[str, Object]:
    found = {}
    for agent in hub.items(AGENT):
        for one in ((agent.get("status") or {}).get("inventory") or {}).get("interfaces") or ():
            found[str(one.get("macAddress", "")).lower()] = agent
    return found


def agent_of(agents: dict[str, Object], host: Host) -> Object | None:
    """By the port that the host boots from, so that no other machine is approved in its name."""
    return agents.get(host.boot_mac.lower())


def _join(
    hub: Hub,
    spec: ClusterSpec,
    rack: Rack,
    host: Host,
    agents: dict[str, Object],
    *,
    namespace: str,
    day_one: bool,
) -> str:
    agent = agent_of(agents, host)
    if agent is not None:
        wanted = manifests.binding(
            host, namespace=namespace, cluster=spec.external_name, role=rack.role, labels={POOL: rack.pool}
        )
        if any(agent["spec"].get(key) != value for key, value in wanted["spec"].items()):
            hub.api.merge(path_of(agent), wanted)
    return agent_words(agent, day_one=day_one)


def hosts_give_back(
    hub: Hub, spec: ClusterSpec, hosts: Sequence[Host], *, namespace: str, drain: Drain | None = None
) -> list[str]:
    """Free the hosts, each once the hub has confirmed that it is clean and has released it. Returns what they wait for, in words.
    Without `drain` (the whole cluster is deleted) they are not drained first."""
    if not hosts:
        return []
    agents = agents_by_mac(hub)
    waits = (_leave(hub, spec, host, agent_of(agents, host), namespace, drain) for host in hosts)
    return [words for words in waits if words]


def _leave(
    hub: Hub, spec: ClusterSpec, host: Host, agent: Object | None, namespace: str, drain: Drain | None
) -> str:
    if drain is None:
        return _give_back(hub, spec, host, agent, namespace=namespace)
    if host.state == HostState.BOUND and (waits := drain.waits(host)):
        return waits
    words = _give_back(hub, spec, host, agent, namespace=namespace, forget=drain.forget)
    drain_words = Host.objects.filter(pk=host.pk).values_list("drain_words", flat=True).first()
    return f"{words}; {drain_words}" if words and drain_words else words


def _give_back(
    hub: Hub,
    spec: ClusterSpec,
    host: Host,
    agent: Object | None,
    *,
    namespace: str,
    forget: Callable[[Host], None] | None = None,
) -> str:
    host_wipe_begin(host)
    name = machine_name(spec, host.slot)
    if agent is not None:
        hub.remove(agent)
    found = hub.find(MACHINE, namespace, name)
    if found is None:
        return _unknown(host) or _gone(hub, host, namespace, name)
    if not host.dirty:
        hub.remove(_named(found, MACHINE))
        return f"{host.name}: the hub is releasing it"
    if not _wipe_requested(found):
        found = hub.api.merge(path_of(_named(found, MACHINE)), manifests.wiping())
    if not machine_is_clean(found):
        state = ((found.get("status") or {}).get("provisioning") or {}).get("state") or "not processed yet"
        trouble = machine_trouble(found)
        return f"{host.name} is being wiped: {state}{f'; {trouble}' if trouble else ''}"
    if forget is not None:
        forget(host)
    host_wiped(host)
    hub.remove(_named(found, MACHINE))
    return f"{host.name} is clean; the hub is releasing it"


def _unknown(host: Host) -> str:
    """Raises Permanent if it can no longer be known whether the host is clean."""
    if not host.dirty:
        return ""
    raise Permanent(
        f"the hub no longer knows {host.name} and never confirmed that its disks are clean",
        detail={
            "evidence": [f"host {host.name}: {host.slot} was booted, and its BareMetalHost is gone"],
            "next": "Wipe its disks by hand, then mark the host as cleaned.",
        },
    )


def _gone(hub: Hub, host: Host, namespace: str, name: str) -> str:
    network = hub.find(NETWORK, namespace, name)
    if network is not None:
        hub.remove(_named(network, NETWORK))
    host_free(host)
    return ""


def _wipe_requested(found: Object) -> bool:
    """Whether our request to wipe it still stands; the hub's controllers may have undone it."""
    spec, labels = found["spec"], found["metadata"].get("labels") or {}
    return (
        spec.get("automatedCleaningMode") == "metadata"
        and not (spec.get("image") or spec.get("customDeploy"))
        and manifests.INFRA_ENV_LABEL not in labels
    )


def _named(found: Object, kind: str) -> Object:
    return {**found, "kind": kind}

"""Hosts of a site of bare metal: what each has, who holds it, and which actions are possible now."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from frontend.components import Fact
from frontend.presenters.held import url_of
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.hosts import Host, HostState
from gpuaas.core.looks import Tone

TONES = {
    HostState.FREE: Tone.OK,
    HostState.BOUND: Tone.OK,
    HostState.WIPING: Tone.BUSY,
    HostState.BROKEN: Tone.BAD,
}


@dataclass(frozen=True)
class HostAct:
    """`reason`: asks for one; `typed`: the host's name has to be typed."""

    verb: str
    label: str
    text: str
    reason: bool = False
    typed: bool = False


TAKE_OUT = HostAct(
    "take-out",
    "Take out of service",
    "The host gets no new work. A cluster that holds it gets another host.",
    reason=True,
)
PUT_BACK = HostAct(
    "put-back",
    "Return to service",
    "The host is repaired and has no tenant data on its disks. It becomes free.",
)
CLEANED = HostAct("cleaned", "Mark as wiped", "You have wiped the host manually because the hub could not.")
REBIND = HostAct("rebind", "Allow rejoin", "The host may request both its certificates once more.")
REMOVE = HostAct(
    "remove",
    "Remove host",
    "The host is removed from the inventory. Nothing is changed at the hub.",
    typed=True,
)


@dataclass(frozen=True)
class HostShown:
    """holder, holder_url: the cluster, "" where there is none."""

    name: str
    url: str
    tone: Tone
    word: str
    reason: str
    gpus: str
    holder: str
    holder_url: str
    facts: tuple[Fact, ...]
    acts: tuple[HostAct, ...]


def hosts_shown(site: Site, rows: Sequence[Host]) -> list[HostShown]:
    """One query."""
    keys = {row.cluster_id for row in rows if row.cluster_id}
    clusters = Cluster.objects.filter(pk__in=keys).select_related("project").in_bulk() if keys else {}
    return [_host(site, row, clusters.get(row.cluster_id)) for row in rows]


def _host(site: Site, row: Host, cluster: Cluster | None) -> HostShown:
    state = HostState(row.state)
    leaving = bool(row.reason) and state != HostState.BROKEN
    return HostShown(
        name=row.name,
        url=reverse("frontend:operator_site_host", args=[site.slug, row.name]),
        tone=Tone.WARN if leaving else TONES[state],
        word=f"{state.label}, out of service" if leaving else state.label,
        reason=row.reason,
        gpus=f"{row.gpus} × {row.product}" if row.gpus else "none (control plane)",
        holder=f"{cluster.project.slug}/{cluster.name}, {row.slot}" if cluster else row.slot,
        holder_url=url_of(cluster) if cluster else "",
        facts=_facts(row),
        acts=_acts(row, state),
    )


def _facts(row: Host) -> tuple[Fact, ...]:
    return (
        Fact("Memory of one GPU", f"{row.gpu_memory_gib} GiB" if row.gpus else "–"),
        Fact("vCPU and memory", f"{row.vcpus:,} and {row.memory_gib:,} GiB"),
        Fact("Sold as", row.resource_name),
        Fact("BMC", row.bmc_address),
        Fact("Secret of the BMC at the hub", row.bmc_secret),
        Fact("Boot MAC", row.boot_mac),
        Fact("Addresses", ", ".join(row.addresses)),
        Fact("Data on its disks", "maybe" if row.dirty else "no"),
    )


def _acts(row: Host, state: HostState) -> tuple[HostAct, ...]:
    if state == HostState.BROKEN:
        return (PUT_BACK, REMOVE)
    if state == HostState.FREE:
        return (TAKE_OUT, REMOVE)
    if state == HostState.BOUND:
        return (REBIND,) if row.reason else (TAKE_OUT, REBIND)
    return (*(() if row.reason else (TAKE_OUT,)), *((CLEANED,) if row.dirty else ()))

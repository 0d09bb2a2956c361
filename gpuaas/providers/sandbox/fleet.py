"""The hardware of a simulated site."""

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import DeviceKind, NodeTraits
from gpuaas.providers.kinds import kind
from gpuaas.providers.sandbox.models import SandboxNode, SandboxSite

# derived as at every other site
H100 = kind("NVIDIA-H100-80GB-HBM3", memory_mib=81559, compute="9.0", ecc=True, mig_capable=True)
A100 = kind("NVIDIA-A100-SXM4-80GB", memory_mib=81920, compute="8.0", ecc=True, mig_capable=True)
L40S = replace(
    kind("NVIDIA-L40S", memory_mib=46068, compute="8.9", ecc=True, mig_capable=False), interconnect="PCIe"
)
A100_SLICE = kind("NVIDIA-A100-SXM4-40GB", memory_mib=40960, mig_profile="1g.5gb", compute="8.0", ecc=True)


@dataclass(frozen=True)
class Rack:
    """`nodes` identical nodes; kind None = nodes without GPUs."""

    prefix: str
    nodes: int
    kind: DeviceKind | None
    devices: int = 0
    vcpus: int = 64
    memory_gib: int = 512
    resource_name: str = "nvidia.com/gpu"
    labels: dict[str, str] = field(default_factory=dict)
    traits: NodeTraits = field(default_factory=NodeTraits)


FLEET = (
    Rack(
        "h100",
        2,
        H100,
        8,
        vcpus=208,
        memory_gib=2048,
        traits=NodeTraits(
            zone="ber-a",
            rack="rack-a",
            numa="single-numa-node",
            cpus="static",
            profile="hpc",
            hugepages={"1Gi": 64},
        ),
    ),
    Rack("a100", 2, A100, 8, vcpus=128, memory_gib=1024, traits=NodeTraits(zone="ber-a", rack="rack-b")),
    Rack("l40s", 2, L40S, 4, vcpus=96, memory_gib=768),
    Rack("slice", 1, A100_SLICE, 14, vcpus=64, memory_gib=512, resource_name="nvidia.com/mig-1g.5gb"),
    Rack("cpu", 1, None),
)


def fleet_seed(site_id: uuid.UUID, *, slug: str = "", racks: Sequence[Rack] = FLEET) -> SandboxSite:
    """Add the racks' nodes to the site; existing nodes keep their state. Repeatable."""
    site, _ = SandboxSite.objects.update_or_create(pk=site_id, defaults={"slug": slug} if slug else {})
    SandboxNode.objects.bulk_create(
        [_node(site, rack, number) for rack in racks for number in range(1, rack.nodes + 1)],
        ignore_conflicts=True,
    )
    return site


def _node(site: SandboxSite, rack: Rack, number: int) -> SandboxNode:
    labels = {"nvidia.com/gpu.product": rack.kind.product, **rack.labels} if rack.kind else rack.labels
    return SandboxNode(
        site=site,
        name=f"{rack.prefix}-{number:02}",
        kind=asdict(rack.kind) if rack.kind else {},
        resource_name=rack.resource_name if rack.kind else "",
        labels=labels,
        capacity=rack.devices,
        vcpus=rack.vcpus,
        memory_gib=rack.memory_gib,
        # without those that say nothing: a release that does not know a trait yet reads it, too
        traits={name: value for name, value in asdict(rack.traits).items() if value},
    )


def node_set(
    site_id: uuid.UUID,
    *,
    name: str,
    ready: bool = True,
    cordoned: bool = False,
    reason: str = "",
    unhealthy: int = 0,
) -> None:
    """Break, cordon or repair a node, or some of its devices. Its pods stay; no new ones are placed while it is not healthy."""
    rows = SandboxNode.objects.filter(site=site_id, name=name)
    if not rows.update(ready=ready, cordoned=cordoned, reason=reason, unhealthy=unhealthy):
        raise NotFound(f"the site has no node {name}")

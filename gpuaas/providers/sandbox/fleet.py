"""The hardware of a simulated site."""

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import DeviceKind, NodeTraits
from gpuaas.providers.sandbox.models import SandboxNode, SandboxSite

H100 = DeviceKind(
    slug="h100-sxm-80gb",
    name="H100 SXM 80 GB",
    product="NVIDIA-H100-80GB-HBM3",
    memory_gib=80,
    sharing="whole",
    compute_capability="9.0",
    interconnect="NVLink",
    ecc=True,
    mig_capable=True,
)
A100 = DeviceKind(
    slug="a100-sxm-80gb",
    name="A100 SXM 80 GB",
    product="NVIDIA-A100-SXM4-80GB",
    memory_gib=80,
    sharing="whole",
    compute_capability="8.0",
    interconnect="NVLink",
    ecc=True,
    mig_capable=True,
)
L40S = DeviceKind(
    slug="l40s-48gb",
    name="L40S 48 GB",
    product="NVIDIA-L40S",
    memory_gib=48,
    sharing="whole",
    compute_capability="8.9",
    interconnect="PCIe",
    ecc=True,
    mig_capable=False,
)
A100_SLICE = DeviceKind(
    slug="a100-40gb-mig-1g.5gb",
    name="A100 40 GB MIG 1g.5gb",
    product="NVIDIA-A100-SXM4-40GB",
    memory_gib=5,
    sharing="mig",
    compute_capability="8.0",
    mig_profile="1g.5gb",
    ecc=True,
    mig_capable=False,
)


@dataclass(frozen=True)
class Rack:
    """`nodes` alike nodes; kind None = nodes without GPUs."""

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
    """Put the racks' nodes into the site; nodes that are there keep their state. Repeating it adds nothing."""
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
        traits=asdict(rack.traits),
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
    """Break, cordon or mend a node, or so many of its devices. Pods on it stay where they are; no new ones come while it is not well."""
    rows = SandboxNode.objects.filter(site=site_id, name=name)
    if not rows.update(ready=ready, cordoned=cordoned, reason=reason, unhealthy=unhealthy):
        raise NotFound(f"the site has no node {name}")

"""How a site is reached, and what it has."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Connection:
    """How to reach one site. `credentials` are plain here and live no longer than the call."""

    site_id: uuid.UUID
    site_slug: str
    endpoint: str
    credentials: Mapping[str, Any] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceKind:
    """A GPU type as a site describes it; `slug` is derived from its attributes, so that all sites agree on it."""

    slug: str
    name: str
    product: str
    memory_gib: int
    sharing: str  # catalog's Sharing: whole, mig, shared, dra
    compute_capability: str = ""
    mig_profile: str = ""
    interconnect: str = ""
    ecc: bool | None = None
    mig_capable: bool | None = None


@dataclass(frozen=True)
class Check:
    """One fact about a site or a node, kept as a condition: status is "True" where it is as it should be.

    blocking: where it is "False", nothing new may be sold there.
    """

    type: str
    status: str  # core.conditions.Status
    reason: str
    message: str
    remedy: str = ""
    blocking: bool = False


@dataclass(frozen=True)
class NodeHealth:
    """What a node's own monitoring says of its cards: how many there are, and what of them should take no work.

    sick: by MIG profile ("" = whole cards); a sick card that is cut counts every slice of it.
    """

    node: str
    cards: int
    sick: Mapping[str, int]
    check: Check


@dataclass(frozen=True)
class NodeTraits:
    """Where a node stands and how it is tuned; "" and empty where the site does not say.

    rack and nvlink_domain group nodes; numa is the kubelet's topology manager policy, cpus its CPU manager's
    ("static" gives whole cores). hugepages: page size ("1Gi", "2Mi") to GiB in all. profile names a tuned profile.
    """

    zone: str = ""
    rack: str = ""
    nvlink_domain: str = ""
    numa: str = ""
    cpus: str = ""
    profile: str = ""
    hugepages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservedNode:
    """Devices of one kind on one node. `allocated` counts what pods or machines hold; `reason` says why not ready.

    capacity counts all devices that are built in, `unhealthy` those of them that cannot take work.
    """

    name: str
    kind_slug: str  # "" for a node without GPUs
    capacity: int
    allocated: int
    vcpus: int
    memory_gib: int
    ready: bool = True
    cordoned: bool = False
    reason: str = ""
    unhealthy: int = 0
    traits: NodeTraits = field(default_factory=NodeTraits)
    checks: tuple[Check, ...] = ()

    @property
    def healthy(self) -> int:
        return max(self.capacity - self.unhealthy, 0) if self.ready and not self.cordoned else 0

    @property
    def free(self) -> int:
        return max(self.healthy - self.allocated, 0)


@dataclass(frozen=True)
class ObservedPool:
    """All devices of one kind at the site, the name by which it counts them, and how pods are brought to them.

    trouble: why it cannot be sold as it is, in words. shares_with: slugs of kinds that are cut from the same hardware.
    """

    kind: DeviceKind
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    shares_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """names: every name by which the site counts GPUs, also of those of which it does not say what they are."""

    server_version: str
    pools: tuple[ObservedPool, ...]
    nodes: tuple[ObservedNode, ...]
    names: tuple[str, ...] = ()

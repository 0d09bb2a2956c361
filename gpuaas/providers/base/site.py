"""How to connect to a site, and its inventory."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.core.errors import Unconfirmed


@dataclass(frozen=True)
class SoldPool:
    """A sold pool of a site: its kind, the resource name it was sold by, and the node labels that its workspaces are pinned to.

    device_class: the DRA class of that name; "" if it is counted otherwise, or not known yet. shares: how many of them were one
    card; 0 = not known yet.
    """

    kind_slug: str
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    device_class: str = ""
    shares: int = 0


@dataclass(frozen=True)
class Connection:
    """How to connect to one site. `credentials` are decrypted here and live no longer than the call.

    sold: for `probe` only, what was sold there, oldest first: these names take precedence over any other. holders: for `probe`
    too, the workspaces and clusters that hold something there by the portal's books, to be asked after the site has been read.
    may_change: asked before each call that changes something; None: always.
    """

    site_id: uuid.UUID
    site_slug: str
    endpoint: str
    credentials: Mapping[str, Any] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    sold: tuple[SoldPool, ...] = ()
    holders: Callable[[], frozenset[uuid.UUID]] | None = field(default=None, repr=False)
    may_change: Callable[[], bool] | None = field(default=None, repr=False)

    def change_require(self) -> None:
        """Raises Unconfirmed where nothing may be changed now."""
        if self.may_change is not None and not self.may_change():
            raise Unconfirmed(self.site_slug)


@dataclass(frozen=True)
class DeviceKind:
    """A GPU type as a site describes it; `slug` is derived from its attributes, so that it is the same at all sites."""

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
    """One check of a site or a node, stored as a condition: status is "True" if it passed.

    blocking: while it is "False", nothing new may be sold there.
    """

    type: str
    status: str  # core.conditions.Status
    reason: str
    message: str
    remedy: str = ""
    blocking: bool = False


@dataclass(frozen=True)
class NodeHealth:
    """What a node's monitoring reports about its cards: how many there are, and which should take no work.

    sick: by MIG profile ("" = whole cards); a sick card that is partitioned counts every slice of it.
    """

    node: str
    cards: int
    sick: Mapping[str, int]
    check: Check


@dataclass(frozen=True)
class DeviceReading:
    """What monitoring told of one GPU, MIG slice or time-sliced share, and of the pod that has it; None and "": not told.

    device is the card's UUID, instance the slice's id, profile its MIG profile ("" of a whole card). utilization and
    temperature in percent and degrees Celsius; energy_mj counts since the card's driver was loaded; nvlink is bytes per second in
    both directions; xid: the last error that the driver wrote, 0 = none. What a card tells only as a whole (power,
    energy) is left out for a part of it.
    """

    node: str
    device: str
    index: str = ""
    instance: str = ""
    profile: str = ""
    product: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    utilization: float | None = None
    memory_used_mib: int | None = None
    memory_free_mib: int | None = None
    power_watts: float | None = None
    temperature: int | None = None
    energy_mj: int | None = None
    nvlink: int | None = None
    xid: int | None = None


@dataclass(frozen=True)
class NodeTraits:
    """A node's location and tuning; "" and empty where the site does not say.

    rack and nvlink_domain group nodes; numa is the kubelet's topology manager policy, cpus its CPU manager's
    ("static" gives whole cores). hugepages: page size ("1Gi", "2Mi") to GiB in all. profile names a tuned profile. arch is the
    processor's architecture, in Kubernetes' words ("amd64", "arm64").
    """

    zone: str = ""
    rack: str = ""
    nvlink_domain: str = ""
    numa: str = ""
    cpus: str = ""
    profile: str = ""
    hugepages: Mapping[str, int] = field(default_factory=dict)
    arch: str = ""


@dataclass(frozen=True)
class ObservedNode:
    """Devices of one kind on one node. `allocated` counts what pods or machines hold, `others` those of them that are not for a
    workspace or cluster of this portal; `reason`: why it is not ready.

    capacity counts all installed devices, `unhealthy` those of them that cannot take work. shares: how many of them are one
    card, or one slice of it, that is shared in time or by MPS; how many slices a card has follows from its kind.
    others: those of `allocated` that are held by what this portal does not manage; lent: those that end when a buyer needs them, so
    that they are free as well. block: the most free devices that one
    consumer can get there, where these are fewer than all of them.
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
    others: int = 0
    lent: int = 0
    block: int | None = None
    shares: int = 1
    traits: NodeTraits = field(default_factory=NodeTraits)
    checks: tuple[Check, ...] = ()

    @property
    def healthy(self) -> int:
        return max(self.capacity - self.unhealthy, 0) if self.ready and not self.cordoned else 0

    @property
    def free(self) -> int:
        return max(self.healthy - self.allocated + self.lent, 0)

    @property
    def largest_block(self) -> int:
        return self.free if self.block is None else min(self.free, self.block)


@dataclass(frozen=True)
class ObservedPool:
    """All devices of one kind at the site, the name by which it counts them, and the labels that pin pods to them.

    trouble: why it cannot be sold as it is, in words. shares_with: slugs of kinds that share the same hardware.
    device_class: the DRA class that sells it. also: further names to which the site charges these devices. by_hand:
    the operator set the selector, which takes precedence over what was sold. arch: of all its nodes, "" if it is not known.
    """

    kind: DeviceKind
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    shares_with: tuple[str, ...] = ()
    device_class: str = ""
    also: tuple[str, ...] = ()
    by_hand: bool = False
    arch: str = ""


@dataclass(frozen=True)
class Unknown:
    """Devices that are not sold because it is not known what they are: where, by which name, how many, and why, in words."""

    place: str
    name: str
    count: int
    reason: str


@dataclass(frozen=True)
class ObservedStorageClass:
    """A class of storage by the name that claims use; default: what a claim without a name gets, at most one of a site. None, of
    all classes: which it is is not known at the moment."""

    name: str
    provisioner: str = ""
    default: bool | None = False


@dataclass(frozen=True)
class ObservedRuntime:
    """A training runtime that jobs may name. framework: such as torch; "" where the site does not say."""

    name: str
    framework: str = ""


@dataclass(frozen=True)
class Inventory:
    """unknown: devices of no pool and no node above. names: every name by which the site counts GPUs, including those of unknown product.

    seconds: further names for GPUs that are sold by another one, each in words; nobody may use these names.
    unknown: what is neither in `pools` nor in `nodes`. storage_classes: empty where the site does not tell them apart, so that
    its storage is one amount; None: not known at the moment. runtimes: by name. marked: names of namespaces or projects with the id of the
    workspace or cluster that they are marked for, which may be another portal's.
    """

    server_version: str
    pools: tuple[ObservedPool, ...]
    nodes: tuple[ObservedNode, ...]
    names: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    storage_classes: tuple[ObservedStorageClass, ...] | None = ()
    marked: Mapping[str, uuid.UUID] = field(default_factory=dict)
    runtimes: tuple[ObservedRuntime, ...] = ()

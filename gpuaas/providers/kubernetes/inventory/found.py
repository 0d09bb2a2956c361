"""The common currency of the inventory: devices of one kind on one node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuaas.providers.base import DeviceKind


@dataclass(frozen=True)
class Found:
    """Devices of one kind on one node, by the name that the site counts them; capacity counts unhealthy ones too.

    names: every name by which these devices can be allocated. shares_with: slugs of kinds that share the same hardware, so
    that allocating one removes others. closed: why they cannot be allocated, in words. trouble: with the name that they were
    sold by, in words. device_class: of that name. others: those of
    `allocated` that are not ours; lent: as ObservedNode. also: further names to which the site charges them. shares: as ObservedNode.
    """

    node: str
    kind: DeviceKind
    resource_name: str
    capacity: int
    allocated: int
    labels: Mapping[str, str] = field(default_factory=dict)
    unhealthy: int = 0
    others: int = 0
    lent: int = 0
    shares: int = 1
    names: frozenset[str] = frozenset()
    shares_with: frozenset[str] = frozenset()
    dra: bool = False
    device_class: str = ""
    also: frozenset[str] = frozenset()
    closed: str = ""
    trouble: str = ""

    @property
    def reached_by(self) -> frozenset[str]:
        return self.names | {self.resource_name}

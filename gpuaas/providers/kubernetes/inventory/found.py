"""The common coin of the inventory: devices of one kind at one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuaas.providers.base import DeviceKind


@dataclass(frozen=True)
class Found:
    """Devices of one kind on one node, by the name that the site counts them; capacity counts unhealthy ones too.

    names: every name by which somebody could be given these devices. shares_with: names of kinds that are cut from
    the same hardware, so that one taken is others gone.
    """

    node: str
    kind: DeviceKind
    resource_name: str
    capacity: int
    allocated: int
    labels: Mapping[str, str] = field(default_factory=dict)
    unhealthy: int = 0
    names: frozenset[str] = frozenset()
    shares_with: frozenset[str] = frozenset()
    dra: bool = False

    @property
    def reached_by(self) -> frozenset[str]:
        return self.names | {self.resource_name}

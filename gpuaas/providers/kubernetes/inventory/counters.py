"""Shared counters of partitionable devices: a card and its slices are all listed, and allocating one consumes the others'."""

from collections.abc import Iterable, Iterator
from fractions import Fraction

from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubernetes.inventory.slices import Device

Counter = tuple[str, str, str, str]  # driver, pool, set, counter


class Budget:
    """The remaining amounts of counters that devices share; a device without counters always fits."""

    def __init__(self, slices: dict[tuple[str, str], list[Object]]) -> None:
        self._left: dict[Counter, Fraction] = {
            (*pool, group["name"], name): quantity(counter["value"])
            for pool, rows in slices.items()
            for row in rows
            for group in row["spec"].get("sharedCounters") or []
            for name, counter in (group.get("counters") or {}).items()
        }

    def copy(self) -> "Budget":
        other = Budget({})
        other._left = dict(self._left)
        return other

    def use(self, device: Device) -> None:
        """Deduct the device even if it does not fit: it is already allocated."""
        for counter, amount in _needs(device):
            self._left[counter] = self._left.get(counter, Fraction(0)) - amount

    def fit(self, devices: Iterable[Device]) -> int:
        """How many of them can be allocated, one after the other; deducts them."""
        count = 0
        for device in devices:
            if all(self._left.get(counter, Fraction(0)) >= amount for counter, amount in _needs(device)):
                self.use(device)
                count += 1
        return count


def groups_of(device: Device) -> frozenset[tuple[str, str, str]]:
    """(driver, pool, counter set): devices with one in common share hardware."""
    used = device.body.get("consumesCounters") or []
    return frozenset((*device.pool, each["counterSet"]) for each in used)


def _needs(device: Device) -> Iterator[tuple[Counter, Fraction]]:
    for each in device.body.get("consumesCounters") or []:
        for name, counter in (each.get("counters") or {}).items():
            yield (*device.pool, each["counterSet"], name), quantity(counter["value"])

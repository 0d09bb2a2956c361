"""Detects devices that Placement allocates or frees without a change of the machine, by its providers' generations.

One call lists all generations; only a provider whose generation changed is asked for its allocations.
"""

import time

from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.machine_cache import MachineCache, devices_held

EVERY_SECONDS = 4.0


class DeviceWatch:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._generations: dict[str, int] = {}
        self._looked_at = -EVERY_SECONDS

    def changed(self, cache: MachineCache) -> dict[str, dict[str, int]]:
        """Consumers (machines, and migrations that hold what a resize left) with their devices by GPU class, where these
        differ from `cache`. The first call only records generations."""
        moment = time.monotonic()
        if moment - self._looked_at < EVERY_SECONDS:
            return {}
        self._looked_at = moment
        rows = self._cloud.items("placement", "/resource_providers", "resource_providers")
        before, self._generations = self._generations, {row["uuid"]: row["generation"] for row in rows}
        stale = [key for key, each in self._generations.items() if before and before.get(key) != each]
        suspects = {consumer for key in stale for consumer in self._holders(key)}
        found = {each: devices_held(self._cloud, each) or {} for each in sorted(suspects)}
        return {each: held for each, held in found.items() if held != cache.held(each)}

    def _holders(self, provider: str) -> list[str]:
        found = self._cloud.find("placement", f"/resource_providers/{provider}/allocations") or {}
        rows: dict[str, dict[str, dict[str, int]]] = found.get("allocations") or {}
        return [uid for uid, row in rows.items() if any(map(names.is_gpu_class, row["resources"]))]

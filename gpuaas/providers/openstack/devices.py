"""Detects devices that Placement allocates or frees without a change of the machine, by its providers' generations.

One call lists all generations; only a provider whose generation changed is asked for its allocations. Freeing a device raises
the generation of its host's other providers, but not its own: so machines that hold devices on that host are asked, too.
"""

import time

from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.machine_cache import MachineCache, allocations_of, devices_held

EVERY_SECONDS = 4.0


class DeviceWatch:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._generations: dict[str, int] = {}
        self._looked_at = -EVERY_SECONDS

    def changed(self, cache: MachineCache, classes: Classes) -> dict[str, dict[str, int]]:
        """Consumers (machines, and migrations that hold what a resize left) with their devices by GPU class, where these
        differ from `cache`. The first call only records generations."""
        moment = time.monotonic()
        if moment - self._looked_at < EVERY_SECONDS:
            return {}
        self._looked_at = moment
        rows = self._cloud.items("placement", "/resource_providers", "resource_providers")
        before, self._generations = self._generations, {row["uuid"]: row["generation"] for row in rows}
        moved = [key for key, each in self._generations.items() if before and before.get(key) != each]
        hosts = {row["root_provider_uuid"] for row in rows if row["uuid"] in moved}
        near = {row["uuid"] for row in rows if row["root_provider_uuid"] in hosts}
        suspects = {consumer for key in moved for consumer in self._holders(key, classes)} | cache.holders_at(
            near
        )
        found = {
            each: devices_held(allocations_of(self._cloud, each, classes) or {}) for each in sorted(suspects)
        }
        return {each: held for each, held in found.items() if held != cache.held(each)}

    def _holders(self, provider: str, classes: Classes) -> list[str]:
        found = self._cloud.find("placement", f"/resource_providers/{provider}/allocations") or {}
        rows: dict[str, dict[str, dict[str, int]]] = found.get("allocations") or {}
        return [uid for uid, row in rows.items() if any(map(classes.is_gpu, row["resources"]))]

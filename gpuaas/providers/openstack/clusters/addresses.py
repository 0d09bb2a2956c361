"""Floating IPs of a cluster: its own, for people's access, and, if its pools may be at other sites, one for every machine.

A machine's address is reserved under the machine's name before the machine is created, which needs to know it; it is kept while the
machine is recreated, and released with it (docs/decisions/0047).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from gpuaas.core.errors import NoCapacity, NotFound, QuotaRefused, Unavailable
from gpuaas.providers.openstack import duplicates, networks
from gpuaas.providers.openstack.client import Cloud, Object

OF_MACHINE = f"{duplicates.MADE} for "
NONE_LEFT = "no more ip addresses"


def machine_of(row: Object) -> str:
    """The name of the machine it belongs to; "" for the cluster's own."""
    words = str(row.get("description") or "")
    return words.removeprefix(OF_MACHINE) if words.startswith(OF_MACHINE) else ""


@dataclass(frozen=True)
class Addresses:
    """The floating IPs of one project. external: the name of the external network; tags: set on every object of the cluster."""

    cloud: Cloud
    project_id: str
    external: str
    tags: tuple[str, ...]

    def all(self) -> list[Object]:
        return self.cloud.items("network", "/floatingips", "floatingips", project_id=self.project_id)

    def by_machine(self) -> dict[str, Object]:
        """One per machine: of several the one in use, then the oldest."""
        return {machine_of(row): row for row in sorted(self.all(), key=_rank, reverse=True)}

    def found(self, machine: str = "") -> Object | None:
        return self.by_machine().get(machine)

    def ensure(self, machine: str = "") -> Object:
        """Reserve it, and release duplicates, which come from calls whose answers were lost."""
        rows = [row for row in self.all() if machine_of(row) == machine]
        ours, *others = sorted(rows or [self._reserve(machine)], key=_rank)
        networks.tagged(self.cloud, "floatingips", ours, self.tags)
        self._give_back(others)
        return ours

    def lead(self, servers: Iterable[Object], *, own: str) -> None:
        """Point every machine's address to it as soon as it is ACTIVE; repeatable. own: the machine with the cluster's address."""
        found = self.by_machine()
        for server in servers:
            row = found.get("" if server["name"] == own else server["name"])
            if row is not None and server["status"] == "ACTIVE":
                self.lead_to(row, server)

    def lead_to(self, address: Object, server: Object) -> None:
        port = self._ports.get(server["id"])
        if port is None:
            raise NotFound(f"{server['name']} has no network port yet")
        if address["port_id"] != port:
            body = {"floatingip": {"port_id": port}}
            self.cloud.put("network", f"/floatingips/{address['id']}", body)

    def release(self, machines: Collection[str]) -> None:
        """Release the addresses of machines other than these."""
        self._give_back(row for row in self.all() if machine_of(row) and machine_of(row) not in machines)

    def give_all_back(self) -> None:
        self._give_back(self.all())

    def _give_back(self, rows: Iterable[Object]) -> None:
        for row in rows:
            self.cloud.delete("network", f"/floatingips/{row['id']}")

    @cached_property
    def _ports(self) -> dict[str, str]:
        rows = self.cloud.items("network", "/ports", "ports", project_id=self.project_id)
        return {row["device_id"]: row["id"] for row in rows if row["device_id"]}

    def _reserve(self, machine: str) -> Object:
        body = {
            "floating_network_id": networks.outside(self.cloud, self.external),
            "project_id": self.project_id,
            "description": f"{OF_MACHINE}{machine}" if machine else duplicates.MADE,
        }
        try:
            made: Object = self.cloud.post("network", "/floatingips", {"floatingip": body})["floatingip"]
        except (QuotaRefused, Unavailable) as error:
            if NONE_LEFT not in error.message.lower():
                raise
            raise _none_left(self.external, machine, error.message) from error
        return made


def _none_left(external: str, machine: str, message: str) -> NoCapacity:
    return NoCapacity(
        f"the network {external} has no address left for {machine or 'the cluster'}",
        detail={
            "evidence": [message],
            "next": "Retry when others have released addresses, scale to fewer workers, or ask an operator to extend the network.",
        },
    )


def _rank(row: Object) -> tuple[bool, str, str]:
    return not row["port_id"], row.get("created_at") or "", row["id"]

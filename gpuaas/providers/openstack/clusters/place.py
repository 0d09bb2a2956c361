"""Where a cluster's machines are: a project of its own with limits of exactly what was ordered, a network, and one address.

Nobody but the portal's own user is in the project, so what is made there is the portal's; what is there twice after a lost answer goes.
"""

from dataclasses import dataclass
from functools import cached_property

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers.base import (
    ClusterKind,
    ClusterRef,
    ClusterSpec,
    FlavorAmount,
    GpuAmount,
    StepOutcome,
    WorkspaceSpec,
)
from gpuaas.providers.openstack import flavors, inside, limits, names, networks, projects, twins
from gpuaas.providers.openstack.client import Cloud, Object

CIDR, GATEWAY = "10.0.0.0/16", "10.0.0.1"
# below these the control plane has its addresses, which workers know before it is there
LENT = ("10.0.1.0", "10.0.255.254")
PORTS = {ClusterKind.KUBERNETES: 6443, ClusterKind.SLURM: 22}
SPARE_PORTS = 3  # of the router, of DHCP, and of the address


def control_address(number: int) -> str:
    return f"10.0.0.{10 + number}"


def control_flavor(spec: ClusterSpec) -> FlavorAmount:
    sizes = spec.control_plane
    slug = f"control-{sizes.vcpus}-{sizes.memory_gib}-{sizes.disk_gib}"
    return FlavorAmount(slug, sizes.count, 0, sizes.vcpus, sizes.memory_gib, sizes.disk_gib, "")


def as_workspace(spec: ClusterSpec) -> WorkspaceSpec:
    """What it holds, in the words of a workspace: so limits and flavors are the same code."""
    sold = (control_flavor(spec), *(pool.flavor for pool in spec.pools))
    workers = [pool.flavor for pool in spec.pools if pool.flavor.count and pool.flavor.gpus]
    return WorkspaceSpec(
        id=spec.id,
        external_name=spec.external_name,
        project_slug=spec.project_slug,
        organization_slug=spec.organization_slug,
        gpus=tuple(GpuAmount(one.resource_name, one.count * one.gpus, one.selector) for one in workers),
        vcpus=sum(one.vcpus * one.count for one in sold),
        memory_gib=sum(one.memory_gib * one.count for one in sold),
        storage_gib=0,
        members=(),
        flavors=sold,
    )


@dataclass(frozen=True)
class Place:
    cloud: Cloud
    ref: ClusterRef
    domain: str
    external: str

    @cached_property
    def project(self) -> Object | None:
        return self._project()

    @property
    def tags(self) -> tuple[str, ...]:
        return names.CLUSTERS, names.CLUSTER_TAG.format(id=self.ref.id)

    def require(self) -> Object:
        if self.project is None:
            raise NotFound(
                f"the project {self.ref.external_name} is not at the site; it has to be made again"
            )
        return self.project

    def _project(self) -> Object | None:
        name, tag = self.ref.external_name, names.CLUSTER_TAG
        return projects.own_project(self.cloud, name, self.ref.id, domain=self.domain, tag=tag)

    def make(self, spec: ClusterSpec) -> StepOutcome:
        found = self.project
        if found is None:
            name, tag = self.ref.external_name, names.CLUSTER_TAG
            made = projects.project_make(self.cloud, name, self.ref.id, domain=self.domain, tag=tag)
            found = {**made, "found_name": name}
        inside.enter(self.cloud, found).close()
        return self.limit(spec, found)

    def limit(self, spec: ClusterSpec, project: Object) -> StepOutcome:
        """Exactly what is wanted now; whoever has more keeps it and gets no more. Flavors after the limits are in force."""
        wanted, quota = as_workspace(spec), _quota(spec)
        if not limits.confirmed(self.cloud, wanted, project["id"]).done:
            limits.apply(self.cloud, wanted, project["id"], quota)
        elif not quota.items() <= limits.network_read(self.cloud, project["id"]).items():
            limits.network_write(self.cloud, project["id"], quota)
        outcome = limits.confirmed(self.cloud, wanted, project["id"])
        if outcome.done:
            flavors.grant(self.cloud, wanted, project["id"])
        return outcome

    def connect(self, spec: ClusterSpec) -> StepOutcome:
        shape = networks.Shape(self.ref.external_name, CIDR, LENT, PORTS[spec.kind], self.tags)
        twice = networks.apply(self.cloud, self.require()["id"], external=self._external_name(), shape=shape)
        return StepOutcome(done=True, detail=f"there twice, so it stays: {', '.join(twice)}" if twice else "")

    def reserve(self) -> StepOutcome:
        """The oldest of several; the others were made by calls whose answers were lost."""
        project, found = self.require(), self.addresses()
        if not found:
            body = {
                "floating_network_id": networks.outside(self.cloud, self._external_name()),
                "project_id": project["id"],
                "description": twins.MADE,
            }
            found = [self.cloud.post("network", "/floatingips", {"floatingip": body})["floatingip"]]
        ours, *others = sorted(
            found, key=lambda row: (not row["port_id"], row.get("created_at") or "", row["id"])
        )
        networks.tagged(self.cloud, "floatingips", ours, self.tags)
        for other in others:
            self.cloud.delete("network", f"/floatingips/{other['id']}")
        return StepOutcome(done=True, detail=str(ours["floating_ip_address"]))

    def addresses(self) -> list[Object]:
        query = {"project_id": self.require()["id"]}
        return self.cloud.items("network", "/floatingips", "floatingips", **query)

    def address(self) -> Object:
        found = self.addresses()
        if not found:
            raise NotFound("its address is not at the site; it has to be reserved again")
        return found[0]

    def lead_to(self, server: Object) -> None:
        """The address leads to this machine. Repeatable."""
        ports = self.cloud.items("network", "/ports", "ports", device_id=server["id"])
        if not ports:
            raise NotFound(f"{server['name']} has no port at the site yet")
        address = self.address()
        if address["port_id"] != ports[0]["id"]:
            body = {"floatingip": {"port_id": ports[0]["id"]}}
            self.cloud.put("network", f"/floatingips/{address['id']}", body)

    def shut(self) -> None:
        """Nobody gets in any more."""
        for row in self.addresses() if self.project else ():
            self.cloud.delete("network", f"/floatingips/{row['id']}")

    def network(self) -> str:
        return self._id_of("networks")

    def group(self) -> str:
        return self._id_of("security-groups")

    def _id_of(self, collection: str) -> str:
        query = {"project_id": self.require()["id"], "name": self.ref.external_name}
        rows = self.cloud.items("network", f"/{collection}", collection.replace("-", "_"), **query)
        if not rows:
            raise NotFound("its network is not at the site; it has to be made again")
        return str(rows[0]["id"])

    def _external_name(self) -> str:
        if not self.external:
            raise Permanent(
                "nobody could reach a cluster here: an operator has to name the network that leads out in the site's option "
                "external_network"
            )
        return self.external


def over_quota(error: QuotaRefused) -> QuotaRefused:
    """With what the site said, and what can be done about it."""
    return QuotaRefused(
        "the site refuses another machine: a limit of the cluster's project is reached",
        detail={
            **error.detail,
            "evidence": [error.message],
            "next": "Retry in a minute: machines that are being deleted count until they are gone. If it stays so, an operator "
            "has to look at the limits of the project at the site.",
        },
    )


def _quota(spec: ClusterSpec) -> dict[str, int]:
    """Neutron's: one of everything, and a port for every machine."""
    machines = spec.control_plane.count + sum(pool.flavor.count for pool in spec.pools)
    return {
        "network": 1,
        "subnet": 1,
        "router": 1,
        "port": machines + SPARE_PORTS,
        "security_group": 2,
        "security_group_rule": 20,
        "floatingip": 1,
        "rbac_policy": 0,
        "subnetpool": 0,
    }

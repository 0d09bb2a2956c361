"""The place of a cluster's machines: its own project with limits of exactly what was ordered, a network, and addresses. At a burst
site it is the same without the address for people.

Only the portal's user is in the project, so everything there is the portal's; duplicates from lost answers are deleted.
"""

import ipaddress
import uuid
from dataclasses import dataclass
from functools import cached_property

from gpuaas.core.errors import NotFound, Permanent, QuotaRefused
from gpuaas.providers import base
from gpuaas.providers.openstack import flavors, inside, limits, names, networks, projects
from gpuaas.providers.openstack.classes import BY_NAME, Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters.addresses import Addresses
from gpuaas.providers.openstack.clusters.plan import has_mesh, is_meshed, mesh_name

CIDR = "10.0.0.0/16"
# addresses below these are the control plane's, which workers know before it exists
LENT = ("10.0.1.0", "10.0.255.254")
# burst sites have their own networks in here, so that no two machines of a cluster have the same address
ELSEWHERE, PREFIX = ipaddress.ip_network("10.128.0.0/9"), 18
PORTS = {base.ClusterKind.KUBERNETES: 6443, base.ClusterKind.SLURM: 22}
MESH_PORT = 51820  # of WireGuard, k3s' own or Slurm's head's; it answers only to keys of the cluster
SPARE_PORTS = 3  # of the router, of DHCP, and of the address


def control_address(number: int) -> str:
    return f"10.0.0.{10 + number}"


def cidr_elsewhere(site: uuid.UUID) -> str:
    """The network of a cluster's part at a burst site: the same for all clusters there."""
    width = 1 << (ELSEWHERE.max_prefixlen - PREFIX)
    number = site.int % (ELSEWHERE.num_addresses // width)
    return f"{ELSEWHERE.network_address + number * width}/{PREFIX}"


def control_flavor(spec: base.ClusterSpec) -> base.FlavorAmount:
    sizes = spec.control_plane
    slug = f"control-{sizes.vcpus}-{sizes.memory_gib}-{sizes.disk_gib}"
    return base.FlavorAmount(slug, sizes.count, 0, sizes.vcpus, sizes.memory_gib, sizes.disk_gib, "")


def as_workspace(spec: base.ClusterSpec) -> base.WorkspaceSpec:
    """Its resources as a WorkspaceSpec, so that limits and flavors use the same code."""
    heads = () if spec.is_burst else (control_flavor(spec),)
    sold = (*heads, *(pool.flavor for pool in spec.pools))
    workers = [pool.flavor for pool in spec.pools if pool.flavor.count and pool.flavor.gpus]
    return base.WorkspaceSpec(
        id=spec.id,
        external_name=spec.external_name,
        project_slug=spec.project_slug,
        organization_slug=spec.organization_slug,
        gpus=tuple(base.GpuAmount(one.resource_name, one.count * one.gpus, one.selector) for one in workers),
        vcpus=sum(one.vcpus * one.count for one in sold),
        memory_gib=sum(one.memory_gib * one.count for one in sold),
        storage_gib=0,
        members=(),
        flavors=sold,
    )


@dataclass(frozen=True)
class Place:
    cloud: Cloud
    ref: base.ClusterRef
    domain: str
    external: str
    site_id: uuid.UUID
    site: str
    classes: Classes = BY_NAME

    @cached_property
    def project(self) -> Object | None:
        return self._project()

    @property
    def tags(self) -> tuple[str, ...]:
        return names.CLUSTERS, names.CLUSTER_TAG.format(id=self.ref.id)

    def require(self) -> Object:
        if self.project is None:
            raise NotFound(
                f"the project {self.ref.external_name} is not at the site; it must be created again"
            )
        return self.project

    def _project(self) -> Object | None:
        name, tag = self.ref.external_name, names.CLUSTER_TAG
        return projects.own_project(self.cloud, name, self.ref.id, domain=self.domain, tag=tag)

    def make(self, spec: base.ClusterSpec) -> base.StepOutcome:
        found = self.project
        mark = (names.BURST_TAG.format(site=self.site_id),) if spec.is_burst else ()
        if found is None:
            name, tag = self.ref.external_name, names.CLUSTER_TAG
            made = projects.project_make(
                self.cloud, name, self.ref.id, domain=self.domain, tag=tag, more=mark
            )
            found = {**made, "found_name": name}
        if not {*mark} <= {*found["tags"]}:
            raise Permanent(
                f"the project {self.ref.external_name} at {self.site} belongs to another site's part of the cluster: both sites use "
                "one domain of one Keystone; an operator must give each its own domain (the site's option domain)"
            )
        inside.enter(self.cloud, found).close()
        return self.limit(spec, found)

    def limit(self, spec: base.ClusterSpec, project: Object) -> base.StepOutcome:
        """Set exactly the desired limits; existing machines beyond them stay. Grants flavors once the limits are in force."""
        wanted, quota = as_workspace(spec), _quota(spec)
        if not limits.confirmed(self.cloud, wanted, project["id"], self.classes).done:
            limits.apply(self.cloud, wanted, project["id"], self.classes, quota)
        elif not quota.items() <= limits.network_read(self.cloud, project["id"]).items():
            limits.network_write(self.cloud, project["id"], quota)
        outcome = limits.confirmed(self.cloud, wanted, project["id"], self.classes)
        if outcome.done:
            flavors.grant(self.cloud, wanted, project["id"])
        return outcome

    def connect(self, spec: base.ClusterSpec) -> base.StepOutcome:
        cidr, lent = (cidr_elsewhere(self.site_id), ("", "")) if spec.is_burst else (CIDR, LENT)
        shape = networks.Shape(self.ref.external_name, cidr, lent, _doors(spec), self.tags)
        twice = networks.apply(self.cloud, self.require()["id"], external=self._external_name(), shape=shape)
        return base.StepOutcome(
            done=True,
            detail=f"duplicates that stay because they are in use: {', '.join(twice)}" if twice else "",
        )

    def reserve(self) -> base.StepOutcome:
        self._external_name()
        return base.StepOutcome(done=True, detail=str(self.addresses.ensure()["floating_ip_address"]))

    @cached_property
    def addresses(self) -> Addresses:
        return Addresses(self.cloud, self.require()["id"], self.external, self.tags)

    def address(self) -> Object:
        """The cluster's own."""
        found = self.addresses.found()
        if found is None:
            raise NotFound("its address is not at the site; it must be reserved again")
        return found

    def shut(self) -> None:
        """Release all addresses, so that nobody has access."""
        if self.project:
            self.addresses.give_all_back()

    def network(self) -> str:
        return self._id_of("networks")

    def group(self, name: str) -> str:
        return self._id_of("security-groups", name)

    def _id_of(self, collection: str, name: str = "") -> str:
        query = {"project_id": self.require()["id"], "name": name or self.ref.external_name}
        rows = self.cloud.items("network", f"/{collection}", collection.replace("-", "_"), **query)
        if not rows:
            raise NotFound("its network is not at the site; it must be created again")
        return str(rows[0]["id"])

    def _external_name(self) -> str:
        if not self.external:
            raise Permanent(
                "nobody could reach a cluster here: an operator must name the external network in the site's option "
                "external_network"
            )
        return self.external


def over_quota(error: QuotaRefused) -> QuotaRefused:
    """With the site's message, and what can be done about it."""
    return QuotaRefused(
        "the site refuses another machine: a limit of the cluster's project is reached",
        detail={
            **error.detail,
            "evidence": [error.message],
            "next": "Retry in a minute: machines that are being deleted count until they are gone. If it persists, an operator "
            "must check the limits of the project at the site.",
        },
    )


def groups(spec: base.ClusterSpec, *, of_heads: bool) -> list[str]:
    """Names of security groups besides Neutron's default: for access to the heads, and for tunnels of machines at other sites."""
    own = [spec.external_name] if of_heads else []
    return [*own, mesh_name(spec)] if is_meshed(spec) or (of_heads and has_mesh(spec)) else own


def _doors(spec: base.ClusterSpec) -> tuple[networks.Door, ...]:
    own = () if spec.is_burst else (networks.Door(spec.external_name, PORTS[spec.kind]),)
    mesh = (networks.Door(mesh_name(spec), MESH_PORT, "udp"),) if has_mesh(spec) else ()
    return (*own, *mesh)


def _quota(spec: base.ClusterSpec) -> dict[str, int]:
    """Neutron's quota: one of everything, a port for every machine, and an address where it needs one."""
    machines = spec.control_plane.count + sum(pool.flavor.count for pool in spec.pools)
    return {
        "network": 1,
        "subnet": 1,
        "router": 1,
        "port": machines + SPARE_PORTS,
        "security_group": 1 + len(_doors(spec)),
        "security_group_rule": 20,
        "floatingip": machines if is_meshed(spec) else 0 if spec.is_burst else 1,
        "rbac_policy": 0,
        "subnetpool": 0,
    }

"""A real cloud with make-believe GPUs. A consumer is a machine; `gpus` beyond a flavor's are several machines in one call."""

import time
import uuid
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import yaml

from deploy.lab.openstack import Lab
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Change, Connection, Driver, FlavorAmount, GpuAmount, Member, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.contracts.rigs.base import ALICE, BOB, Rig
from tests.lab.fixtures import until

A100 = "CUSTOM_PCI_10DE_20B0"
H100 = "CUSTOM_PCI_10DE_2330"
ALIASES = {A100: "a100", H100: "h100"}
ALIAS = "pci_passthrough:alias"
# no host has more: beyond it, a spec sells one machine with all of them
WIDEST = 8
# a key of a machine's metadata: what the test calls it, however many machines that is
NAME = "contract"


class OpenStackRig(Rig):
    over = "over a limit"
    running = "ACTIVE"
    limits_step = "limits"
    sites_own_name = "service"
    changed_by = ""
    one_limit_each = True
    build_seconds = 120
    checks: ClassVar[set[str]] = {"Services", "Microversions", "Permissions", "RegisteredLimits", "GpuLimits"}
    storage_check = "BlockStorage"

    def __init__(self, lab: Lab) -> None:
        gpu = GpuAmount(A100, 2, {ALIAS: ALIASES[A100]}, exclusive=True)
        super().__init__(OpenStackDriver(connection(lab)), gpu=gpu, unsold=H100)
        self._lab = lab
        self._tenants: dict[str, Cloud] = {}
        self._specs: list[WorkspaceSpec] = []
        self._foreign: list[str] = []

    @cached_property
    def admin(self) -> Cloud:
        return Cloud(self.driver.connection.credentials)

    def spec(self, *, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
        made = replace(super().spec(gpus=gpus, members=members), flavors=(self._sold(gpus),))
        self._specs.append(made)
        return made

    def resized(self, spec: WorkspaceSpec, gpus: int) -> WorkspaceSpec:
        return replace(super().resized(spec, gpus), flavors=(self._sold(gpus),))

    def _sold(self, gpus: int) -> FlavorAmount:
        each, count = (gpus, 1) if gpus > WIDEST else (1, gpus)
        return FlavorAmount(
            slug=f"contract-{each}",
            count=count,
            gpus=each,
            vcpus=4,
            memory_gib=8,
            disk_gib=1,
            resource_name=A100,
            selector=self.gpu.selector,
        )

    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        credential: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None:
        """Returns when Nova has decided."""
        tenant = self._tenant(credential)
        if gpus == 0:
            self._boot(tenant, self._plain(spec), name)
        elif resource != A100:
            self._boot(tenant, self._private(resource, gpus), name)
        else:
            flavor, count = self._bought(tenant, gpus)
            self._boot(tenant, flavor, name, count=count)
        until(lambda: not self._building(spec, name), f"{name} is decided")
        if run_seconds is not None:
            self._run_out(spec, name, run_seconds)

    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        """Every machine is put away as a whole and comes back."""
        del kind
        self.start(spec, name, gpus=gpus)

    def keep(self, spec: WorkspaceSpec) -> None:
        tenant = self._tenant(self.credential(spec))
        tenant.post("network", "/security-groups", {"security_group": {"name": "notes"}})
        body = {"name": "disk", "disk_format": "raw", "container_format": "bare", "epoch": "7"}
        tenant.post("image", "/images", body)

    def kept(self, spec: WorkspaceSpec) -> bool:
        tenant = self._tenant(self.credential(spec))
        images = tenant.items("image", "/images", "images", name="disk")
        groups = tenant.items("network", "/security-groups", "security_groups", name="notes")
        return [image["epoch"] for image in images] == ["7"] and len(groups) == 1

    def stop(self, spec: WorkspaceSpec, name: str) -> None:
        for server in self._machines(spec, name):
            self.admin.delete("compute", f"/servers/{server['id']}")
        until(lambda: not self._machines(spec, name), f"{name} is gone")

    def empty(self, spec: WorkspaceSpec) -> None:
        project_id = self._project(spec.external_name)["id"]
        for server in self._servers(project_id):
            self.admin.delete("compute", f"/servers/{server['id']}")
        until(lambda: not self._servers(project_id), "its machines are gone")
        until(lambda: not self._held(project_id), "nothing is claimed for it")

    def loosen(self, spec: WorkspaceSpec, gpus: int) -> None:
        self._limit(self._project(spec.external_name)["id"], gpus)

    def foreign(self, name: str) -> None:
        body = {"name": name, "domain_id": "default"}
        self.admin.post("identity", "/projects", {"project": body})
        self._foreign.append(name)

    def foreign_start(self, namespace: str, name: str, *, gpus: int) -> None:
        project = self._project(namespace)
        self._limit(project["id"], gpus + self._held(project["id"]))
        flavor = self._private(A100, gpus)
        self._grant(flavor, project["id"])
        server = self._boot(self._in(project["id"]), flavor, name)
        path = f"/servers/{server}"
        until(lambda: self.admin.get("compute", path)["server"]["status"] == self.running, f"{name} runs")

    def foreign_quota(self, namespace: str, *, gpus: int) -> None:
        self._limit(self._project(namespace)["id"], gpus)

    def sites_own(self) -> None:
        assert self._project(self.sites_own_name)

    def uids(self, namespace: str) -> list[str]:
        return sorted(row["id"] for row in self._servers(self._project(namespace)["id"]))

    def namespaces(self, name: str) -> int:
        return len(self.admin.items("identity", "/projects", "projects", name=name))

    def unreachable(self) -> Driver:
        clouds = yaml.safe_load(self._lab.clouds.read_text())
        clouds["clouds"]["lab"]["auth"]["auth_url"] = "http://127.0.0.1:9/v3"
        nowhere = {"clouds_yaml": yaml.safe_dump(clouds), "cloud": "lab"}
        return OpenStackDriver(replace(self.driver.connection, credentials=nowhere))

    def clean_up(self) -> None:
        names = {spec.external_name for spec in self._specs} | set(self._foreign)
        projects = [row for name in names for row in self._named(name)]
        for project in projects:
            for server in self._servers(project["id"]):
                self.admin.delete("compute", f"/servers/{server['id']}")
        for project in projects:
            until(lambda at=project["id"]: not self._servers(at), "its machines are gone")  # type: ignore[misc]
        for spec in self._specs:
            for step in self.driver.steps(Change.DELETE):
                until(lambda at=(spec, step.key): self._released(*at), f"{step.key} of clean up")  # type: ignore[misc]
        for name in self._foreign:
            for project in self._named(name):
                self.admin.delete("identity", f"/projects/{project['id']}")
            # of one that was taken over
            for user in self.admin.items("identity", "/users", "users", name__startswith=f"{name}."):
                self.admin.delete("identity", f"/users/{user['id']}")
        for tenant in self._tenants.values():
            tenant.close()

    def _released(self, spec: WorkspaceSpec, step: str) -> bool:
        try:
            return self.driver.perform(Change.DELETE, spec, step).done
        except NotFound:
            return False

    # -- the site's own administrator -------------------------------------------------------------------------------

    def _project(self, name: str) -> Object:
        return self._named(name)[0]

    def _named(self, name: str) -> list[Object]:
        return self.admin.items("identity", "/projects", "projects", name=name)

    def _servers(self, project_id: str) -> list[Object]:
        return self.admin.items(
            "compute", "/servers/detail", "servers", all_tenants="1", project_id=project_id
        )

    def _machines(self, spec: WorkspaceSpec, name: str) -> list[Object]:
        return [
            row
            for row in self._servers(self._project(spec.external_name)["id"])
            if row["metadata"].get(NAME) == name
        ]

    def _building(self, spec: WorkspaceSpec, name: str) -> bool:
        return any(row["status"] == "BUILD" for row in self._machines(spec, name))

    def _limit(self, project_id: str, gpus: int) -> None:
        """As an operator writes it by hand."""
        name = f"class:{A100}"
        rows = self.admin.items("identity", "/limits", "limits", project_id=project_id, resource_name=name)
        if rows:
            change = {"limit": {"resource_limit": gpus}}
            self.admin.patch("identity", f"/limits/{rows[0]['id']}", change)
            return
        registered = self.admin.items(
            "identity", "/registered_limits", "registered_limits", resource_name=name
        )
        body = {
            "service_id": registered[0]["service_id"],
            "region_id": registered[0]["region_id"],
            "resource_name": name,
            "resource_limit": gpus,
            "project_id": project_id,
        }
        self.admin.post("identity", "/limits", {"limits": [body]})

    def _held(self, project_id: str) -> int:
        usages = self.admin.get("placement", "/usages", project_id=project_id)["usages"]
        return sum(part.get(A100, 0) for part in usages.values())

    def _private(self, resource: str, gpus: int) -> str:
        """A flavor of somebody else's, that nobody is granted who is not told here."""
        name = f"contract-others-{ALIASES[resource]}-{gpus}"
        return self._flavor(name, {ALIAS: f"{ALIASES[resource]}:{gpus}"})

    def _plain(self, spec: WorkspaceSpec) -> str:
        """Without a GPU, given to the project by the cloud's operator."""
        flavor = self._flavor("contract-plain", {})
        self._grant(flavor, self._project(spec.external_name)["id"])
        return flavor

    def _flavor(self, name: str, specs: dict[str, str]) -> str:
        for row in self.admin.items("compute", "/flavors", "flavors", is_public="None"):
            if row["name"] == name:
                return str(row["id"])
        body = {"name": name, "vcpus": 1, "ram": 64, "disk": 1, "os-flavor-access:is_public": False}
        made = self.admin.post("compute", "/flavors", {"flavor": body})["flavor"]["id"]
        if specs:
            self.admin.post("compute", f"/flavors/{made}/os-extra_specs", {"extra_specs": specs})
        return str(made)

    def _grant(self, flavor: str, project_id: str) -> None:
        path = f"/flavors/{flavor}"
        given = self.admin.get("compute", f"{path}/os-flavor-access")["flavor_access"]
        if project_id not in {row["tenant_id"] for row in given}:
            self.admin.post("compute", f"{path}/action", {"addTenantAccess": {"tenant": project_id}})

    def _in(self, project_id: str) -> Cloud:
        """The administrator, at work in somebody's project."""
        clouds = yaml.safe_load(self._lab.clouds.read_text())["clouds"]
        auth = clouds["lab"]["auth"]
        roles = {row["name"]: row["id"] for row in self.admin.items("identity", "/roles", "roles")}
        users = self.admin.items("identity", "/users", "users", name=auth["username"])
        path = f"/projects/{project_id}/users/{users[0]['id']}/roles/{roles['member']}"
        self.admin.put("identity", path)
        own = {key: auth[key] for key in ("auth_url", "username", "password", "user_domain_id")}
        entry = {"auth": {**own, "project_id": project_id}, "region_name": self.admin.region}
        return Cloud({"clouds_yaml": yaml.safe_dump({"clouds": {"own": entry}})})

    # -- the tenant -------------------------------------------------------------------------------------------------

    def _tenant(self, credential: str) -> Cloud:
        """Signed in once, as a program is: what was revoked has to end for its token too."""
        if credential not in self._tenants:
            self._tenants[credential] = Cloud({"clouds_yaml": credential})
        return self._tenants[credential]

    def _bought(self, tenant: Cloud, gpus: int) -> tuple[str, int]:
        """The flavor that has so many, or several of one."""
        found = {
            row["extra_specs"].get(ALIAS): str(row["id"])
            for row in tenant.items("compute", "/flavors/detail", "flavors")
        }
        whole, single = f"a100:{gpus}", "a100:1"
        return (found[whole], 1) if whole in found else (found[single], gpus)

    def _boot(self, cloud: Cloud, flavor: str, name: str, *, count: int = 1) -> str:
        image = self.admin.items("image", "/images", "images", name="tiny")[0]["id"]
        body: dict[str, Any] = {
            "name": name,
            "flavorRef": flavor,
            "imageRef": image,
            "networks": "none",
            "metadata": {NAME: name},
        }
        if count > 1:
            body |= {"min_count": count, "max_count": count}
        return str(cloud.post("compute", "/servers", {"server": body})["server"]["id"])

    def _run_out(self, spec: WorkspaceSpec, name: str, seconds: int) -> None:
        """There are no guests that could end by themselves: its owner deletes it."""
        time.sleep(seconds)
        self.stop(spec, name)


def connection(lab: Lab) -> Connection:
    return Connection(
        site_id=uuid.uuid4(),
        site_slug="cloud",
        endpoint="",
        credentials={"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"},
        options={"external_network": "public", "aliases": ALIASES},
    )

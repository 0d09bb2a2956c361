"""Tests in a project of our own, as a tenant, whether limits of 0 refuse one machine of every GPU class, and which ports with
devices are allowed.

The project has the site's tag and no workspace's, and is deleted afterwards; leftovers of a killed check are found by that
tag. An effective limit refuses before Nova looks for a host, so at a correct site nothing is ever started.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from gpuaas.core.errors import GpuaasError, QuotaRefused, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import Check, Inventory, ObservedPool
from gpuaas.providers.openstack import flavors, inside, limits, names, people, servers
from gpuaas.providers.openstack.classes import BY_NAME, Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.preflight import ports, privacy
from gpuaas.providers.verdicts import Kind, some

LIMITS = Kind("GpuLimits", blocking=True)
NAME = "gpuaas-canary-{site}"
NO_ALIAS, ACCEPTED = "PCI alias", "Nova accepted it"
GONE_SECONDS = 30.0
REMEDY = (
    "Run Nova 2026.2 or newer with [quota] driver = nova.quota.UnifiedLimitsDriver, [oslo_limit] for the service's own "
    "endpoint, [pci] report_in_placement and [filter_scheduler] pci_in_placement; then run the checks again."
)


@dataclass(frozen=True)
class Canary:
    cloud: Cloud
    site: uuid.UUID
    domain: str
    classes: Classes = BY_NAME

    @property
    def name(self) -> str:
        return NAME.format(site=short(self.site))

    @contextmanager
    def project(self, registered: Mapping[str, Object]) -> Iterator["Stage"]:
        """Deletes leftovers of a killed check first."""
        self._clean_up()
        try:
            project = self._project(registered)
            with closing(inside.enter(self.cloud, project)) as own:
                yield Stage(self, project, own)
        finally:
            self._clean_up()

    def neighbor(self, registered: Mapping[str, Object]) -> Object:
        """Another project, with a limit and no members; deleted with the first."""
        project = self._empty(f"{self.name}-neighbor")
        limits.limit_write(self.cloud, next(iter(registered.values())), project["id"], 0)
        return project

    def _empty(self, name: str) -> Object:
        body = {
            "name": name,
            "domain_id": self.domain,
            "description": "made by gpuaas to try its limits",
            "tags": [self.name],
        }
        project: Object = self.cloud.post("identity", "/projects", {"project": body})["project"]
        return project

    def _project(self, registered: Mapping[str, Object]) -> Object:
        """With room for a machine in everything but devices, so that only the devices are refused."""
        project = self._empty(self.name)
        room = {"servers": 1, "class:VCPU": 1, "class:MEMORY_MB": 64, "class:DISK_GB": 1}
        for name, row in registered.items():
            is_gpu = self.classes.is_closed(name.removeprefix("class:"))
            if name in room or is_gpu:
                limits.limit_write(self.cloud, row, project["id"], room.get(name, 0))
        limits.network_write(self.cloud, project["id"], ports.ROOM)
        return project

    def _clean_up(self) -> None:
        marked = {"tags": self.name, "domain_id": self.domain}
        for project in self.cloud.items("identity", "/projects", "projects", **marked):
            self._machines_delete(project["id"])
            people.remove_members(self.cloud, {**project, "name": self.name})
            ports.clean_up(self.cloud, project["id"])
            self.cloud.delete("identity", f"/projects/{project['id']}")
        for row in flavors.all_flavors(self.cloud):
            if row["name"].startswith(self.name):
                self.cloud.delete("compute", f"/flavors/{row['id']}")

    def _machines_delete(self, project_id: str) -> None:
        """Needed only if limits have no effect. The project stays until they are gone: another check deletes it."""
        deadline = time.monotonic() + GONE_SECONDS
        while left := servers.of_project(self.cloud, project_id):
            for server in left:
                self.cloud.delete("compute", f"/servers/{server['id']}")
            if time.monotonic() > deadline:
                raise Unavailable(
                    "machines of an earlier test of the limits are being deleted", retry_after=30
                )
            time.sleep(0.5)


@dataclass(frozen=True)
class Stage:
    """The project while it exists. own: signed in to it, with a member's rights."""

    canary: Canary
    project: Object
    own: Cloud

    def limits(self, inventory: Inventory, registered: Mapping[str, Object]) -> Check:
        pools = [
            pool
            for pool in inventory.pools
            if pool.selector and names.limit_name(pool.resource_name) in registered
        ]
        query = {"visibility": "public", "status": "active", "limit": 1}
        images = self.canary.cloud.get("image", "/images", **query)["images"]
        if not pools or not images:
            lacks = "a public image" if pools else "a GPU type that can be requested and limited"
            return LIMITS.unknown(
                "NotTried",
                f"This cannot be tested without {lacks}.",
                "Fix what the other checks report first.",
            )
        return _verdict({pool.resource_name: self._try(pool, images[0]["id"]) for pool in pools})

    def private(self, registered: Mapping[str, Object]) -> Check:
        return privacy.listed(self.own, self.project["id"], self.canary.neighbor(registered)["id"])

    def _try(self, pool: ObservedPool, image: str) -> str:
        """ "" if it was refused by the limit; else what happened."""
        name = f"{self.canary.name}-{pool.resource_name}"
        body = {"name": name, "vcpus": 1, "ram": 64, "disk": 1, "os-flavor-access:is_public": False}
        flavor = self.canary.cloud.post("compute", "/flavors", {"flavor": body})["flavor"]["id"]
        specs = {"extra_specs": flavors.specs_of(pool.selector, 1)}
        self.canary.cloud.post("compute", f"/flavors/{flavor}/os-extra_specs", specs)
        access = {"addTenantAccess": {"tenant": self.project["id"]}}
        self.canary.cloud.post("compute", f"/flavors/{flavor}/action", access)
        server = {"name": self.canary.name, "flavorRef": flavor, "imageRef": image, "networks": "none"}
        try:
            self.own.post("compute", "/servers", {"server": server})
        except QuotaRefused as refused:
            if pool.resource_name in refused.message:
                return ""
            return f"it was refused for another reason: {refused.message}"
        except GpuaasError as refused:
            return refused.message
        return ACCEPTED


def _verdict(answers: Mapping[str, str]) -> Check:
    given = [name for name, words in answers.items() if words == ACCEPTED]
    if given:
        return LIMITS.bad(
            "DoNotAct",
            f"A project with a limit of 0 got {some(given)}: limits on GPUs have no effect.",
            REMEDY,
        )
    wrong = {name: words for name, words in answers.items() if words}
    if wrong:
        name, words = next(iter(wrong.items()))
        remedy = "Look at Nova's message, then run the checks again."
        if NO_ALIAS in words:
            remedy = "Set the alias from [pci] alias of nova.conf, which its API hosts need too, in the site's option aliases."
        return LIMITS.bad("NotRefused", f"A machine with {name} was requested: {words.rstrip('.')}.", remedy)
    return LIMITS.good(
        "Act", f"Nova refuses GPUs beyond a project's limit: tested with {some(list(answers))}."
    )

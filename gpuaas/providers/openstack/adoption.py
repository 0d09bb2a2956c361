"""Adopts projects that existed before the portal: candidates, plan, and the tag that marks one as a workspace's.

A dry run of `ensure` finds what would change, so a plan cannot differ from it. Machines, disks, networks and flavors of the
project stay as they are; users and groups stay too, but lose their roles in the project.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import (
    AdoptionStep,
    Difference,
    ForeignWorkspace,
    StepOutcome,
    WorkspaceSpec,
    storage_key,
)
from gpuaas.providers.base.changes import blocking_check
from gpuaas.providers.openstack import limits, names, people, projects, servers, volumes
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.dry_run import DryRun
from gpuaas.providers.openstack.flavors import MIB_PER_GIB

# by name; the portal's own project and projects that are domains are excluded too
SITES_OWN = ("admin", "service", "services", "invisible_to_admin")
NAME_MOST = 63  # what the portal keeps of a name
RULES_THE_CLOUD = "admin"


def adoptable(
    cloud: Cloud, classes: Classes, *, domain: str, sites_own: Iterable[str] = ()
) -> tuple[ForeignWorkspace, ...]:
    """A constant number of lists. `sites_own`: further patterns of names that belong to the site itself."""
    rows = cloud.items("identity", "/projects", "projects", domain_id=domain, enabled="true")
    free = [row for row in rows if not _is_out(cloud, row, sites_own)]
    machines: dict[str, list[Object]] = {}
    for server in cloud.items("compute", "/servers/detail", "servers", all_tenants="1"):
        machines.setdefault(server["tenant_id"], []).append(server)
    allowed: dict[str, dict[str, int]] = {}
    for row in cloud.items("identity", "/limits", "limits"):
        name = row["resource_name"].removeprefix("class:")
        if classes.is_gpu(name) and row["project_id"] and limits.is_here(cloud, row):
            allowed.setdefault(row["project_id"], {})[name] = row["resource_limit"]
    disks, since, now = _disks(cloud), _first_seen(cloud, machines), clock.now()
    return tuple(
        _foreign(
            row,
            machines.get(row["id"], []),
            classes,
            allowed.get(row["id"], {}),
            disks[row["id"]],
            since.get(row["id"], now),
        )
        for row in sorted(free, key=lambda row: str(row["name"]))
    )


def _is_out(cloud: Cloud, row: Object, sites_own: Iterable[str]) -> bool:
    marked = any(tag.startswith(names.MANAGED) for tag in row["tags"])
    return marked or len(row["name"]) > NAME_MOST or is_sites_own(cloud, row, sites_own)


def is_sites_own(cloud: Cloud, row: Object, sites_own: Iterable[str] = ()) -> bool:
    named = any(fnmatchcase(row["name"], pattern) for pattern in (*SITES_OWN, *sites_own))
    return named or row["id"] == cloud.own_project_id or bool(row.get("is_domain"))


def _disks(cloud: Cloud) -> Counter[str]:
    """GiB of volumes and snapshots by project, as Cinder counts; empty if the site has no Cinder."""
    found: Counter[str] = Counter()
    if cloud.has_volumes:
        for row in cloud.items("volume", "/volumes/detail", "volumes", all_tenants="1"):
            found[row["os-vol-tenant-attr:tenant_id"]] += row["size"]
        for row in cloud.items("volume", "/snapshots/detail", "snapshots", all_tenants="1"):
            found[row["os-extended-snapshot-attributes:project_id"]] += row["size"]
    return found


def _foreign(
    project: Object,
    machines: list[Object],
    classes: Classes,
    allowed: Mapping[str, int],
    disk_gib: int,
    since: datetime,
) -> ForeignWorkspace:
    gpus: Counter[str] = Counter()
    placed: dict[str, Counter[str]] = {}
    for server in filter(servers.holds_devices, machines):
        held = servers.gpus_of(server, classes)
        gpus.update(held)
        if held:
            placed.setdefault(server["OS-EXT-SRV-ATTR:host"], Counter()).update(held)
    return ForeignWorkspace(
        external_name=project["name"],
        created_at=since,
        gpus=dict(gpus),
        vcpus=sum(server["flavor"]["vcpus"] for server in machines),
        memory_gib=-(-sum(server["flavor"]["ram"] for server in machines) // MIB_PER_GIB),
        storage_gib=disk_gib,
        consumers=len(machines),
        placed={host: dict(counts) for host, counts in placed.items()},
        hard=dict(allowed),
    )


def _first_seen(cloud: Cloud, machines: Mapping[str, list[Object]]) -> dict[str, datetime]:
    """Keystone does not record when a project was created: its oldest machine shows it, or the security group that Neutron
    creates when the project first uses it."""
    groups = cloud.items("network", "/security-groups", "security_groups", name="default")
    seen = [(row["project_id"], row["created_at"]) for row in groups]
    seen += [(project, server["created"]) for project, rows in machines.items() for server in rows]
    found: dict[str, datetime] = {}
    for project, text in seen:
        moment = datetime.fromisoformat(text)
        found[project] = min(found.get(project, moment), moment)
    return found


@dataclass(frozen=True)
class Plan:
    """run_dry: what `ensure` would change if the project were already ours. classes: which are GPUs."""

    cloud: Cloud
    spec: WorkspaceSpec
    run_dry: Callable[[DryRun], tuple[Difference, ...]]
    classes: Classes
    domain: str = projects.DOMAIN
    sites_own: tuple[str, ...] = ()

    def steps(self) -> tuple[AdoptionStep, ...]:
        found = self.project()
        machines = servers.of_project(self.cloud, found["id"])
        return (
            *self._project(found),
            *map(_step, self._differences(found)),
            *self._beyond(found, machines),
            *self._rulers(found),
            *_kept(machines),
            *self._stored(found),
        )

    def project(self) -> Object:
        """Raises NotFound, or Permanent for one that can never be adopted."""
        name = self.spec.external_name
        found = projects.project_find(self.cloud, name, domain=self.domain)
        if found is None:
            raise NotFound(f"the site has no project {name}")
        if is_sites_own(self.cloud, found, self.sites_own):
            raise Permanent(f"the project {name} belongs to the site itself or to the portal")
        others = projects.marks(found) - {names.workspace_tag(self.spec.id)}
        if others:
            raise Permanent(f"the project {name} belongs to another workspace ({', '.join(sorted(others))})")
        if not found["enabled"]:
            raise Permanent(f"the project {name} is disabled: enable it first")
        return found

    def _project(self, found: Object) -> Iterator[AdoptionStep]:
        name = f"Project/{found['name']}"
        yield AdoptionStep(name, "change", f"becomes this workspace's (id {found['id']})")
        words = "deleting the workspace later deletes this project and everything in it"
        yield AdoptionStep(name, "keep", words)
        if not self.spec.members:
            words = "nobody has access: the project has no admin and no member is named"
            yield AdoptionStep("Role", "keep", words)

    def _differences(self, found: Object) -> tuple[Difference, ...]:
        """As if it had our tag."""
        tag = names.workspace_tag(self.spec.id)
        marked = {**found, "tags": [*found["tags"], names.MANAGED, tag]}
        dry_run = DryRun(self.cloud)
        dry_run.assume("identity", "/projects", {"projects": [marked]}, tags=tag, domain_id=self.domain)
        return self.run_dry(dry_run)

    def _beyond(self, found: Object, machines: list[Object]) -> Iterator[AdoptionStep]:
        """The site does not evict what exceeds a limit, so existing use must fit into what would be bought."""
        registered = limits.registered_limits(self.cloud)
        wanted = limits.wanted_limits(self.spec, registered, self.classes)
        used_now = {**limits.used(self.cloud, found["id"]), "servers": len(machines)}
        for name, used in sorted(used_now.items()):
            if used > wanted.get(name, used):
                words = f"{used} of {name.removeprefix('class:')} in use, {wanted[name]} would be allowed"
                yield AdoptionStep(f"Limit/{name}", "change", words, blocking=True)

    def _rulers(self, found: Object) -> Iterator[AdoptionStep]:
        """An admin of the cloud is not bound by a workspace's limits, and the role is not ours to remove."""
        roles = {key: name for name, key in people.role_ids(self.cloud).items()}
        for (kind, holder), held in sorted(people.roles_held(self.cloud, found["id"]).items()):
            if RULES_THE_CLOUD in {roles.get(role) for role in held} and holder != self.cloud.user_id:
                words = f"{kind[:-1]} {holder} has the role {RULES_THE_CLOUD}, which has full rights in the cloud: remove it"
                yield AdoptionStep(f"Role/{RULES_THE_CLOUD}", "remove", words, blocking=True)

    def _stored(self, found: Object) -> Iterator[AdoptionStep]:
        """By volume type: the storage that is taken over is plain storage, and volumes need not be of its type."""
        if not self.spec.storage_limits:
            return
        bought = {storage_key(name): gib for name, gib in self.spec.storage_limits.items()}
        _, stored = volumes.storage(self.cloud, found["id"])
        for key, used in sorted(stored.items()):
            most = bought.get(key, 0)
            if key != "storage" and used > most:
                words = f"{used} GiB stay, {most} GiB of it would be bought: no more can be made of this type"
                yield AdoptionStep(f"VolumeType/{key.removeprefix(storage_key(''))}", "keep", words)


def _kept(machines: list[Object]) -> Iterator[AdoptionStep]:
    for server in machines:
        words = f"keeps running unchanged, with the flavor {server['flavor']['original_name']}"
        yield AdoptionStep(f"Server/{server['name']}", "keep", words)


def adopt(plan: Plan) -> StepOutcome:
    """The workspace's tag is set last: with it the project is ours."""
    found = plan.project()
    tag, path = names.workspace_tag(plan.spec.id), f"/projects/{found['id']}/tags"
    if tag not in found["tags"]:
        blocking_check(plan.steps())
        plan.cloud.put("identity", f"{path}/{names.MANAGED}")
        plan.cloud.put("identity", f"{path}/{tag}")
        now = plan.cloud.get("identity", f"/projects/{found['id']}")["project"]
        if projects.marks(now) - {tag}:
            plan.cloud.delete("identity", f"{path}/{tag}")
            raise Permanent(f"the project {found['name']} was adopted by another workspace at the same time")
    return StepOutcome(done=True, detail=found["name"])


def _step(one: Difference) -> AdoptionStep:
    what = f"{one.object} {one.path}".strip()
    if one.found == "missing":
        return AdoptionStep(what, "create", one.wanted if one.wanted != "present" else "")
    if not one.wanted or one.wanted == "not granted":
        return AdoptionStep(what, "remove", one.found)
    return AdoptionStep(what, "change", f"{one.wanted} instead of {one.found or 'nothing'}")

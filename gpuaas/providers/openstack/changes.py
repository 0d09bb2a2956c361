"""Changes by others to our objects. A cloud has no watch, so it is polled: each time the same lists of the whole site,
however many projects there are, and one call for each private flavor that concerns the portal.

The cursor holds a digest of every project as last reported, so that any process can resume. Our own changes are reported
too: the cloud does not say who changed something.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpuaas.providers.base import SiteChange
from gpuaas.providers.openstack import flavors, names
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.dry_run import COMMON_SECONDS

EVERY_SECONDS = 10.0
NETWORK_FIELDS = ("id", "name", "admin_state_up", "external_gateway_info", "cidr")
HOST_FIELDS = ("hypervisor_hostname", "state", "status")


@dataclass(frozen=True)
class Snapshot:
    """Digests of the whole site's objects, and of each of our projects by name."""

    site: str
    projects: dict[str, str]

    @property
    def cursor(self) -> str:
        return json.dumps({"site": self.site, "projects": self.projects}, sort_keys=True)

    @classmethod
    def at(cls, cursor: str) -> "Snapshot | None":
        """None for anything that is not one of our cursors."""
        try:
            found = json.loads(cursor)
            return cls(str(found["site"]), {str(k): str(v) for k, v in found["projects"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def changed(self, before: "Snapshot") -> list[SiteChange]:
        found = [SiteChange()] if self.site != before.site else []
        keys = sorted(self.projects.keys() | before.projects.keys())
        changed = [name for name in keys if self.projects.get(name) != before.projects.get(name)]
        return [*found, *(SiteChange(workspace_name=name) for name in changed)]


@dataclass
class Facts:
    """Facts about each project, by its id, and about the site."""

    names: dict[str, str]
    site: list[object] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=dict)

    def add(self, project_id: object, *fact: object) -> None:
        if project_id in self.names:
            text = json.dumps(fact, sort_keys=True, default=str)
            self.lines.setdefault(str(project_id), []).append(text)

    def snapshot(self) -> Snapshot:
        projects = {name: _digest(sorted(self.lines.get(key, []))) for key, name in self.names.items()}
        return Snapshot(_digest(sorted(json.dumps(each, default=str) for each in self.site)), projects)


def watch_changes(cloud: Cloud, cursor: str, *, domain: str, seconds: float) -> Iterator[SiteChange]:
    """Polls at once and then every EVERY_SECONDS, with a heartbeat after each."""
    deadline = time.monotonic() + seconds
    before = Snapshot.at(cursor)
    while True:
        now = look(cloud, domain=domain)
        news = [SiteChange()] if before is None else now.changed(before)
        if news and before is not None:
            time.sleep(COMMON_SECONDS)  # until caches that were read before the change have expired
        yield from news
        yield SiteChange(proof=True, cursor=now.cursor)
        before = now
        left = deadline - time.monotonic()
        time.sleep(max(min(EVERY_SECONDS, left), 0))
        if left <= EVERY_SECONDS:
            return


def look(cloud: Cloud, *, domain: str) -> Snapshot:
    rows = cloud.items("identity", "/projects", "projects", tags=names.MANAGED, domain_id=domain)
    facts = Facts({row["id"]: row["name"] for row in rows})
    for row in rows:
        facts.add(row["id"], "project", row["enabled"], sorted(row["tags"]))
    _identity(cloud, facts, domain)
    _compute(cloud, facts)
    _network(cloud, facts)
    return facts.snapshot()


def _identity(cloud: Cloud, facts: Facts, domain: str) -> None:
    for row in cloud.items("identity", "/limits", "limits"):
        facts.add(row["project_id"], "limit", row["resource_name"], row["resource_limit"])
    for row in cloud.items("identity", "/role_assignments", "role_assignments"):
        holder = row.get("user") or row.get("group") or {}
        facts.add((row["scope"].get("project") or {}).get("id"), "role", holder.get("id"), row["role"]["id"])
    by_name = {name: key for key, name in facts.names.items()}
    for row in cloud.items("identity", "/users", "users", domain_id=domain, name__contains="."):
        # `<project>.<subject>`; a project's own name may have dots
        facts.add(by_name.get(row["name"].rpartition(".")[0]), "user", row["id"], row["enabled"])
    registered = cloud.items("identity", "/registered_limits", "registered_limits")
    facts.site += [("registered", row["resource_name"], row["default_limit"]) for row in registered]


def _compute(cloud: Cloud, facts: Facts) -> None:
    for row in filter(flavors.is_withheld, flavors.all_flavors(cloud)):
        facts.site.append(("flavor", row["id"], row["name"], sorted(row["extra_specs"].items())))
        for project in sorted(flavors.granted(cloud, row["id"])):
            facts.add(project, "flavor", row["id"], sorted(row["extra_specs"].items()))
            if flavors.is_managed(row) and project not in facts.names:
                facts.site.append(("granted", row["id"], project))
    hosts = cloud.items("compute", "/os-hypervisors/detail", "hypervisors")
    facts.site += [("host", _picked(row, HOST_FIELDS)) for row in hosts]
    providers = cloud.items("placement", "/resource_providers", "resource_providers")
    facts.site += [("provider", row["uuid"], row["name"]) for row in providers]


def _network(cloud: Cloud, facts: Facts) -> None:
    named = {
        "networks": names.NETWORK,
        "subnets": names.NETWORK,
        "routers": names.NETWORK,
        "security-groups": names.SECURITY_GROUP,
    }
    for path, name in named.items():
        for row in cloud.items("network", f"/{path}", path.replace("-", "_"), name=name):
            facts.add(row["project_id"], path, _picked(row, NETWORK_FIELDS))
    interfaces = {"device_owner": "network:router_interface"}
    for row in cloud.items("network", "/ports", "ports", **interfaces):
        facts.add(row["project_id"], "interface", row["device_id"], row["network_id"])
    for row in cloud.get("network", "/quotas")["quotas"]:
        facts.add(row.get("project_id") or row.get("tenant_id"), "quota", row)


def _picked(row: Object, fields: Iterable[str]) -> list[object]:
    return [row.get(key) for key in fields]


def _digest(lines: list[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()

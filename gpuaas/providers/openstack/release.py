"""The steps that take a project away: people, then machines (that is when the meter stops), then the rest, then the proof."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuaas.core.errors import NotFound, Permanent, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceRef
from gpuaas.providers.openstack import flavors, limits, networks, people, projects, servers
from gpuaas.providers.openstack.client import Cloud, Object

STEPS = (
    StepSpec("access", "End everybody's access"),
    StepSpec("servers", "Delete all machines"),
    StepSpec("volumes", "Delete volumes and images"),
    StepSpec("network", "Delete its networks"),
    StepSpec("project", "Delete the project"),
    StepSpec("gone", "Prove that nothing is left"),
)
SHOWN = 5


@dataclass(frozen=True)
class Release:
    cloud: Cloud
    ref: WorkspaceRef
    domain: str = projects.DOMAIN

    def run(self, step: str) -> StepOutcome:
        steps: Mapping[str, Callable[[Object], StepOutcome]] = {
            "access": self._access,
            "servers": self._servers,
            "volumes": self._volumes,
            "network": self._network,
            "project": self._project,
            "gone": self._gone,
        }
        if step not in steps:
            raise Permanent(f"the OpenStack driver has no step {step!r}")
        found = projects.marked_project(self.cloud, self.ref.external_name, self.ref.id, domain=self.domain)
        if found is None:
            return StepOutcome(done=True, detail="nothing is left of it at the site")
        return steps[step](found)

    def _access(self, project: Object) -> StepOutcome:
        people.remove_members(self.cloud, project)
        flavors.withdraw(self.cloud, project["id"])
        return StepOutcome(done=True)

    def _servers(self, project: Object) -> StepOutcome:
        """Also those in ERROR, whose devices stay taken until they are deleted."""
        left = servers.of_project(self.cloud, project["id"])
        for server in left:
            if server.get("OS-EXT-STS:task_state") != "deleting":
                self.cloud.delete("compute", f"/servers/{server['id']}")
        if left:
            return StepOutcome(done=False, detail=f"{len(left)} machines are being deleted")
        return StepOutcome(done=True, detail="no machine is left")

    def _volumes(self, project: Object) -> StepOutcome:
        left = list(_data(self.cloud, project["id"]))
        for service, path, _ in left:
            self.cloud.delete(service, path)
        return _waiting([words for _, _, words in left])

    def _network(self, project: Object) -> StepOutcome:
        networks.routers_detach(self.cloud, project["id"])
        left = list(networks.leftovers(self.cloud, project["id"]))
        for path, _ in left:
            try:
                self.cloud.delete("network", path)
            except Unavailable:
                continue  # something of it is still in use: the next look
        return _waiting([words for _, words in networks.leftovers(self.cloud, project["id"])])

    def _project(self, project: Object) -> StepOutcome:
        """Not before the inventory is empty: what a project left behind would be nobody's."""
        if left := list(inventory(self.cloud, project)):
            raise NotFound(f"something has come back, so the steps are done again: {', '.join(left[:SHOWN])}")
        limits.delete(self.cloud, project["id"])
        for group in self.cloud.items(
            "network", "/security-groups", "security_groups", project_id=project["id"]
        ):
            self.cloud.delete("network", f"/security-groups/{group['id']}")
        self.cloud.delete("network", f"/quotas/{project['id']}")
        self.cloud.delete("identity", f"/projects/{project['id']}")
        return StepOutcome(done=True)

    def _gone(self, project: Object) -> StepOutcome:
        raise NotFound(f"the project {project['name']} is there still: do that step again")


def inventory(cloud: Cloud, project: Object) -> Iterator[str]:
    """Everything of a project, in words; empty before we say that it is gone."""
    for server in servers.of_project(cloud, project["id"]):
        yield f"machine {server['name']}"
    for _, _, words in _data(cloud, project["id"]):
        yield words
    for _, words in networks.leftovers(cloud, project["id"]):
        yield words
    for user in people.users_of(cloud, project):
        yield f"user {user['name']}"


def _data(cloud: Cloud, project_id: str) -> Iterator[tuple[str, str, str]]:
    """(service, path, words) of images that the tenant made, and of snapshots and volumes where the site has Cinder."""
    for image in cloud.items("image", "/images", "images", owner=project_id, visibility="all"):
        if image["owner"] == project_id:
            yield "image", f"/images/{image['id']}", f"image {image['name']}"
    if not cloud.services & {"volumev3", "block-storage"}:
        return
    for kind, key in (("snapshots", "snapshots"), ("volumes", "volumes")):
        for row in cloud.items("volume", f"/{kind}/detail", key, all_tenants="1", project_id=project_id):
            yield "volume", f"/{kind}/{row['id']}", f"{key[:-1]} {row.get('name') or row['id']}"


def _waiting(left: list[str]) -> StepOutcome:
    if left:
        more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        return StepOutcome(done=False, detail=f"{', '.join(left[:SHOWN])}{more} are being deleted")
    return StepOutcome(done=True)

"""The steps that delete a project: access, then machines (when the meter stops), then the rest, then the verification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceRef, step_require
from gpuaas.providers.openstack import flavors, leftovers, limits, names, networks, people, projects, servers
from gpuaas.providers.openstack.client import Cloud, Object

STEPS = (
    StepSpec("access", "Revoke everybody's access"),
    StepSpec("servers", "Delete all machines"),
    StepSpec("volumes", "Delete volumes and images"),
    StepSpec("network", "Delete its networks"),
    StepSpec("project", "Delete the project"),
    StepSpec("gone", "Verify that nothing is left"),
)


@dataclass(frozen=True)
class Release:
    """believed: for how long the site's services accept a cached token (their token_cache_time).
    tag: of a workspace, or of a cluster."""

    cloud: Cloud
    ref: WorkspaceRef
    domain: str = projects.DOMAIN
    believed: timedelta = timedelta()
    tag: str = names.WORKSPACE_TAG

    def run(self, step: str) -> StepOutcome:
        steps: Mapping[str, Callable[[Object], StepOutcome]] = {
            "access": self._access,
            "servers": self._servers,
            "volumes": self._volumes,
            "network": self._network,
            "project": self._project,
            "gone": self._gone,
        }
        do = step_require(steps, step)
        found = projects.marked_project(
            self.cloud, self.ref.external_name, self.ref.id, domain=self.domain, tag=self.tag
        )
        if found is None:
            return StepOutcome(done=True, detail="nothing of it is left at the site")
        return do(found)

    def _access(self, project: Object) -> StepOutcome:
        people.remove_members(self.cloud, project)
        flavors.withdraw(self.cloud, project["id"])
        limits.close(self.cloud, project["id"])
        if self.believed and not projects.closed_at(project):
            projects.close_note(self.cloud, project, clock.now())
        return StepOutcome(done=True)

    def _believed_until(self, project: Object) -> datetime:
        """Until when services may accept a token from before access ended."""
        return (projects.closed_at(project) or clock.now()) + self.believed

    def _servers(self, project: Object) -> StepOutcome:
        """Including those in ERROR, whose devices stay allocated until they are deleted."""
        left = leftovers.servers_of(self.cloud, project["id"])
        for server in left:
            servers.remove(self.cloud, server)
        if left:
            return leftovers.waiting(leftovers.machines(self.cloud, left))
        return leftovers.waiting(list(leftovers.held(self.cloud, project["id"])), "no machine is left")

    def _volumes(self, project: Object) -> StepOutcome:
        for thing in leftovers.data(self.cloud, project["id"]):
            leftovers.remove(self.cloud, thing)
        return leftovers.waiting(list(leftovers.data(self.cloud, project["id"])))

    def _network(self, project: Object) -> StepOutcome:
        networks.routers_detach(self.cloud, project["id"])
        left = list(networks.leftovers(self.cloud, project["id"]))
        for path, _ in left:
            try:
                self.cloud.delete("network", path)
            except Unavailable:
                continue  # still in use; retried on the next visit
        left_now = networks.leftovers(self.cloud, project["id"])
        return leftovers.waiting([leftovers.Thing("network", path, words) for path, words in left_now])

    def _project(self, project: Object) -> StepOutcome:
        """Only when the inventory is empty: leftovers of a deleted project would belong to nobody."""
        if left := list(leftovers.inventory(self.cloud, project)):
            raise leftovers.in_the_way(left)
        if (wait := self._believed_until(project)) > clock.now():
            words = f"it is empty and every limit is 0; until {wait:%H:%M:%S} UTC the site may accept cached tokens"
            return StepOutcome(done=False, detail=words)
        for group in self.cloud.items(
            "network", "/security-groups", "security_groups", project_id=project["id"]
        ):
            self.cloud.delete("network", f"/security-groups/{group['id']}")
        limits.delete(self.cloud, project["id"])
        self.cloud.delete("identity", f"/projects/{project['id']}")
        return StepOutcome(done=True)

    def _gone(self, project: Object) -> StepOutcome:
        raise NotFound(f"the project {project['name']} still exists: that step is repeated")

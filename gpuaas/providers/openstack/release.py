"""The steps that take a project away: people, then machines (that is when the meter stops), then the rest, then the proof."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound, Permanent, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceRef
from gpuaas.providers.openstack import flavors, leftovers, limits, names, networks, people, projects, servers
from gpuaas.providers.openstack.client import Cloud, Object

STEPS = (
    StepSpec("access", "End everybody's access"),
    StepSpec("servers", "Delete all machines"),
    StepSpec("volumes", "Delete volumes and images"),
    StepSpec("network", "Delete its networks"),
    StepSpec("project", "Delete the project"),
    StepSpec("gone", "Prove that nothing is left"),
)


@dataclass(frozen=True)
class Release:
    """believed: for how long the site's services go on believing a token that they have seen (their token_cache_time).
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
        if step not in steps:
            raise Permanent(f"the OpenStack driver has no step {step!r}")
        found = projects.marked_project(
            self.cloud, self.ref.external_name, self.ref.id, domain=self.domain, tag=self.tag
        )
        if found is None:
            return StepOutcome(done=True, detail="nothing is left of it at the site")
        return steps[step](found)

    def _access(self, project: Object) -> StepOutcome:
        people.remove_members(self.cloud, project)
        flavors.withdraw(self.cloud, project["id"])
        limits.close(self.cloud, project["id"])
        if self.believed and not projects.closed_at(project):
            projects.close_note(self.cloud, project, clock.now())
        return StepOutcome(done=True)

    def _believed_until(self, project: Object) -> datetime:
        """Of the newest token that a service can have seen before everybody was put out."""
        return (projects.closed_at(project) or clock.now()) + self.believed

    def _servers(self, project: Object) -> StepOutcome:
        """Also those in ERROR, whose devices stay taken until they are deleted."""
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
                continue  # something of it is still in use: the next look
        left_now = networks.leftovers(self.cloud, project["id"])
        return leftovers.waiting([leftovers.Thing("network", path, words) for path, words in left_now])

    def _project(self, project: Object) -> StepOutcome:
        """Not before the inventory is empty: what a project left behind would be nobody's."""
        if left := list(leftovers.inventory(self.cloud, project)):
            raise leftovers.in_the_way(left)
        if (wait := self._believed_until(project)) > clock.now():
            words = f"nothing is left in it; until {wait:%H:%M:%S} UTC the site may believe a token of before"
            return StepOutcome(done=False, detail=f"{words}, and every limit is 0")
        for group in self.cloud.items(
            "network", "/security-groups", "security_groups", project_id=project["id"]
        ):
            self.cloud.delete("network", f"/security-groups/{group['id']}")
        limits.delete(self.cloud, project["id"])
        self.cloud.delete("identity", f"/projects/{project['id']}")
        return StepOutcome(done=True)

    def _gone(self, project: Object) -> StepOutcome:
        raise NotFound(f"the project {project['name']} is there still: do that step again")

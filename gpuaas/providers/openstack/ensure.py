"""The steps that make a project match its WorkspaceSpec; each can be repeated, alone and in any order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceSpec
from gpuaas.providers.openstack import flavors, limits, networks, people, projects
from gpuaas.providers.openstack.classes import BY_NAME, Classes
from gpuaas.providers.openstack.client import Cloud, Object

STEPS = (
    StepSpec("project", "Create the project"),
    StepSpec("limits", "Write the limits", safety=True),
    StepSpec("network", "Create its network"),
    StepSpec("confirm", "Confirm that the site has the limits", safety=True),
    StepSpec("flavors", "Grant the flavors that were bought", safety=True),
    StepSpec("access", "Give the members access"),
)


@dataclass(frozen=True)
class Ensure:
    """external: the external network of routers; "" for none. dry_run: nothing is written, so no step waits for another."""

    cloud: Cloud
    spec: WorkspaceSpec
    domain: str = projects.DOMAIN
    external: str = ""
    dry_run: bool = False
    classes: Classes = BY_NAME

    def run(self, step: str) -> StepOutcome:
        steps: Mapping[str, Callable[[Object], StepOutcome]] = {
            "limits": self._limits,
            "network": self._network,
            "confirm": self._confirm,
            "flavors": self._flavors,
            "access": self._access,
        }
        if step != "project" and step not in steps:
            raise Permanent(f"the OpenStack driver has no step {step!r}")
        found = projects.own_project(self.cloud, self.spec.external_name, self.spec.id, domain=self.domain)
        if step == "project":
            return self._project(found)
        if found is None:
            raise NotFound(
                f"the project {self.spec.external_name} is not at the site; it must be created first"
            )
        return steps[step](found)

    def _project(self, found: Object | None) -> StepOutcome:
        if found is None:
            projects.project_make(self.cloud, self.spec.external_name, self.spec.id, domain=self.domain)
        else:
            projects.project_set(self.cloud, found)
        return StepOutcome(done=True, detail=self.spec.external_name)

    def _limits(self, project: Object) -> StepOutcome:
        names_seen: dict[str, Mapping[str, str]] = {}
        for gpu in self.spec.gpus:
            before = names_seen.setdefault(gpu.resource_name, gpu.selector)
            if dict(before) != dict(gpu.selector):
                raise Permanent(
                    f"a project cannot hold GPUs of two kinds that this site both counts as {gpu.resource_name}; "
                    "request a workspace for each"
                )
        limits.apply(self.cloud, self.spec, project["id"], self.classes)
        gpus = ", ".join(f"{gpu.count} × {gpu.resource_name}" for gpu in self.spec.gpus) or "no GPUs"
        return StepOutcome(done=True, detail=gpus)

    def _network(self, project: Object) -> StepOutcome:
        twice = networks.apply(self.cloud, project["id"], external=self.external)
        detail = (
            f"duplicates that stay because they are in use or not ours: {', '.join(twice)}" if twice else ""
        )
        return StepOutcome(done=True, detail=detail)

    def _confirm(self, project: Object) -> StepOutcome:
        if self.dry_run:
            return StepOutcome(done=True)
        return limits.confirmed(self.cloud, self.spec, project["id"], self.classes)

    def _flavors(self, project: Object) -> StepOutcome:
        """After the limits: a flavor without a limit would be unlimited."""
        confirmed = self._confirm(project)
        if not confirmed.done:
            return confirmed
        count = flavors.apply(self.cloud, self.spec, project["id"], self.classes)
        return StepOutcome(done=True, detail=f"{count} granted")

    def _access(self, project: Object) -> StepOutcome:
        confirmed = self._confirm(project)
        if not confirmed.done:
            return confirmed
        people.apply_members(self.cloud, self.spec, project)
        return StepOutcome(done=True, detail=f"{len(self.spec.members)} with access")

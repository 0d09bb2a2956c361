"""The Kubernetes driver with OpenShift's additions; without them it behaves as on plain Kubernetes."""

from dataclasses import dataclass, replace

from gpuaas.providers.base import Change, StepOutcome, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.kubeapi import ensure, manifests, namespaces, release
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.objects import put
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.openshift import projects, wall

# the two labels by which OpenShift's versions mark the namespaces of their routers
ROUTERS = (
    ("network.openshift.io/policy-group", "ingress"),
    ("policy-group.network.openshift.io/ingress", ""),
)
LABELS = {"namespace": "Request the project on its node pool", "quota": "Write the quotas"}
STEPS = tuple(replace(step, label=LABELS.get(step.key, step.label)) for step in ensure.STEPS)


class OpenShiftDriver(KubernetesDriver):
    """Like the Kubernetes driver, with the additional option `routes` (true: the site's routers can reach workspaces)."""

    name = "openshift"
    chooses_users = False
    launchers = frozenset()  # its accounts have no shell, by which SSH would enter a task

    changes = {**KubernetesDriver.changes, Change.CREATE: STEPS, Change.RESIZE: STEPS}

    @property
    def _openings(self) -> manifests.Openings:
        routers = ROUTERS if self.connection.options.get("routes") is True else ()
        return replace(super()._openings, routers=routers)

    def _release(self, ref: WorkspaceRef) -> release.Release:
        return Release(self._api, ref)

    def _ensure(self, spec: WorkspaceSpec) -> ensure.Ensure:
        return Ensure(self._api, spec, self._openings, self._recent)


@dataclass(frozen=True)
class Ensure(ensure.Ensure):
    """Requests a project, and updates the project-wide quota with each quota that is written, also for suspended workspaces."""

    def _found(self) -> Object | None:
        name = self.spec.external_name
        known = self.recent.known(name)
        asked = None if known else projects.asked_for(self.api, name, self.spec.id)
        return asked or super()._found()

    def _namespace(self) -> StepOutcome:
        """The project may be created from the site's template; the other steps check its content like any other."""
        name = self.spec.external_name
        if self._found() is None and projects.request(self.api, self.spec):
            if self.api.find(namespaces.path(name)) is None:
                return StepOutcome(done=False, detail="the site is creating the project from its template")
        elif self._found() is None:
            return super()._namespace()
        made = put(self.api, namespaces.COLLECTION, manifests.namespace(self.spec))
        self.recent.made(name, made, anew=False)
        return StepOutcome(done=True, detail=name)

    def _quota(self) -> StepOutcome:
        outcome = super()._quota()
        wall.settle(self.api, project=self.spec.project_slug, organization=self.spec.organization_slug)
        return outcome


@dataclass(frozen=True)
class Release(release.Release):
    def run(self, step: str) -> StepOutcome:
        outcome = super().run(step)
        if step == release.STEPS[-1].key and outcome.done:
            wall.settle_without(self.api, self.ref.id)
        return outcome

    def _found(self) -> Object | None:
        asked = projects.asked_for(self.api, self.ref.external_name, self.ref.id)
        return asked or super()._found()

    def _delete(self, found: Object) -> None:
        projects.delete(self.api, found)

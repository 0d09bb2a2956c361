"""The steps that make a namespace match its WorkspaceSpec; each can be repeated, alone and in any order.

Their order matters: the limits are in place and confirmed before anybody gets access.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuaas.core.errors import GpuaasError, NotFound, Unauthorized
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceSpec, step_require
from gpuaas.providers.base.steps import DONE
from gpuaas.providers.kubeapi import (
    guards,
    managed_objects,
    manifests,
    names,
    namespaces,
    queues,
    served,
    spot,
    training,
)
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.managed_objects import ManagedObjects
from gpuaas.providers.kubeapi.objects import put
from gpuaas.providers.kubeapi.quantities import quantity
from gpuaas.providers.kubeapi.recent import Recent

STEPS = (
    StepSpec("namespace", "Create the namespace on its node pool"),
    StepSpec("quota", "Write the quota", safety=True),
    StepSpec("limits", "Set default requests"),
    StepSpec("network", "Isolate the network from other tenants"),
    StepSpec("guards", "Check the site's guardrails", safety=True),
    StepSpec("confirm", "Wait until the site enforces the quota", safety=True),
    StepSpec("access", "Give the members access"),
)


@dataclass(frozen=True)
class Ensure:
    api: Api
    spec: WorkspaceSpec
    openings: manifests.Openings = manifests.NOTHING_OPEN
    recent: Recent = field(default_factory=Recent)

    def run(self, step: str) -> StepOutcome:
        steps: Mapping[str, Callable[[], StepOutcome]] = {
            "namespace": self._namespace,
            "quota": self._quota,
            "limits": self._limits,
            "network": self._network,
            "guards": self._guards,
            "confirm": self._confirm,
            "access": self._access,
        }
        do = step_require(steps, step)
        found = self._found()
        if found is not None and namespaces.is_terminating(found):
            return StepOutcome(done=False, detail="a namespace of this name is still being deleted")
        if found is None and step != "namespace":
            raise NotFound(
                f"the namespace {self.spec.external_name} is not at the site; it must be created first"
            )
        return do()

    def _found(self) -> Object | None:
        return self.recent.namespace(self.api, self.spec.external_name, self.spec.id)

    def _namespace(self) -> StepOutcome:
        name = self.spec.external_name
        anew = self._found() is None
        made = put(self.api, namespaces.COLLECTION, manifests.namespace(self.spec))
        self.recent.made(name, made, anew=anew)
        return StepOutcome(done=True, detail=self.spec.external_name)

    def _quota(self) -> StepOutcome:
        """One object: a second one would let racing pods through."""
        self._match(managed_objects.quotas(self.spec, self._classes(), self._counted()))
        self._queue()
        gpus = ", ".join(f"{gpu.count} × {gpu.resource_name}" for gpu in self.spec.gpus) or "no GPUs"
        return StepOutcome(done=True, detail=gpus)

    def _queue(self) -> None:
        """After the quota, which holds without it: a Kueue that does not answer keeps nobody from suspending."""
        try:
            if queues.VERSION in served.group_versions(self.api):
                queues.ensure(self.api, self.spec, self._wanted_quota()["spec"]["hard"])
        except GpuaasError as error:
            if not self.spec.suspended and not isinstance(error, Unauthorized):
                raise

    def _limits(self) -> StepOutcome:
        self._match(managed_objects.limits(self.spec))
        return DONE

    def _network(self) -> StepOutcome:
        self._match(managed_objects.network(self.spec, self.openings))
        return DONE

    def _guards(self) -> StepOutcome:
        """Repairs the policies where they differ; done only when a probe shows that they act."""
        if self.spec.notice_seconds:
            spot.ensure(self.api)
        if not guards.covers(self.api, self.spec.external_name):
            guards.install(self.api, self.openings.schedulers)
        acting = guards.probe(self.api, self.spec.external_name)
        if acting is guards.Acting.NOTHING:
            guards.forget(self.api)  # so that the next visit checks whether they still exist
        done = acting is guards.Acting.ALL or (
            acting is guards.Acting.REFUSALS and not guards.can_add(self.api)
        )
        return StepOutcome(done=done, detail="" if done else acting)

    def _confirm(self) -> StepOutcome:
        """Until the controller has filled status.hard the quota admits everything."""
        hard = self._wanted_quota()["spec"]["hard"]
        if self.recent.is_confirmed(self.spec.external_name, hard):
            return DONE
        found = self.api.find(f"{self._path('resourcequotas')}/{names.QUOTA}") or {}
        outcome = quota_confirmed(found, hard)
        if outcome.done:
            self.recent.note_confirmed(self.spec.external_name, hard)
        return outcome

    def _access(self) -> StepOutcome:
        confirmed = self._confirm()
        if not confirmed.done:
            return confirmed
        # former members lose the binding before the account
        for wanted in reversed(managed_objects.members(self.spec)):
            self._match(wanted)
        self.recent.entered(self.spec.external_name)
        return StepOutcome(done=True, detail=f"{len(self.spec.members)} with access")

    def _wanted_quota(self) -> Object:
        return manifests.quota(self.spec, self._classes(), self._counted().objects)

    def _counted(self) -> manifests.Openings:
        """With the bounds that the site can count."""
        return self.openings.without(training.unserved(served.group_versions(self.api)))

    def _classes(self) -> Mapping[str, str]:
        return self.recent.classes(lambda: guards.device_classes(self.api))

    def _path(self, kind: str, group: str = "/api/v1") -> str:
        return f"{group}/namespaces/{self.spec.external_name}/{kind}"

    def _match(self, wanted: ManagedObjects) -> None:
        for body in wanted.objects:
            put(self.api, wanted.collection, body)
        if self.recent.is_fresh(self.spec.external_name):
            return
        for name in wanted.surplus(self.api.items(wanted.collection)):
            self.api.delete(f"{wanted.collection}/{name}")


def quota_confirmed(found: Object, wanted: Mapping[str, str]) -> StepOutcome:
    spec = (found.get("spec") or {}).get("hard") or {}
    status = found.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    if not _same(spec, wanted):
        return StepOutcome(done=False, detail="the quota at the site does not match yet")
    missing = [key for key in wanted if key not in used or key not in hard]
    if missing or not _same(hard, wanted):
        return StepOutcome(done=False, detail="the site does not enforce the quota yet")
    return StepOutcome(done=True, detail=f"{len(wanted)} limits in force")


def _same(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return found.keys() == wanted.keys() and all(
        quantity(found[key]) == quantity(value) for key, value in wanted.items()
    )

"""Clusters on demand as virtual clusters at a Kubernetes site: the contract's verbs, each handed to the module that does it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from gpuaas.core.errors import NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import (
    Access,
    ClusterAccessCapability,
    ClusterChange,
    ClusterDriver,
    ClusterKind,
    ClusterNamespaceCapability,
    ClusterPlan,
    ClusterRef,
    ClusterRevocationCapability,
    ClusterSignalsCapability,
    ClusterSpec,
    ClusterSuspendCapability,
    Member,
    ObservedCluster,
    PoolSignals,
    SiteObject,
    StepOutcome,
)
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP
from gpuaas.providers.clusterapi import access as people
from gpuaas.providers.clusterapi.site import evident
from gpuaas.providers.kubernetes.client import Api, shared
from gpuaas.providers.kubernetes.ensure import Ensure
from gpuaas.providers.kubernetes.manifests import Openings
from gpuaas.providers.kubernetes.recent import Recent
from gpuaas.providers.kubernetes.release import Release
from gpuaas.providers.vcluster import making, names, site
from gpuaas.providers.vcluster import plan as steps
from gpuaas.providers.vcluster.plan import plan
from gpuaas.providers.vcluster.settings import settings_read
from gpuaas.providers.vcluster.signals import signals
from gpuaas.providers.vcluster.sweep import sweep
from gpuaas.providers.vcluster.tenancy import ref_of, space_of

Do = Callable[[], StepOutcome]


class VirtualClusterDriver(
    ClusterDriver,
    ClusterAccessCapability,
    ClusterRevocationCapability,
    ClusterSuspendCapability,
    ClusterSignalsCapability,
    ClusterNamespaceCapability,
):
    """At a site of the driver kubernetes, with its credentials and options; a template's settings are `VirtualSettings`."""

    name = "vcluster"
    kinds = frozenset({ClusterKind.KUBERNETES})

    @classmethod
    def settings_check(cls, kind: ClusterKind, settings: Mapping[str, Any]) -> None:
        del kind
        settings_read(settings)

    @classmethod
    def namespace(cls, ref: ClusterRef) -> str:
        return names.space(ref.external_name)

    def plan(
        self, change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None = None
    ) -> ClusterPlan:
        return plan(change, spec, before)

    def ensure(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._do(spec, step, "ensure")

    def scale(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._do(spec, step, "scale")

    def upgrade(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._do(spec, step, "upgrade")

    def suspend(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """What is not there sleeps already."""
        with evident(self.connection.site_slug, f"suspend {step}"):
            if step in {steps.SHARES, steps.STOP} and site.space_find(self._api, spec.ref) is None:
                return StepOutcome(done=True, detail="nothing of it is at the site")
        return self._do(spec, step, "suspend")

    def resume(self, spec: ClusterSpec, step: str) -> StepOutcome:
        return self._do(spec, step, "resume")

    def delete(self, spec: ClusterSpec, step: str) -> StepOutcome:
        if step not in {each.key for each in steps.DELETION}:
            raise Permanent(f"the driver has no step {step!r}")
        with evident(self.connection.site_slug, f"delete {step}"):
            if step == "access":
                return self._revoke(spec.ref)
            return Release(self._api, ref_of(spec.ref)).run(step)

    def observe(self, ref: ClusterRef) -> ObservedCluster:
        with evident(self.connection.site_slug, "observe"):
            return site.observe(self._api, ref)

    def inventory(self, ref: ClusterRef | None = None) -> tuple[SiteObject, ...]:
        with evident(self.connection.site_slug, "inventory"):
            return sweep(self._api, ref)

    def access(self, spec: ClusterSpec, member: Member, *, lifetime: timedelta) -> Access:
        with evident(self.connection.site_slug, "access"):
            return people.issue(self._inside(spec.ref), spec.ref, member, lifetime=lifetime)

    def revoke(self, spec: ClusterSpec, member: Member) -> None:
        with evident(self.connection.site_slug, "revoke"):
            try:
                people.revoke(self._inside(spec.ref), spec.ref, member)
            except NotFound:
                return  # there is nothing that anybody could enter

    def signals(self, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
        with evident(self.connection.site_slug, "signals"):
            return signals(spec, self._inside(spec.ref).items("/api/v1/pods"))

    @cached_property
    def _api(self) -> Api:
        return shared(str(self.connection.credentials.get("kubeconfig", "")))

    @cached_property
    def _recent(self) -> Recent:
        return Recent()

    def _inside(self, ref: ClusterRef) -> Api:
        return site.inside(self._api, ref)

    def _ensure(self, spec: ClusterSpec) -> Ensure:
        cidrs = self.connection.options.get("egress_cidrs") or ()
        openings = Openings(egress_cidrs=tuple(map(str, cidrs)))
        return Ensure(self._api, space_of(spec), openings, self._recent)

    def _revoke(self, ref: ClusterRef) -> StepOutcome:
        """People's rights inside, then those of the syncer, who would make pods while they are ended."""
        if site.space_find(self._api, ref) is None:
            return StepOutcome(done=True, detail="nothing of it is at the site")
        try:
            told = people.revoke_if_it_answers(self._inside(ref), ref)
        except (NotFound, Unauthorized, Unavailable):
            told = False
        bindings = site.path(ref.external_name, "rolebindings", "/apis/rbac.authorization.k8s.io/v1")
        self._api.delete(f"{bindings}/{names.account(ref.external_name)}")
        return StepOutcome(done=True, detail="" if told else "its API does not answer: nobody gets in")

    def _do(self, spec: ClusterSpec, step: str, verb: str) -> StepOutcome:
        do = self._steps(spec).get(step)
        if do is None:
            raise Permanent(f"the driver has no step {step!r}")
        with evident(self.connection.site_slug, f"{verb} {step}"):
            return do()

    def _steps(self, spec: ClusterSpec) -> dict[str, Do]:
        """What each step does, whichever change it is of."""
        ensure, api = self._ensure(spec), self._api
        granted = partial(making.shares, api, spec, ensure)
        found: dict[str, Do] = {
            steps.SPACE: lambda: ensure.run("namespace"),
            steps.QUOTA: lambda: _all(ensure, "quota", "limits", "network"),
            steps.GUARDS: lambda: _all(ensure, "guards", "confirm"),
            steps.CONTROL: lambda: self._control(spec, ensure),
            steps.API: lambda: site.answers(api, spec.ref),
            steps.CHECKS: lambda: making.checks(api, spec),
            steps.SHARES: granted,
            steps.STOP: lambda: making.stop(api, spec),
        }
        found |= {f"{POOL_STEP}{pool.name}": granted for pool in spec.pools}
        found |= {f"{ADDON_STEP}{name}": partial(making.addon, api, spec, name) for name in spec.addons}
        return found

    def _control(self, spec: ClusterSpec, ensure: Ensure) -> StepOutcome:
        """Nothing of it acts before the quota does."""
        confirmed = ensure.run("confirm")
        return making.control_plane(self._api, spec) if confirmed.done else confirmed


def _all(ensure: Ensure, *names_of_steps: str) -> StepOutcome:
    """The first that is not done, or the last."""
    outcome = StepOutcome(done=True)
    for step in names_of_steps:
        outcome = ensure.run(step)
        if not outcome.done:
            return outcome
    return outcome

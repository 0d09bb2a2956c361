"""Clusters on demand as virtual clusters at a Kubernetes site: the contract's verbs, each handed to the module that does it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from gpuaas.core.errors import NotFound, Unauthorized, Unavailable
from gpuaas.providers import base
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP
from gpuaas.providers.base.evidence import evident
from gpuaas.providers.kubeapi import cluster_access as people
from gpuaas.providers.kubeapi.client import Api, shared
from gpuaas.providers.kubeapi.ensure import Ensure
from gpuaas.providers.kubeapi.manifests import Openings
from gpuaas.providers.kubeapi.recent import Recent
from gpuaas.providers.kubeapi.release import Release
from gpuaas.providers.vcluster import making, names, plan, site
from gpuaas.providers.vcluster.settings import settings_read
from gpuaas.providers.vcluster.signals import signals
from gpuaas.providers.vcluster.sweep import sweep
from gpuaas.providers.vcluster.tenancy import ref_of, space_of

Do = Callable[[], base.StepOutcome]


class VirtualClusterDriver(
    base.ClusterDriver,
    base.ClusterAccessCapability,
    base.ClusterRevocationCapability,
    base.ClusterSignalsCapability,
    base.ClusterNamespaceCapability,
):
    """At a site of the driver kubernetes, with its credentials and options; a template's settings are `VirtualSettings`."""

    name = "vcluster"
    kinds = frozenset({base.ClusterKind.KUBERNETES})
    timeline = plan.VirtualTimeline

    @classmethod
    def settings_check(cls, kind: base.ClusterKind, settings: Mapping[str, Any]) -> None:
        del kind
        settings_read(settings)

    @classmethod
    def namespace(cls, ref: base.ClusterRef) -> str:
        return names.space(ref.external_name)

    def perform(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        """A cluster that does not exist counts as suspended."""
        do = base.step_require(
            self._removal(spec) if change is base.Change.DELETE else self._work(spec), step
        )
        with evident(self.connection.site_slug, f"{change} {step}"):
            if change is base.Change.SUSPEND and site.space_find(self._api, spec.ref) is None:
                return base.StepOutcome(done=True, detail="nothing of it is at the site")
            return do()

    def observe(self, ref: base.ClusterRef) -> base.ObservedCluster:
        with evident(self.connection.site_slug, "observe"):
            return site.observe(self._api, ref)

    def inventory(self, ref: base.ClusterRef | None = None) -> tuple[base.SiteObject, ...]:
        with evident(self.connection.site_slug, "inventory"):
            return sweep(self._api, ref)

    def access(self, spec: base.ClusterSpec, member: base.Member, *, lifetime: timedelta) -> base.Access:
        with evident(self.connection.site_slug, "access"):
            return people.issue(self._inside(spec.ref), spec.ref, member, lifetime=lifetime)

    def revoke(self, spec: base.ClusterSpec, member: base.Member) -> None:
        with evident(self.connection.site_slug, "revoke"):
            try:
                people.revoke(self._inside(spec.ref), spec.ref, member)
            except NotFound:
                return  # its API does not exist, so nobody has access

    def signals(self, spec: base.ClusterSpec) -> tuple[base.PoolSignals, ...]:
        with evident(self.connection.site_slug, "signals"):
            return signals(spec, self._inside(spec.ref).items("/api/v1/pods"))

    @cached_property
    def _api(self) -> Api:
        return shared(str(self.connection.credentials.get("kubeconfig", "")))

    @cached_property
    def _recent(self) -> Recent:
        return Recent()

    def _inside(self, ref: base.ClusterRef) -> Api:
        return site.inside(self._api, ref)

    def _ensure(self, spec: base.ClusterSpec) -> Ensure:
        return Ensure(self._api, space_of(spec), Openings.read(self.connection.options), self._recent)

    def _revoke(self, ref: base.ClusterRef) -> base.StepOutcome:
        """Revoke people's rights inside, then those of the syncer, which would create pods while they are being ended."""
        if site.space_find(self._api, ref) is None:
            return base.StepOutcome(done=True, detail="nothing of it is at the site")
        try:
            revoked = people.revoke_if_it_answers(self._inside(ref), ref)
        except (NotFound, Unauthorized, Unavailable):
            revoked = False
        bindings = site.path(ref.external_name, "rolebindings", "/apis/rbac.authorization.k8s.io/v1")
        self._api.delete(f"{bindings}/{names.account(ref.external_name)}")
        return base.StepOutcome(
            done=True, detail="" if revoked else "its API does not answer, so nobody has access"
        )

    def _removal(self, spec: base.ClusterSpec) -> dict[str, Do]:
        found: dict[str, Do] = {
            each.key: partial(self._release, spec.ref, each.key) for each in plan.DELETION
        }
        return found | {"access": partial(self._revoke, spec.ref)}

    def _release(self, ref: base.ClusterRef, step: str) -> base.StepOutcome:
        return Release(self._api, ref_of(ref)).run(step)

    def _work(self, spec: base.ClusterSpec) -> dict[str, Do]:
        """The steps of all changes except deletion."""
        ensure, api = self._ensure(spec), self._api
        granted = partial(making.shares, api, spec, ensure)
        found: dict[str, Do] = {
            plan.SPACE: lambda: ensure.run("namespace"),
            plan.QUOTA: lambda: _all(ensure, "quota", "limits", "network"),
            plan.GUARDS: lambda: _all(ensure, "guards", "confirm"),
            plan.CONTROL: lambda: self._control(spec, ensure),
            plan.API: lambda: site.answers(api, spec.ref),
            plan.CHECKS: lambda: making.checks(api, spec),
            plan.SHARES: granted,
            plan.STOP: lambda: making.stop(api, spec),
        }
        found |= {f"{POOL_STEP}{pool.name}": granted for pool in spec.pools}
        found |= {f"{ADDON_STEP}{name}": partial(making.addon, api, spec, name) for name in spec.addons}
        return found

    def _control(self, spec: base.ClusterSpec, ensure: Ensure) -> base.StepOutcome:
        """The control plane starts only when the quota is enforced."""
        confirmed = ensure.run("confirm")
        return making.control_plane(self._api, spec) if confirmed.done else confirmed


def _all(ensure: Ensure, *names_of_steps: str) -> base.StepOutcome:
    """The first outcome that is not done, or the last."""
    outcome = base.StepOutcome(done=True)
    for step in names_of_steps:
        outcome = ensure.run(step)
        if not outcome.done:
            return outcome
    return outcome

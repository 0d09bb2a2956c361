"""Clusters on demand by Cluster API: the portal applies a Cluster with a topology, and follows the controllers' conditions."""

from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

from gpuaas.core.errors import Permanent
from gpuaas.providers import base
from gpuaas.providers.base.difference import ADDON_STEP, POOL_STEP
from gpuaas.providers.base.evidence import evident
from gpuaas.providers.clusterapi import (
    conditions,
    deletion,
    making,
    plan,
    progress,
    signals,
    site,
    variables,
)
from gpuaas.providers.clusterapi.plan import API, CHECKS, CONTROL, NETWORK, ORDER
from gpuaas.providers.clusterapi.settings import settings_read
from gpuaas.providers.clusterapi.sweep import sweep
from gpuaas.providers.kubeapi import cluster_access
from gpuaas.providers.kubeapi.client import Api, shared


class ClusterApiDriver(
    base.ClusterDriver,
    base.ClusterAccessCapability,
    base.ClusterRevocationCapability,
    base.ClusterSchemaCapability,
    base.ClusterSignalsCapability,
):
    name = "cluster-api"
    kinds = frozenset({base.ClusterKind.KUBERNETES})
    timeline = plan.ClusterApiTimeline

    @classmethod
    def settings_check(cls, kind: base.ClusterKind, settings: Mapping[str, Any]) -> None:
        del kind
        settings_read(settings)

    def perform(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        return self._delete(spec, step) if change is base.Change.DELETE else self._make(change, spec, step)

    def _delete(self, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        do: dict[str, Callable[[], base.StepOutcome]] = {
            "access": lambda: self._revoke(spec.ref),
            "workers": lambda: deletion.workers(self._api, spec.ref),
            "control-plane": lambda: deletion.control_plane(self._api, spec.ref),
            "network": lambda: deletion.network(self._api, spec.ref),
            "gone": lambda: deletion.gone(self._api, spec.ref),
        }
        way = base.step_require(do, step)
        with evident(self.connection.site_slug, f"delete {step}"):
            return way()

    def observe(self, ref: base.ClusterRef) -> base.ObservedCluster:
        with evident(self.connection.site_slug, "observe"):
            cluster = site.cluster_find(self._api, ref)
            if cluster is None:
                return base.ObservedCluster(exists=site.space_find(self._api, ref) is not None)
            seen = site.seen_of(self._api, ref, cluster)
        answers = conditions.status_of(cluster, "RemoteConnectionProbe") == "True"
        prefix = making.release_prefix(cluster)
        return base.ObservedCluster(
            exists=True,
            endpoint=progress.address(cluster) if answers else "",
            nodes=tuple(making.node(one, prefix) for one in seen.machines),
        )

    def inventory(self, ref: base.ClusterRef | None = None) -> tuple[base.SiteObject, ...]:
        with evident(self.connection.site_slug, "inventory"):
            return sweep(self._api, ref)

    def access(self, spec: base.ClusterSpec, member: base.Member, *, lifetime: timedelta) -> base.Access:
        with evident(self.connection.site_slug, "access"):
            seen = site.look(self._api, spec.ref)
            progress.answering(seen)
            return cluster_access.issue(self._workload(spec.ref), spec.ref, member, lifetime=lifetime)

    def revoke(self, spec: base.ClusterSpec, member: base.Member) -> None:
        with evident(self.connection.site_slug, "revoke"):
            cluster_access.revoke(self._workload(spec.ref), spec.ref, member)

    def signals(self, spec: base.ClusterSpec) -> tuple[base.PoolSignals, ...]:
        with evident(self.connection.site_slug, "signals"):
            seen = site.look(self._api, spec.ref)
            progress.answering(seen)
            with closing(self._workload(spec.ref)) as workload:
                return signals.read(workload, seen, spec)

    def parameters_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        with evident(self.connection.site_slug, "the class's variables"):
            return variables.parameters_schema(self._api, settings_read(settings))

    @property
    def _api(self) -> Api:
        return shared(str(self.connection.credentials.get("kubeconfig", "")))

    def _workload(self, ref: base.ClusterRef) -> Api:
        """With full rights in the cluster, for one call only."""
        return Api(site.admin_kubeconfig(self._api, ref))

    def _revoke(self, ref: base.ClusterRef) -> base.StepOutcome:
        cluster = site.cluster_find(self._api, ref)
        if cluster is None or conditions.status_of(cluster, "RemoteConnectionProbe") != "True":
            return base.StepOutcome(done=True, detail="nobody has access: no API answers")
        revoked = cluster_access.revoke_if_it_answers(self._workload(ref), ref)
        return base.StepOutcome(done=True, detail="" if revoked else "the API no longer answers")

    def _make(self, change: base.Change, spec: base.ClusterSpec, step: str) -> base.StepOutcome:
        """A creation applies the spec in its first step; any other change applies it in every step, since it may differ."""
        settings = settings_read(spec.settings)
        pools = {f"{POOL_STEP}{pool.name}": pool for pool in spec.pools}
        addon = step.removeprefix(ADDON_STEP) if step.startswith(ADDON_STEP) else ""
        if step not in {ORDER, NETWORK, CONTROL, API, CHECKS, *pools} and not addon:
            raise Permanent(f"the driver has no step {step!r}")
        with evident(self.connection.site_slug, f"{change} {step}"):
            if step == ORDER:
                return making.order(self._api, spec, settings)
            seen = site.look(self._api, spec.ref)
            if change is not base.Change.CREATE:
                making.apply(self._api, spec, settings)
                seen = site.look(self._api, spec.ref)
            if addon:
                return making.addon(self._api, spec, addon, settings)
            if step in pools:
                return making.pool(self._api, seen, pools[step], settings)
            if step == CONTROL:
                return making.control_plane(self._api, seen, spec)
            if step == CHECKS:
                return progress.checks(seen, spec)
            if step == NETWORK:
                return progress.network(seen, lambda: site.infrastructure(self._api, seen.cluster))
            return progress.api(seen)

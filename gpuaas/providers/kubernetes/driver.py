"""The driver: the contract's verbs, each handed to the module that does it."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from gpuaas.providers import base
from gpuaas.providers.kubeapi import access, ensure, manifests, names, observe, release, warden
from gpuaas.providers.kubeapi.client import Api, shared
from gpuaas.providers.kubeapi.recent import Recent
from gpuaas.providers.kubeconfig import kubeconfig_of, kubeconfig_require
from gpuaas.providers.kubernetes import (
    adoption,
    dcgm,
    drift,
    inventory,
    nodechecks,
    preflight,
    suspend,
    usage,
)
from gpuaas.providers.kubernetes.changes import Memory, watch_changes
from gpuaas.providers.kubernetes.environments import KubernetesEnvironments
from gpuaas.providers.kubernetes.jobs import KubernetesJobs


class KubernetesDriver(
    base.Driver,
    base.AccessCapability,
    base.SignInCapability,
    base.UsageCapability,
    base.DriftCapability,
    base.PreflightCapability,
    base.MetricsCapability,
    base.NodeCheckCapability,
    base.WardenCapability,
    base.AdoptionCapability,
    base.EnvironmentCapability,
    base.JobCapability,
):
    """Credentials and options: see `kind.py`. An endpoint (https://…), if set, is the server in tenants' kubeconfigs."""

    name = "kubernetes"
    changes = {
        base.Change.CREATE: ensure.STEPS,
        base.Change.RESIZE: ensure.STEPS,
        base.Change.SUSPEND: suspend.SUSPEND_STEPS,
        base.Change.RESUME: suspend.RESUME_STEPS,
        base.Change.DELETE: release.STEPS,
    }
    access_kind = base.AccessKind.KUBECONFIG
    lends = True
    launchers = frozenset({base.MPI})
    # False where the site chooses the accounts of pods itself
    chooses_users = True

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        kubeconfig_require(credentials, who="a site of this driver")

    @cached_property
    def _kubeconfig(self) -> str:
        return kubeconfig_of(self.connection.credentials)

    @cached_property
    def _api(self) -> Api:
        return shared(self._kubeconfig)

    @cached_property
    def _recent(self) -> Recent:
        return Recent()

    @property
    def _openings(self) -> manifests.Openings:
        openings = manifests.Openings.read(self.connection.options)
        return replace(openings, schedulers=self._schedulers)

    @property
    def _schedulers(self) -> tuple[str, ...]:
        return tuple(map(str, self.connection.options.get("schedulers") or ()))

    @cached_property
    def _memory(self) -> Memory:
        return Memory()

    @property
    def environments(self) -> KubernetesEnvironments:
        return KubernetesEnvironments(self.connection, self._api, chooses_users=self.chooses_users)

    @property
    def jobs(self) -> KubernetesJobs:
        return KubernetesJobs(self.connection, self._api, chooses_users=self.chooses_users)

    def _ensure(self, spec: base.WorkspaceSpec) -> ensure.Ensure:
        return ensure.Ensure(self._api, spec, self._openings, self._recent)

    def _release(self, ref: base.WorkspaceRef) -> release.Release:
        return release.Release(self._api, ref)

    def probe(self) -> base.Inventory:
        label = self.connection.options.get("pool_label") or names.POOL_LABEL
        named = map(str, self.connection.options.get("gpu_resources") or ())
        return inventory.take(
            self._api,
            pool_label=str(label),
            gpu_resources=named,
            sold=self.connection.sold,
            holders=self.connection.holders,
        )

    @cached_property
    def _usage(self) -> usage.UsageStream:
        return usage.UsageStream(self._api)

    def perform(self, change: base.Change, spec: base.WorkspaceSpec, step: str) -> base.StepOutcome:
        match change:
            case base.Change.DELETE:
                return self._release(spec.ref).run(step)
            case base.Change.SUSPEND:
                return suspend.Suspend(self._api, spec, self._ensure(spec)).run(step)
            case base.Change.RESUME:
                return suspend.Resume(self._api, spec, self._ensure(spec)).run(step)
        return self._ensure(spec).run(step)

    def observe(self, ref: base.WorkspaceRef) -> base.ObservedWorkspace:
        name = ref.external_name
        known, fresh = self._recent.known(name), self._recent.was_fresh(name)
        return observe.observe(self._api, ref, known=known if fresh else None, fresh=fresh)

    def issue_access(
        self, ref: base.WorkspaceRef, member: base.Member, *, lifetime: timedelta
    ) -> base.Access:
        return access.issue(self._api, ref, member, lifetime=lifetime, server=self._server)

    @property
    def _server(self) -> str:
        """The server address for tenants; "" = the same as ours."""
        endpoint = self.connection.endpoint
        return endpoint.rstrip("/") if endpoint.startswith("https://") else ""

    def sign_in_kubeconfig(self, ref: base.WorkspaceRef, member: base.Member) -> str:
        sign_in = base.sign_in_of(self.connection.options)
        return access.sign_in_kubeconfig(self._api, ref, member, sign_in, server=self._server)

    def revoke_access(self, ref: base.WorkspaceRef, member: base.Member) -> None:
        access.revoke(self._api, ref, member)

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[base.UsageEvent]:
        return self._usage.watch(cursor, seconds=seconds)

    def evict(self, workspace_name: str, consumer: base.ObservedConsumer, *, reason: str) -> bool:
        return warden.evict(self._api, workspace_name, consumer, reason=reason)

    def drift(self, spec: base.WorkspaceSpec) -> tuple[base.Difference, ...]:
        return drift.differences(self._api, spec, openings=self._openings)

    def site_repair(self) -> tuple[base.Difference, ...]:
        return drift.site_repair(self._api, self._schedulers)

    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[base.SiteChange]:
        """Use one driver object for consecutive windows: it remembers what it has seen."""
        return watch_changes(self._api, self._memory, cursor, seconds=seconds)

    def preflight(self) -> tuple[base.Check, ...]:
        return preflight.run(self._api, self._kubeconfig, self._schedulers)

    @cached_property
    def _exporters(self) -> dcgm.Exporters:
        return dcgm.Exporters(self._api)

    def device_health(self) -> tuple[base.NodeHealth, ...]:
        return tuple(page.health for page in self._exporters.pages())

    def device_metrics(self) -> tuple[base.DeviceReading, ...]:
        return tuple(reading for page in self._exporters.pages() for reading in page.readings)

    def node_check_start(self, node: str, check_id: uuid.UUID) -> None:
        image = str(self.connection.options.get("check_image") or "")
        nodechecks.start(self._api, node, check_id, image=image)

    def node_check_result(self, check_id: uuid.UUID) -> base.NodeCheckOutcome:
        return nodechecks.result(self._api, check_id)

    def node_check_end(self, check_id: uuid.UUID) -> None:
        nodechecks.end(self._api, check_id)

    def adoptable(self) -> tuple[base.ForeignWorkspace, ...]:
        return adoption.adoptable(self._api, sites_own=self._sites_own)

    def adoption_plan(self, spec: base.WorkspaceSpec) -> tuple[base.AdoptionStep, ...]:
        return self._plan(spec).steps()

    def adopt(self, spec: base.WorkspaceSpec) -> base.StepOutcome:
        return adoption.adopt(self._plan(spec))

    def _plan(self, spec: base.WorkspaceSpec) -> adoption.Plan:
        return adoption.Plan(self._api, spec, self._openings, self._sites_own)

    @property
    def _sites_own(self) -> tuple[str, ...]:
        return tuple(map(str, self.connection.options.get("sites_namespaces") or ()))

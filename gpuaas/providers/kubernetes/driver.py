"""The driver: the contract's verbs, each handed to the module that does it."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property

from gpuaas.core.errors import Unauthorized
from gpuaas.providers.base import (
    Access,
    AccessCapability,
    AccessKind,
    AdoptionCapability,
    AdoptionStep,
    Check,
    Difference,
    DriftCapability,
    Driver,
    ForeignWorkspace,
    HealthCapability,
    Inventory,
    Member,
    NodeCheckCapability,
    NodeCheckOutcome,
    NodeHealth,
    ObservedConsumer,
    ObservedWorkspace,
    PreflightCapability,
    SignInCapability,
    SiteChange,
    StepOutcome,
    StepSpec,
    SuspendCapability,
    UsageCapability,
    UsageEvent,
    WardenCapability,
    WorkspaceRef,
    WorkspaceSpec,
    sign_in_of,
)
from gpuaas.providers.kubernetes import (
    access,
    adoption,
    changes,
    dcgm,
    drift,
    ensure,
    inventory,
    manifests,
    names,
    nodechecks,
    observe,
    preflight,
    release,
    suspend,
    usage,
    warden,
)
from gpuaas.providers.kubernetes.client import Api, shared
from gpuaas.providers.kubernetes.recent import Recent


class KubernetesDriver(
    Driver,
    AccessCapability,
    SignInCapability,
    SuspendCapability,
    UsageCapability,
    DriftCapability,
    PreflightCapability,
    HealthCapability,
    NodeCheckCapability,
    WardenCapability,
    AdoptionCapability,
):
    """Credentials: `kubeconfig`, a YAML document. An endpoint (https://…), where set, is what tenants' kubeconfigs name.

    Options: `pool_label` (of nodes; gpuaas.io/pool), `egress_cidrs` (what workspaces may reach; nothing), `gpu_resources`
    (names of extended resources that are GPUs and do not say so by a vendor's domain; none), `check_image` (in which
    nvidia-smi is run on a node), `sites_namespaces` (patterns of names that nobody may take over, beside the usual ones).
    """

    name = "kubernetes"
    access_kind = AccessKind.KUBECONFIG

    @cached_property
    def _kubeconfig(self) -> str:
        kubeconfig = self.connection.credentials.get("kubeconfig")
        if not isinstance(kubeconfig, str) or not kubeconfig.strip():
            raise Unauthorized("the site has no kubeconfig among its credentials")
        return kubeconfig

    @cached_property
    def _api(self) -> Api:
        return shared(self._kubeconfig)

    @cached_property
    def _recent(self) -> Recent:
        return Recent()

    @property
    def _openings(self) -> manifests.Openings:
        cidrs = self.connection.options.get("egress_cidrs") or ()
        return manifests.Openings(egress_cidrs=tuple(map(str, cidrs)))

    @cached_property
    def _memory(self) -> changes.Memory:
        return changes.Memory()

    def _ensure(self, spec: WorkspaceSpec) -> ensure.Ensure:
        return ensure.Ensure(self._api, spec, self._openings, self._recent)

    def probe(self) -> Inventory:
        label = self.connection.options.get("pool_label") or names.POOL_LABEL
        named = map(str, self.connection.options.get("gpu_resources") or ())
        return inventory.take(self._api, pool_label=str(label), gpu_resources=named)

    @cached_property
    def _usage(self) -> usage.UsageStream:
        return usage.UsageStream(self._api)

    def ensure_steps(self) -> tuple[StepSpec, ...]:
        return ensure.STEPS

    def ensure(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return self._ensure(spec).run(step)

    def suspend_steps(self) -> tuple[StepSpec, ...]:
        return suspend.SUSPEND_STEPS

    def suspend(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return suspend.Suspend(self._api, spec, self._ensure(spec)).run(step)

    def resume_steps(self) -> tuple[StepSpec, ...]:
        return suspend.RESUME_STEPS

    def resume(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        return suspend.Resume(self._api, spec, self._ensure(spec)).run(step)

    def release_steps(self) -> tuple[StepSpec, ...]:
        return release.STEPS

    def release(self, ref: WorkspaceRef, step: str) -> StepOutcome:
        return release.Release(self._api, ref).run(step)

    def observe(self, ref: WorkspaceRef) -> ObservedWorkspace:
        name = ref.external_name
        known, fresh = self._recent.known(name), self._recent.was_fresh(name)
        return observe.observe(self._api, ref, known=known if fresh else None, fresh=fresh)

    def issue_access(self, ref: WorkspaceRef, member: Member, *, lifetime: timedelta) -> Access:
        return access.issue(self._api, ref, member, lifetime=lifetime, server=self._server)

    @property
    def _server(self) -> str:
        """As tenants are told to reach it; "" = as we do."""
        endpoint = self.connection.endpoint
        return endpoint.rstrip("/") if endpoint.startswith("https://") else ""

    def sign_in_kubeconfig(self, ref: WorkspaceRef, member: Member) -> str:
        sign_in = sign_in_of(self.connection.options)
        return access.sign_in_kubeconfig(self._api, ref, member, sign_in, server=self._server)

    def revoke_access(self, ref: WorkspaceRef, member: Member) -> None:
        access.revoke(self._api, ref, member)

    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        return self._usage.watch(cursor, seconds=seconds)

    def evict(self, workspace_name: str, consumer: ObservedConsumer, *, reason: str) -> bool:
        return warden.evict(self._api, workspace_name, consumer, reason=reason)

    def drift(self, spec: WorkspaceSpec) -> tuple[Difference, ...]:
        return drift.differences(self._api, spec, openings=self._openings)

    def site_repair(self) -> tuple[Difference, ...]:
        return drift.site_repair(self._api)

    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
        """Use one driver for window after window: it remembers what it has seen."""
        return changes.watch_changes(self._api, self._memory, cursor, seconds=seconds)

    def preflight(self) -> tuple[Check, ...]:
        return preflight.run(self._api, self._kubeconfig)

    def device_health(self) -> tuple[NodeHealth, ...]:
        return dcgm.device_health(self._api)

    def node_check_start(self, node: str, check_id: uuid.UUID) -> None:
        image = str(self.connection.options.get("check_image") or "")
        nodechecks.start(self._api, node, check_id, image=image)

    def node_check_result(self, check_id: uuid.UUID) -> NodeCheckOutcome:
        return nodechecks.result(self._api, check_id)

    def node_check_end(self, check_id: uuid.UUID) -> None:
        nodechecks.end(self._api, check_id)

    def adoptable(self) -> tuple[ForeignWorkspace, ...]:
        return adoption.adoptable(self._api, sites_own=self._sites_own)

    def adoption_plan(self, spec: WorkspaceSpec) -> tuple[AdoptionStep, ...]:
        return self._plan(spec).steps()

    def adopt(self, spec: WorkspaceSpec) -> StepOutcome:
        return adoption.adopt(self._plan(spec))

    def _plan(self, spec: WorkspaceSpec) -> adoption.Plan:
        return adoption.Plan(self._api, spec, self._openings, self._sites_own)

    @property
    def _sites_own(self) -> tuple[str, ...]:
        return tuple(map(str, self.connection.options.get("sites_namespaces") or ()))

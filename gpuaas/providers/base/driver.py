"""The verbs that all drivers share, and the capabilities that some have."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from gpuaas.providers.base import workspace
from gpuaas.providers.base.changes import (
    AdoptionStep,
    Difference,
    ForeignWorkspace,
    NodeCheckOutcome,
    SiteChange,
)
from gpuaas.providers.base.signin import sign_in_of
from gpuaas.providers.base.site import Check, DeviceReading, Inventory, NodeHealth
from gpuaas.providers.base.steps import Change, Provisioner, StepOutcome, StepSpec
from gpuaas.providers.base.usage import UsageEvent


class Driver(Provisioner[workspace.WorkspaceSpec]):
    """Drives one site with workspaces. `changes`: the supported changes, each with its steps in order."""

    changes: ClassVar[Mapping[Change, tuple[StepSpec, ...]]]

    # whether what borrows GPUs ends, with the notice of its spec, once a consumer that bought them waits for them
    lends: ClassVar[bool] = False

    # disk of the flavors that the portal proposes; 0 where consumers share their node's
    disk_gib = 0

    # options that cannot change after a site is attached, since its objects are found by them
    fixed_options: frozenset[str] = frozenset()

    @classmethod
    def options_check(cls, options: Mapping[str, Any]) -> None:
        """Validate a site's options. Raises Invalid for the field `options`."""
        sign_in_of(options)

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        """Validate credentials before they are saved, without calling the site. Raises Invalid for the field `credentials`."""
        del credentials

    @abstractmethod
    def probe(self) -> Inventory:
        """The site's current inventory. Raises Unavailable or Unauthorized."""

    def steps(self, change: Change, spec: workspace.WorkspaceSpec | None = None) -> tuple[StepSpec, ...]:
        """The same for every workspace of the site, so the spec may be omitted."""
        del spec
        return self.changes[change]

    @abstractmethod
    def observe(self, ref: workspace.WorkspaceRef) -> workspace.ObservedWorkspace:
        """The workspace as the site has it; exists=False (not NotFound) if there is nothing."""


class AccessCapability(ABC):
    """Drivers that give people short-lived personal credentials, all of one kind."""

    access_kind: workspace.AccessKind

    @abstractmethod
    def issue_access(
        self, ref: workspace.WorkspaceRef, member: workspace.Member, *, lifetime: timedelta
    ) -> workspace.Access:
        """A personal credential, valid for at most `lifetime`. Raises NotFound if the member has no access."""

    @abstractmethod
    def revoke_access(self, ref: workspace.WorkspaceRef, member: workspace.Member) -> None:
        """Revoke every credential issued to the member, who may request a new one. Idempotent."""


class SignInCapability(ABC):
    """Drivers at whose sites people can sign in with the site's own identity provider."""

    @abstractmethod
    def sign_in_kubeconfig(self, ref: workspace.WorkspaceRef, member: workspace.Member) -> str:
        """Contains no credential. Raises NotFound if the site has no sign-in or does not know the member."""


class OfferCapability(ABC):
    """Drivers at whose sites flavors must exist before anybody can request them."""

    @abstractmethod
    def offers_set(self, sold: tuple[workspace.FlavorAmount, ...], retired: tuple[str, ...]) -> None:
        """Create every sold flavor, granted to nobody yet; delete retired ones (slugs) once nobody holds them."""


class UsageCapability(ABC):
    """Drivers that report usage, as a stream that can be resumed."""

    @abstractmethod
    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        """Events since `cursor` ("" = from a full list), for about `seconds`, then the iterator ends.

        A cursor that is too old yields RELIST … RELISTED. Raises Unavailable when the site stops answering.
        """


class WardenCapability(ABC):
    """Drivers at whose sites concurrent requests can briefly exceed a quota."""

    @abstractmethod
    def evict(self, workspace_name: str, consumer: workspace.ObservedConsumer, *, reason: str) -> bool:
        """Remove the consumer at once and record the reason where its owner sees it; False if it was already gone."""


class DriftCapability(ABC):
    """Drivers that can report drift without changing anything, and follow changes at the site."""

    @abstractmethod
    def drift(self, spec: workspace.WorkspaceSpec) -> tuple[Difference, ...]:
        """The differences that the steps of a creation would repair now; writes nothing."""

    @abstractmethod
    def site_repair(self) -> tuple[Difference, ...]:
        """Repair our objects of the whole site (policies, roles); returns what differed before."""

    @abstractmethod
    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
        """Changes by others to objects of ours, and to nodes, since `cursor` for about `seconds`.

        "" or a cursor that is too old: starts at the present, after one change for the whole site.
        """


class PreflightCapability(ABC):
    """Drivers that can check whether a site is ready to be sold."""

    @abstractmethod
    def preflight(self) -> tuple[Check, ...]:
        """All checks in a fixed order, passed ones too; leaves nothing behind that tenants or the meter would see."""


class HealthCapability(ABC):
    """Drivers whose sites report the health of their GPUs."""

    @abstractmethod
    def device_health(self) -> tuple[NodeHealth, ...]:
        """One report for each node that answered, with one request each; an omitted node keeps its last report."""


class MetricsCapability(HealthCapability):
    """Drivers whose sites report figures of each GPU beside its health."""

    @abstractmethod
    def device_metrics(self) -> tuple[DeviceReading, ...]:
        """One reading for each device and pod that has it, of the nodes that answered.

        What was asked for `device_health` by this driver a moment ago is not asked again. Names of namespaces and pods
        are the site's claims: whose they are is for the caller to find out.
        """


class NodeCheckCapability(ABC):
    """Drivers that can run the vendor's diagnostic on a node."""

    @abstractmethod
    def node_check_start(self, node: str, check_id: uuid.UUID) -> None:
        """Start the check; repeating it with the same id changes nothing. Raises NotFound for an unknown node."""

    @abstractmethod
    def node_check_result(self, check_id: uuid.UUID) -> NodeCheckOutcome:
        """The outcome so far; when done, remove the check with `node_check_end`.

        Raises NotFound for an unknown check, and for one preempted by a tenant: `node_check_start` starts it again.
        """

    @abstractmethod
    def node_check_end(self, check_id: uuid.UUID) -> None:
        """Remove the check, done or not; idempotent."""


class AdoptionCapability(ABC):
    """Drivers that can adopt namespaces or projects that existed before the portal."""

    @abstractmethod
    def adoptable(self) -> tuple[ForeignWorkspace, ...]:
        """What can be adopted, sorted by name; neither parts of the site itself nor existing workspaces."""

    @abstractmethod
    def adoption_plan(self, spec: workspace.WorkspaceSpec) -> tuple[AdoptionStep, ...]:
        """What `adopt` and a creation would do to `spec.external_name`; writes nothing."""

    @abstractmethod
    def adopt(self, spec: workspace.WorkspaceSpec) -> StepOutcome:
        """Mark it as this workspace's; the creation does the rest. Raises Permanent if it belongs to another workspace."""

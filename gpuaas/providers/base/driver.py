"""The verbs that all drivers share, and the capabilities that some have."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from gpuaas.providers.base.changes import (
    AdoptionStep,
    Difference,
    ForeignWorkspace,
    NodeCheckOutcome,
    SiteChange,
)
from gpuaas.providers.base.signin import sign_in_of
from gpuaas.providers.base.site import Check, Connection, Inventory, NodeHealth
from gpuaas.providers.base.usage import UsageEvent
from gpuaas.providers.base.workspace import (
    Access,
    AccessKind,
    FlavorAmount,
    Member,
    ObservedConsumer,
    ObservedWorkspace,
    StepOutcome,
    StepSpec,
    WorkspaceRef,
    WorkspaceSpec,
)


class Driver(ABC):
    """One object per call or per process, bound to one site; cheap to make, safe to drop."""

    name: str

    # what a flavor that the portal proposes has as its disk; 0 where consumers share their node's
    disk_gib = 0

    # options by which what is at a site is found: as they were when it was attached
    fixed_options: frozenset[str] = frozenset()

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @classmethod
    def options_check(cls, options: Mapping[str, Any]) -> None:
        """What an operator says of a site beside its credentials. Raises Invalid beside `options`."""
        sign_in_of(options)

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        """Before they are saved, without calling the site. Raises Invalid beside `credentials`."""
        del credentials

    @abstractmethod
    def probe(self) -> Inventory:
        """What the site has now. Raises Unavailable or Unauthorized."""

    @abstractmethod
    def ensure_steps(self) -> tuple[StepSpec, ...]:
        """The steps of `ensure`, in the order in which they must be done (also for a resize)."""

    @abstractmethod
    def ensure(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        """Do or confirm one step so that the site matches `spec`; repeating a done step changes nothing."""

    @abstractmethod
    def release_steps(self) -> tuple[StepSpec, ...]:
        """The steps of `release`, in order: access first, then consumers, then the rest, then the proof."""

    @abstractmethod
    def release(self, ref: WorkspaceRef, step: str) -> StepOutcome:
        """Do or confirm one step of taking the workspace away; what is gone already counts as done."""

    @abstractmethod
    def observe(self, ref: WorkspaceRef) -> ObservedWorkspace:
        """What the site has of it; exists=False (not NotFound) where there is nothing."""


class AccessCapability(ABC):
    """Drivers that give people short-lived personal credentials, all of one kind."""

    access_kind: AccessKind

    @abstractmethod
    def issue_access(self, ref: WorkspaceRef, member: Member, *, lifetime: timedelta) -> Access:
        """A personal credential for `lifetime` at most. Raises NotFound where the member has no access there."""

    @abstractmethod
    def revoke_access(self, ref: WorkspaceRef, member: Member) -> None:
        """End every credential issued to the member; the right to ask for another stays. Idempotent."""


class SignInCapability(ABC):
    """Drivers at whose sites people may sign in by themselves, at the site's own identity provider."""

    @abstractmethod
    def sign_in_kubeconfig(self, ref: WorkspaceRef, member: Member) -> str:
        """Without any credential in it. Raises NotFound where the site has no sign-in or does not know the member."""


class OfferCapability(ABC):
    """Drivers at whose sites what is sold has to be made before anybody can ask for it."""

    @abstractmethod
    def offers_set(self, sold: tuple[FlavorAmount, ...], retired: tuple[str, ...]) -> None:
        """Everything that is sold is there, for nobody yet; what is retired (slugs) goes once nobody holds it."""


class UsageCapability(ABC):
    """Drivers that tell who uses what, as a stream that can be resumed."""

    @abstractmethod
    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        """Events since `cursor` ("" = from a full list), for about `seconds`, then the iterator ends.

        A cursor that is too old yields RELIST … RELISTED by itself. Raises Unavailable when the site goes away.
        """


class SuspendCapability(ABC):
    """Drivers that can put a workspace to sleep: nothing runs, nothing may be started, data and access stay."""

    @abstractmethod
    def suspend_steps(self) -> tuple[StepSpec, ...]: ...

    @abstractmethod
    def suspend(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        """Do or confirm one step; `spec.suspended` is True. The last is done when no consumer holds a device."""

    @abstractmethod
    def resume_steps(self) -> tuple[StepSpec, ...]:
        """Includes those of `ensure`: what limits tenants stands before anything runs again."""

    @abstractmethod
    def resume(self, spec: WorkspaceSpec, step: str) -> StepOutcome:
        """Do or confirm one step; what was scaled away comes back as it was."""


class WardenCapability(ABC):
    """Drivers at whose sites a quota can be outrun for moments."""

    @abstractmethod
    def evict(self, workspace_name: str, consumer: ObservedConsumer, *, reason: str) -> bool:
        """Remove it at once and say why where its owner sees it; False where it was gone already."""


class DriftCapability(ABC):
    """Drivers that can say what differs without changing it, and follow what is changed."""

    @abstractmethod
    def drift(self, spec: WorkspaceSpec) -> tuple[Difference, ...]:
        """What `ensure` would change now; writes nothing."""

    @abstractmethod
    def site_repair(self) -> tuple[Difference, ...]:
        """Set right what we keep for the whole site (policies, roles); what differed before."""

    @abstractmethod
    def watch_changes(self, cursor: str, *, seconds: int) -> Iterator[SiteChange]:
        """Changes by others to objects of ours, and to nodes, since `cursor` for about `seconds`.

        "" or a cursor that is too old: begins at the present, after a change for the whole site.
        """


class PreflightCapability(ABC):
    """Drivers that can say whether a site is fit to be sold."""

    @abstractmethod
    def preflight(self) -> tuple[Check, ...]:
        """Every check in a fixed order, good ones too; leaves nothing that tenants or the meter see."""


class HealthCapability(ABC):
    """Drivers whose sites tell how their cards are."""

    @abstractmethod
    def device_health(self) -> tuple[NodeHealth, ...]:
        """One for each node that could be asked, asked once each; a node that is left out keeps what it said last."""


class NodeCheckCapability(ABC):
    """Drivers that can run the vendor's own check on a node."""

    @abstractmethod
    def node_check_start(self, node: str, check_id: uuid.UUID) -> None:
        """Begin it; again with the same id changes nothing. Raises NotFound for a node that is not there."""

    @abstractmethod
    def node_check_result(self, check_id: uuid.UUID) -> NodeCheckOutcome:
        """What it has found; once done it is cleared away by `node_check_end`.

        Raises NotFound for an unknown one, and for one that made way for a tenant: `node_check_start` begins it again.
        """

    @abstractmethod
    def node_check_end(self, check_id: uuid.UUID) -> None:
        """Clear it away, whether done or not; idempotent."""


class AdoptionCapability(ABC):
    """Drivers that can take over what was there before the portal."""

    @abstractmethod
    def adoptable(self) -> tuple[ForeignWorkspace, ...]:
        """What could be taken over, by name; nothing of the site's own parts, nothing that is a workspace."""

    @abstractmethod
    def adoption_plan(self, spec: WorkspaceSpec) -> tuple[AdoptionStep, ...]:
        """What adopt and ensure would do to `spec.external_name`; writes nothing."""

    @abstractmethod
    def adopt(self, spec: WorkspaceSpec) -> StepOutcome:
        """Mark it as this workspace's; `ensure` does the rest. Raises Permanent where it is another's."""

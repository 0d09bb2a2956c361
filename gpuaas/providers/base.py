"""The contract of a driver: verbs all share, capabilities some have, frozen dataclasses in and out.

Drivers see no models of other rooms and open no transaction. Every verb is idempotent, returns at once with what was
observed, and raises only the errors of `core/errors.py`: Unavailable (try again), Unauthorized (our credentials),
NoCapacity, NotFound, Permanent (trying again cannot help). Vendor exceptions are mapped at the driver's edge.
`tests/contracts` runs unchanged against every driver.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Connection:
    """How to reach one site. `credentials` are plain here and live no longer than the call."""

    site_id: uuid.UUID
    site_slug: str
    endpoint: str
    credentials: Mapping[str, Any] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


# -- what a site has ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceKind:
    """A GPU type as a site describes it; `slug` is derived from its attributes, so that all sites agree on it."""

    slug: str
    name: str
    product: str
    memory_gib: int
    sharing: str  # catalog's Sharing: whole, mig, shared, dra
    compute_capability: str = ""
    mig_profile: str = ""
    interconnect: str = ""
    ecc: bool | None = None


@dataclass(frozen=True)
class ObservedNode:
    """Devices of one kind on one node. `allocated` counts what pods or machines hold; `reason` says why not ready."""

    name: str
    kind_slug: str  # "" for a node without GPUs
    capacity: int
    allocated: int
    vcpus: int
    memory_gib: int
    ready: bool = True
    cordoned: bool = False
    reason: str = ""

    @property
    def healthy(self) -> int:
        return self.capacity if self.ready and not self.cordoned else 0

    @property
    def free(self) -> int:
        return max(self.healthy - self.allocated, 0)


@dataclass(frozen=True)
class ObservedPool:
    """All devices of one kind at the site, the name by which it counts them, and how pods are brought to them."""

    kind: DeviceKind
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    server_version: str
    pools: tuple[ObservedPool, ...]
    nodes: tuple[ObservedNode, ...]


# -- what is wanted of it -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuAmount:
    """`count` devices by the name that the site counts; selector = labels of the pool's nodes.

    exclusive: no other pool of the site goes by this name, so the name alone brings pods to it.
    """

    resource_name: str
    count: int
    selector: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False


@dataclass(frozen=True)
class Member:
    """`subject` is stable at the site (derived from the user's id); role is admin, edit or view."""

    subject: str
    name: str
    role: str


@dataclass(frozen=True)
class WorkspaceSpec:
    """Everything about a workspace that a site must hold. `closed` = GPU names of the site that were not bought."""

    id: uuid.UUID
    external_name: str
    project_slug: str
    organization_slug: str
    gpus: tuple[GpuAmount, ...]
    vcpus: int
    memory_gib: int
    storage_gib: int
    members: tuple[Member, ...]
    closed: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkspaceRef:
    id: uuid.UUID
    external_name: str


@dataclass(frozen=True)
class StepSpec:
    """A step of `ensure`, in order; the label is what the tenant reads in the timeline."""

    key: str
    label: str


@dataclass(frozen=True)
class StepOutcome:
    """done=False: the site works on it, ask again; `detail` says in words what was seen or is waited for."""

    done: bool
    detail: str = ""


@dataclass(frozen=True)
class ObservedConsumer:
    """A pod (or machine) of a workspace, for its page and for metering.

    started_at: from when it holds devices (PodScheduled); ended_at: last container's finish. None = not yet.
    `waiting_for` says in words why it does not run.
    """

    uid: str
    name: str
    phase: str
    node: str
    gpus: Mapping[str, int]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    waiting_for: str = ""


@dataclass(frozen=True)
class ObservedWorkspace:
    """exists=False: nothing of it is left at the site. hard/used are what the site enforces and counts by now."""

    exists: bool
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    consumers: tuple[ObservedConsumer, ...] = ()


@dataclass(frozen=True)
class Access:
    """Shown once, never stored. `kubeconfig` is a YAML document."""

    kubeconfig: str = field(repr=False)
    expires_at: datetime = field(kw_only=True)


# -- what is metered ------------------------------------------------------------------------------------------------


class UsageKind(StrEnum):
    SEEN = "seen"  # the consumer as it is now (started, or still running)
    GONE = "gone"  # deleted; the event carries its last state
    BOOKMARK = "bookmark"  # nothing new up to this cursor: a proof of life for all that is open
    RELIST = "relist"  # a full list follows as SEEN events, then RELISTED: what was not in it is gone
    RELISTED = "relisted"


@dataclass(frozen=True)
class UsageEvent:
    """`at` is when we saw it; `cursor` is where to resume (only on BOOKMARK and RELISTED; "" elsewhere)."""

    kind: UsageKind
    at: datetime
    cursor: str = ""
    workspace_name: str = ""  # external_name, the site's namespace or project
    consumer: ObservedConsumer | None = None


# -- the driver -----------------------------------------------------------------------------------------------------


class Driver(ABC):
    """One object per call or per process, bound to one site; cheap to make, safe to drop."""

    name: str

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

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
    """Drivers that give people short-lived personal credentials."""

    @abstractmethod
    def issue_access(self, ref: WorkspaceRef, member: Member, *, lifetime: timedelta) -> Access:
        """A personal credential for `lifetime` at most. Raises NotFound where the member has no access there."""


class UsageCapability(ABC):
    """Drivers that tell who uses what, as a stream that can be resumed."""

    @abstractmethod
    def watch_usage(self, cursor: str, *, seconds: int) -> Iterator[UsageEvent]:
        """Events since `cursor` ("" = from a full list), for about `seconds`, then the iterator ends.

        A cursor that is too old yields RELIST … RELISTED by itself. Raises Unavailable when the site goes away.
        """

"""The contract of a driver of clusters on demand: the same manners as `Driver`, over frozen dataclasses of their own.

Every verb is idempotent, works in small named steps, returns at once with what was observed and raises only the errors of
`core/errors.py`. An error says what to do about it: its `detail` may carry `evidence` (lines that the site said, never a secret)
and `next` (a sentence: what a person can do). Names at the site derive from our ids, everything that is made carries the
cluster's id as a tag, and every object is named by `plan` before any step makes it. `tests/contracts/clusters` runs unchanged
against every driver.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from gpuaas.providers.base.boots import Boots
from gpuaas.providers.base.site import Connection
from gpuaas.providers.base.workspace import Access, FlavorAmount, Member, StepOutcome


class ClusterKind(StrEnum):
    KUBERNETES = "kubernetes"
    SLURM = "slurm"


class ClusterChange(StrEnum):
    """What can be asked of a cluster; each has steps of its own."""

    CREATE = "create"
    SCALE = "scale"
    UPGRADE = "upgrade"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


@dataclass(frozen=True)
class ControlPlane:
    """`count` machines without GPUs that hold the cluster together (Kubernetes' control plane, Slurm's head nodes); sizes of one."""

    count: int
    vcpus: int
    memory_gib: int
    disk_gib: int


@dataclass(frozen=True)
class NodePool:
    """`flavor.count` workers alike. `release` is the software that they run; it may be behind the control plane's."""

    name: str
    flavor: FlavorAmount
    release: str


@dataclass(frozen=True)
class Join:
    """What machines elsewhere need to become workers of a cluster: where its control plane answers to them, the token that lets
    workers in and nobody else, and the authority (PEM) by which they know it. Never stored, never logged."""

    endpoint: str
    token: str = field(repr=False)
    authority: str = field(default="", repr=False)


@dataclass(frozen=True)
class ClusterSpec:
    """Everything about a cluster that a site must hold. `settings` are the template's own words to the driver; `closed` = GPU
    names of the site that are in none of the pools.

    A suspended cluster has pools of no workers here; its control plane stays. At a burst site it holds pools alone: `join` leads
    them to the control plane, and is there whenever workers may have to be made. spans: its pools may be at other sites, now or later,
    so machines are made such that they reach each other from site to site; a cluster stays as it began.
    """

    id: uuid.UUID
    external_name: str
    project_slug: str
    organization_slug: str
    kind: ClusterKind
    release: str
    control_plane: ControlPlane
    pools: tuple[NodePool, ...]
    addons: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    boots: Boots = field(default_factory=Boots)
    closed: tuple[str, ...] = ()
    join: Join | None = None
    spans: bool = False

    @property
    def is_burst(self) -> bool:
        """Of a cluster whose control plane is at another site."""
        return self.control_plane.count == 0

    @property
    def workers(self) -> int:
        return sum(pool.flavor.count for pool in self.pools)

    @property
    def ref(self) -> "ClusterRef":
        return ClusterRef(self.id, self.external_name, self.boots)


@dataclass(frozen=True)
class ClusterRef:
    """boots: a driver whose machines report asks there, beside the site, whether they are ready."""

    id: uuid.UUID
    external_name: str
    boots: Boots = field(default_factory=Boots)


@dataclass(frozen=True)
class SiteObject:
    """Something at the site that is made for one cluster. (kind, name) names it before it exists; uid is the site's own name.

    cluster_id: the tag that it carries; None where the site says that it is the portal's, and not whose.
    """

    kind: str
    name: str
    uid: str = ""
    cluster_id: uuid.UUID | None = None


@dataclass(frozen=True)
class ClusterStep:
    """`makes` names every object that the step may make, so that it is written down before it exists. site: the slug of the burst
    site at which it is done; "" = the cluster's own, and what every driver leaves."""

    key: str
    label: str
    makes: tuple[SiteObject, ...] = ()
    site: str = ""


@dataclass(frozen=True)
class ClusterPlan:
    """The steps of one change, in order; `warnings` are sentences for whoever asks for it."""

    steps: tuple[ClusterStep, ...]
    warnings: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[SiteObject, ...]:
        """Each once, in the order in which they are made."""
        found = dict.fromkeys((step.site, made) for step in self.steps for made in step.makes)
        return tuple(made for _, made in found)


@dataclass(frozen=True)
class ClusterNode:
    """A machine of the cluster; pool "" = the control plane. `reason` says in words why it is not ready."""

    name: str
    pool: str
    release: str
    ready: bool
    reason: str = ""


@dataclass(frozen=True)
class ObservedCluster:
    """exists=False: nothing of it is at the site. endpoint "" = nothing answers there yet."""

    exists: bool
    endpoint: str = ""
    nodes: tuple[ClusterNode, ...] = ()


@dataclass(frozen=True)
class PoolSignals:
    """What a pool has to do now. used_gpus: given to pods or jobs; pending_gpus: what those that wait for this pool ask for;
    queued: how many wait. Who waits and fits several pools is counted at the first."""

    pool: str
    used_gpus: int
    pending_gpus: int
    queued: int


class ClusterDriver(ABC):
    """One object per call or per process, bound to one site; cheap to make, safe to drop."""

    name: str
    kinds: frozenset[ClusterKind]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @classmethod
    def settings_check(cls, kind: ClusterKind, settings: Mapping[str, Any]) -> None:
        """What a template says to the driver. Raises Invalid beside `settings`."""
        del kind, settings

    @abstractmethod
    def plan(
        self, change: ClusterChange, spec: ClusterSpec, before: ClusterSpec | None = None
    ) -> ClusterPlan:
        """What the change would do, from the specs alone: the site is not called. `before` = what it confirmed last."""

    @abstractmethod
    def ensure(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step of making it as `spec` says, also of mending it; a done step changes nothing."""

    @abstractmethod
    def scale(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step of bringing the pools to the counts of `spec`, more or fewer."""

    @abstractmethod
    def upgrade(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step of bringing control plane and pools to their releases, a machine at a time."""

    @abstractmethod
    def delete(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step of taking it away: access first. What is gone already counts as done."""

    @abstractmethod
    def observe(self, ref: ClusterRef) -> ObservedCluster:
        """What the site has of it; exists=False (not NotFound) where there is nothing."""

    @abstractmethod
    def inventory(self, ref: ClusterRef | None = None) -> tuple[SiteObject, ...]:
        """Every object at the site that carries the cluster's tag, or (None) any cluster's; asked of the site, not remembered."""


class ClusterAccessCapability(ABC):
    """Drivers that give people short-lived personal credentials for a cluster."""

    @abstractmethod
    def access(self, spec: ClusterSpec, member: Member, *, lifetime: timedelta) -> Access:
        """For `lifetime` at most. Raises NotFound where nothing answers at the cluster's endpoint yet."""


class ClusterRevocationCapability(ABC):
    """Drivers that can end a person's credentials for a cluster before they run out."""

    @abstractmethod
    def revoke(self, spec: ClusterSpec, member: Member) -> None:
        """When it returns, nothing that `access` has given the member before is taken any more. Without any it does nothing."""


class ClusterSuspendCapability(ABC):
    """Drivers that can put a cluster to sleep: its workers go, its control plane and what it knows stay."""

    @abstractmethod
    def suspend(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step; the pools of `spec` have no workers."""

    @abstractmethod
    def resume(self, spec: ClusterSpec, step: str) -> StepOutcome:
        """Do or confirm one step of bringing the workers back."""


class ClusterSignalsCapability(ABC):
    """Drivers that can say how much there is to do in a cluster; scaling by policy follows it."""

    @abstractmethod
    def signals(self, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
        """One for each pool of `spec`, of this moment. Raises NotFound where nothing answers at the cluster's endpoint."""


class ClusterNamespaceCapability(ABC):
    """Drivers whose clusters run in a namespace of a site that has workspaces, guarded as those: the site's meter tells what is held
    there, and its warden holds them to what their pools bought."""

    @classmethod
    @abstractmethod
    def namespace(cls, ref: ClusterRef) -> str:
        """Its name, by which the workspaces' driver finds it with the cluster's id."""


class ClusterBurstCapability(ABC):
    """Drivers whose clusters may have pools at another site of theirs. There every verb takes a spec without a control plane, and
    whatever brings workers begins with what they stand on: nothing else has made it."""

    @classmethod
    def burst_check(cls, kind: ClusterKind, settings: Mapping[str, Any]) -> None:
        """Whether clusters of such a template can. Raises Invalid beside `burst`."""
        del kind, settings

    @abstractmethod
    def join(self, spec: ClusterSpec) -> Join:
        """At the cluster's own site. Raises NotFound where nothing answers at its endpoint yet."""


class ClusterSchemaCapability(ABC):
    """Drivers whose site says itself what may be chosen when a cluster is ordered."""

    @abstractmethod
    def parameters_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """JSON Schema of an object, as the site has it, without what the template's `settings` fill. Raises NotFound, Permanent."""

"""The contract of a driver of clusters on demand: the same rules as for `Driver`, with its own frozen dataclasses.

Every verb is idempotent, works in small named steps, returns at once with what was observed and raises only the errors of
`core/errors.py`. An error says what to do about it: its `detail` may carry `evidence` (lines from the site, never a secret)
and `next` (a sentence: what a person can do). Names at the site derive from our ids, everything that is made carries the
cluster's id as a tag, and every object is named by `steps` before any step makes it. `tests/contracts/clusters` runs unchanged
against every driver.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from gpuaas.providers.base.boots import Boots
from gpuaas.providers.base.steps import Change, Provisioner, SiteObject, StepSpec
from gpuaas.providers.base.workspace import Access, FlavorAmount, Member

if TYPE_CHECKING:
    from gpuaas.providers.base.timeline import ClusterTimeline


class ClusterKind(StrEnum):
    KUBERNETES = "kubernetes"
    SLURM = "slurm"


@dataclass(frozen=True)
class ControlPlane:
    """`count` machines without GPUs that hold the cluster together (Kubernetes' control plane, Slurm's head nodes); sizes of one."""

    count: int
    vcpus: int
    memory_gib: int
    disk_gib: int


QUEUE_LIVES = timedelta(minutes=3)  # heads report twice a minute


@dataclass(frozen=True)
class NodePool:
    """`flavor.count` workers alike. `release` is the software that they run; it may be behind the control plane's."""

    name: str
    flavor: FlavorAmount
    release: str


@dataclass(frozen=True)
class Join:
    """What machines at other sites need to become workers of a cluster: the address of its control plane, a token that admits
    workers only, and the CA (PEM) that authenticates it. Never stored, never logged."""

    endpoint: str
    token: str = field(repr=False)
    authority: str = field(default="", repr=False)


@dataclass(frozen=True)
class PoolSignals:
    """The current load of a pool. used_gpus: allocated to pods or jobs; pending_gpus: requested by waiting ones; queued: how many
    wait. A waiting pod or job that fits several pools counts at the first.

    busy: numbers of the workers with work. least: the highest number of a worker that has work or accepts it; None where that is not
    known. drain: the portal's order to drain that held at that time. unhealthy: numbers of workers that accept no work because something
    is wrong with them, each with what it is, in words.
    """

    pool: str
    used_gpus: int
    pending_gpus: int
    queued: int
    busy: tuple[int, ...] = ()
    least: int | None = None
    drain: str = ""
    unhealthy: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class QueueReport:
    """The last load report of a cluster's head, for drivers that cannot query it. Pools without workers and jobs are omitted."""

    at: datetime
    pools: tuple[PoolSignals, ...] = ()

    def is_timely(self, now: datetime) -> bool:
        return now - self.at <= QUEUE_LIVES


@dataclass(frozen=True)
class ClusterSpec:
    """The desired state of a cluster at a site. `settings`: the template's settings for the driver; `closed`: GPU names of the
    site that are in none of the pools.

    A suspended cluster has pools with no workers here; its control plane stays. At a burst site there are only pools: `join` leads
    them to the control plane, and is set whenever workers may have to be created. spans: its pools may be at other sites, now or later,
    so machines are set up to reach each other across sites; this never changes for a cluster. elsewhere: all pools at other sites than
    the control plane's, in an order that never changes, the same for each site. queue: its head's last report; set only where a driver is
    asked for signals.
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
    elsewhere: tuple[NodePool, ...] = ()
    queue: QueueReport | None = None

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
    """boots: where a driver whose machines report looks up, besides the site, whether they are ready."""

    id: uuid.UUID
    external_name: str
    boots: Boots = field(default_factory=Boots)


@dataclass(frozen=True)
class ClusterPlan:
    """The steps of one change, in order; `warnings` are sentences for the person who requests it."""

    steps: tuple[StepSpec, ...]
    warnings: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[SiteObject, ...]:
        """Each once, in the order in which they are made."""
        found = dict.fromkeys((step.site, made) for step in self.steps for made in step.makes)
        return tuple(made for _, made in found)


@dataclass(frozen=True)
class ClusterNode:
    """A machine of the cluster; pool "" = the control plane. `reason`: why it is not ready, in words."""

    name: str
    pool: str
    release: str
    ready: bool
    reason: str = ""


@dataclass(frozen=True)
class ObservedCluster:
    """exists=False: nothing of the cluster is at the site. endpoint "" = its API does not answer yet."""

    exists: bool
    endpoint: str = ""
    nodes: tuple[ClusterNode, ...] = ()


class ClusterDriver(Provisioner[ClusterSpec]):
    """Builds clusters on demand at one site. A suspended cluster has no workers, also in its spec; its control plane stays.

    timeline: the steps of each change, named with what they make."""

    kinds: frozenset[ClusterKind]
    timeline: ClassVar["type[ClusterTimeline]"]
    changes: ClassVar[Collection[Change]] = frozenset(Change) - {Change.RESIZE}

    @classmethod
    def settings_check(cls, kind: ClusterKind, settings: Mapping[str, Any]) -> None:
        """Validate a template's settings. Raises Invalid for the field `settings`."""
        del kind, settings

    @classmethod
    def flavors_check(cls, flavors: Iterable[FlavorAmount]) -> None:
        """Validate the flavors of a template's pools. Raises Invalid for the field `pools` if machines could not use their GPUs."""
        del flavors

    def steps(
        self, change: Change, spec: ClusterSpec, before: ClusterSpec | None = None
    ) -> tuple[StepSpec, ...]:
        """`before`: the last confirmed spec; what already matches needs no step. Raises Permanent for what the site cannot hold."""
        return self.timeline(spec, before).steps(change)

    def plan(self, change: Change, spec: ClusterSpec, before: ClusterSpec | None = None) -> ClusterPlan:
        """What the change would do, from the specs alone: the site is not called."""
        steps = self.steps(change, spec, before)
        return ClusterPlan(steps, tuple(self.timeline(spec, before).warnings(change)))

    @abstractmethod
    def observe(self, ref: ClusterRef) -> ObservedCluster:
        """The cluster as the site has it; exists=False (not NotFound) if there is nothing."""

    @abstractmethod
    def inventory(self, ref: ClusterRef | None = None) -> tuple[SiteObject, ...]:
        """Every object at the site with the cluster's tag, or (None) any cluster's tag; read from the site, not from a cache."""


class ClusterAccessCapability(ABC):
    """Drivers that give people short-lived personal credentials for a cluster."""

    @abstractmethod
    def access(self, spec: ClusterSpec, member: Member, *, lifetime: timedelta) -> Access:
        """Valid for at most `lifetime`. Raises NotFound if the cluster's endpoint does not answer yet."""


class ClusterRevocationCapability(ABC):
    """Drivers that can revoke a person's credentials for a cluster before they expire."""

    @abstractmethod
    def revoke(self, spec: ClusterSpec, member: Member) -> None:
        """When it returns, no credential that `access` issued to the member before is accepted any more. Idempotent."""


class ClusterSignalsCapability(ABC):
    """Drivers that can report a cluster's load; scaling policies follow it."""

    def has_signals(self, kind: ClusterKind) -> bool:
        """Whether it can report the load of clusters of this kind."""
        return kind in self.kinds

    kinds: frozenset[ClusterKind]

    @abstractmethod
    def signals(self, spec: ClusterSpec) -> tuple[PoolSignals, ...]:
        """The current load of each pool of `spec`; nothing of a cluster whose head has never reported it. Raises NotFound if the
        cluster's endpoint does not answer, or its head does not report any more."""


class ClusterNamespaceCapability(ABC):
    """Drivers whose clusters run in a namespace of a site with workspaces, guarded like them: the site's meter measures what they
    hold, and its warden enforces what their pools bought."""

    @classmethod
    @abstractmethod
    def namespace(cls, ref: ClusterRef) -> str:
        """The namespace's name, by which the workspaces' driver finds it together with the cluster's id."""


class ClusterBurstCapability(ABC):
    """Drivers whose clusters may have pools at another of their sites. There every verb takes a spec without a control plane, and
    a change that adds workers first creates what they need, such as the network."""

    @abstractmethod
    def join(self, spec: ClusterSpec) -> Join:
        """Called at the cluster's own site. Raises NotFound if its endpoint does not answer yet."""


class ClusterSchemaCapability(ABC):
    """Drivers whose site defines which parameters an order may choose."""

    @abstractmethod
    def parameters_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """JSON Schema of the order's parameters as the site defines it, without those that `settings` fill. Raises NotFound, Permanent."""

"""The changes of workspaces and clusters, each done in small named steps, by the same two verbs for both."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, TypeVar

from gpuaas.core.errors import Permanent
from gpuaas.providers.base.site import Connection
from gpuaas.providers.base.words import FromSite

Spec = TypeVar("Spec")
Found = TypeVar("Found")


class Change(StrEnum):
    """A change of a workspace or a cluster; each has its own steps."""

    CREATE = "create"  # also repairs: repeating it changes only what differs
    RESIZE = "resize"  # a workspace: other flavors, counts or storage
    SCALE = "scale"  # a cluster: other counts of its pools
    UPGRADE = "upgrade"  # a cluster: control plane and pools to their releases, a machine at a time
    SUSPEND = "suspend"  # nothing runs and no GPU is held; data, members and a cluster's control plane stay
    RESUME = "resume"
    DELETE = "delete"  # access first, then what runs, then the rest, then the verification


# these are retried for as long as it takes
TENACIOUS = frozenset({Change.SUSPEND, Change.DELETE})


@dataclass(frozen=True)
class SiteObject:
    """An object at the site that is made for one cluster. (kind, name) identifies it before it exists; uid is the site's own id.

    cluster_id: from its tag; None if the tag names no cluster.
    """

    kind: str
    name: str
    uid: str = ""
    cluster_id: uuid.UUID | None = None


@dataclass(frozen=True)
class StepSpec:
    """A step of a change; the label is what the tenant reads in the timeline.

    makes: of a cluster, every object that the step may make, so that it is stored before it exists. site: the slug of the
    burst site at which it is done; "" = the cluster's own; drivers do not set it. safety: it enforces the hard limits of a
    workspace, so it is repaired even where other drift is only observed.
    """

    key: str
    label: str
    makes: tuple[SiteObject, ...] = ()
    site: str = ""
    safety: bool = False


@dataclass(frozen=True)
class StepOutcome(FromSite):
    """done=False: the site is working on it, ask again; `detail` says what was done or what the step waits for. refused: what the
    site refused of a step that is done all the same."""

    done: bool
    detail: str = ""
    refused: str = ""


DONE = StepOutcome(done=True)


def objects_left(found: Sequence[SiteObject]) -> StepOutcome:
    """Done once there are none."""
    if not found:
        return DONE
    some = ", ".join(f"{one.kind} {one.name}" for one in found[:3])
    return StepOutcome(done=False, detail=f"{len(found)} objects still exist: {some}")


def still_going(what: str) -> StepOutcome:
    return StepOutcome(done=False, detail=f"the previous {what} is still being deleted")


def object_not_ours(kind: str, name: str, tag: str) -> Permanent:
    """An object of a name that a cluster needs belongs to somebody else. tag: that it has, "" for none."""
    return Permanent(
        f"{kind} {name} at the site is not this cluster's; the portal leaves it alone",
        detail={
            "evidence": [f"{kind}/{name} has {f'the tag {tag}' if tag else 'no tag'}"],
            "next": "Delete this cluster and order it under another name.",
        },
    )


class Provisioner(ABC, Generic[Spec]):
    """One object per call or per process, bound to one site; cheap to create, safe to drop. `changes`: those it supports."""

    name: str
    changes: ClassVar[Collection[Change]]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @abstractmethod
    def steps(self, change: Change, spec: Spec) -> tuple[StepSpec, ...]:
        """The steps of a change, in the order in which they must be done; the site is not called."""

    @abstractmethod
    def perform(self, change: Change, spec: Spec, step: str) -> StepOutcome:
        """Do or confirm one step of bringing the site to `spec`. A repeated step changes nothing; a missing object is deleted."""


def change_unknown(change: Change) -> Permanent:
    return Permanent(f"the driver does not support {change}")


def step_require(steps: Mapping[str, Found], step: str) -> Found:
    """The entry of this step. Raises Permanent for a name that the driver does not have."""
    if step not in steps:
        raise Permanent(f"the driver has no step {step!r}")
    return steps[step]

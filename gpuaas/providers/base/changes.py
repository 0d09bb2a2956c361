"""Drift, workspaces that existed before the portal, and the outcome of a node check."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpuaas.core.errors import Permanent


@dataclass(frozen=True)
class Difference:
    """One field of one of our objects that differs from the desired state; path "" = the whole object is missing.

    wanted and found are short texts for people; changed_by names who took the field last, "" where the site cannot say.
    step is the step of a creation that repairs it; "" = an object of the whole site.
    """

    object: str  # "ResourceQuota/gpuaas"
    path: str
    wanted: str
    found: str
    changed_by: str = ""
    step: str = ""


@dataclass(frozen=True)
class SiteChange:
    """One of our objects changed at the site: check that workspace again; "" = the whole site (a node, a class).

    cursor: where to resume, only on heartbeats (`proof`); "" elsewhere.
    """

    workspace_name: str = ""
    proof: bool = False
    cursor: str = ""


@dataclass(frozen=True)
class ForeignWorkspace:
    """A namespace or project at the site that is not ours and could be adopted.

    gpus = what its consumers hold now, placed = the same by node; hard = how many GPUs its own quota allows.
    """

    external_name: str
    created_at: datetime
    gpus: Mapping[str, int]
    vcpus: int
    memory_gib: int
    storage_gib: int
    consumers: int
    placed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    hard: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AdoptionStep:
    """What the adoption would do; blocking: an operator must resolve it first."""

    object: str
    action: str  # "create", "change", "remove", "keep"
    detail: str
    blocking: bool = False


def blocking_check(steps: Iterable[AdoptionStep]) -> None:
    """Raises Permanent for the first step that blocks."""
    for step in steps:
        if step.blocking:
            raise Permanent(f"{step.object}: {step.detail}")


@dataclass(frozen=True)
class NodeCheckOutcome:
    """done=False: it is running or waiting for a free device. `detail` says what was found or what it waits for.

    output is what the program printed, cut to a size that a page can show.
    """

    done: bool
    succeeded: bool = False
    running: bool = False
    detail: str = ""
    output: str = ""

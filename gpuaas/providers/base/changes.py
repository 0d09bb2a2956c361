"""What changed behind our back, what was there before us, and what a check of a node found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Difference:
    """One field of one of our objects that is not as it should be; path "" = the whole object is missing.

    wanted and found are short texts for people; changed_by names who took the field last, "" where the site cannot say.
    step is the one of `ensure` that sets it right; "" = something of the whole site.
    """

    object: str  # "ResourceQuota/gpuaas"
    path: str
    wanted: str
    found: str
    changed_by: str = ""
    step: str = ""


@dataclass(frozen=True)
class SiteChange:
    """Something of ours changed at the site: look at that workspace again; "" = at the whole site (a node, a class).

    cursor: where to resume, only on proofs of life; "" elsewhere.
    """

    workspace_name: str = ""
    proof: bool = False
    cursor: str = ""


@dataclass(frozen=True)
class ForeignWorkspace:
    """A namespace or project at the site that is not ours and could be.

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
    """What taking it over would do; blocking: an operator has to clear it away first."""

    object: str
    action: str  # "create", "change", "remove", "keep"
    detail: str
    blocking: bool = False


@dataclass(frozen=True)
class NodeCheckOutcome:
    """done=False: it runs, or still waits for a free device. `detail` says in words what was seen or is waited for.

    output is what the program printed, cut to a size that a page can show.
    """

    done: bool
    succeeded: bool = False
    running: bool = False
    detail: str = ""
    output: str = ""

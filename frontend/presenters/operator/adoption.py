"""What could be adopted at a site, and the steps of a plan: created, changed, removed, kept or blocking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend.presenters.held import url_of
from frontend.presenters.work import Work, work_of
from gpuaas.catalog.models import Site
from gpuaas.core.looks import Tone
from gpuaas.workspaces.models import Adoption
from gpuaas.workspaces.selectors import Adoptable
from gpuaas.workspaces.states import ADOPTION, AdoptionState

ACTIONS = {
    "create": (Tone.OK, "Created"),
    "change": (Tone.WAIT, "Changed"),
    "remove": (Tone.WARN, "Removed"),
    "keep": (Tone.OFF, "Kept"),
}
ORDER = {"remove": 1, "change": 2, "create": 3, "keep": 4}


@dataclass(frozen=True)
class AdoptableRow:
    name: str
    created_at: datetime
    consumers: int
    holds: str
    allowed: str
    proposed: str
    storage_gib: int
    taken: bool
    plan_url: str


@dataclass(frozen=True)
class StepRow:
    """`blocking`: has to be resolved at the site before the plan can be confirmed."""

    object: str
    detail: str
    tone: Tone
    word: str
    blocking: bool


@dataclass(frozen=True)
class PlanShown:
    adoption: Adoption
    url: str
    tone: Tone
    word: str
    moving: bool
    work: Work
    holds: str
    steps: tuple[StepRow, ...]
    summary: str
    workspace_url: str
    may_confirm: bool
    may_discard: bool

    @property
    def blocking(self) -> int:
        return sum(step.blocking for step in self.steps)


def adoptable_rows(
    site: Site, found: Sequence[Adoptable], names: Mapping[str, str]
) -> tuple[AdoptableRow, ...]:
    """`names`: display names of the resources that the site counts."""
    return tuple(_row(site, item, names) for item in found)


def _row(site: Site, item: Adoptable, names: Mapping[str, str]) -> AdoptableRow:
    found = item.found
    return AdoptableRow(
        name=found.external_name,
        created_at=found.created_at,
        consumers=found.consumers,
        holds=_amounts(found.gpus, names) or "no GPUs",
        allowed=_amounts(found.hard, names) or "no quota of its own",
        proposed=_amounts(item.proposal.items, {}) or "nothing on sale fits",
        storage_gib=found.storage_gib,
        taken=item.taken,
        plan_url=reverse("frontend:operator_adoption_new", args=[site.slug, found.external_name]),
    )


def _amounts(amounts: Mapping[str, int], names: Mapping[str, str]) -> str:
    return ", ".join(f"{count:,} × {names.get(key, key)}" for key, count in amounts.items() if count)


def plan_shown(row: Adoption, *, now: datetime) -> PlanShown:
    state = AdoptionState(row.state)
    look = ADOPTION.looks[state]
    steps = tuple(_step(step) for step in sorted(row.steps, key=_rank))
    ready = state == AdoptionState.PLANNED
    fresh = row.expires_at is not None and row.expires_at > now
    return PlanShown(
        adoption=row,
        url=reverse("frontend:operator_adoption", args=[row.site.slug, row.pk]),
        tone=Tone(look.tone),
        word=look.label,
        moving=state in {AdoptionState.PLANNING, AdoptionState.CONFIRMED},
        work=_work_of(row, state, now),
        holds=_amounts(row.items, {}),
        steps=steps,
        summary=_summary(steps),
        workspace_url=url_of(row.workspace) if row.workspace else "",
        may_confirm=ready and fresh and not any(step.blocking for step in steps),
        may_discard=AdoptionState.DISCARDED in ADOPTION.edges[state],
    )


def _work_of(row: Adoption, state: AdoptionState, now: datetime) -> Work:
    """Planning changes nothing at the site; adopting is what was confirmed."""
    asked = f"Requested by {row.requested_by.username}"
    doing = (
        ("Everything in it is looked at", "The plan is shown here")
        if state == AdoptionState.PLANNING
        else ("The steps below are done at the site", "The workspace is metered")
    )
    return work_of(row, asked, *doing, since=row.requested_at, now=now)


def _rank(step: Mapping[str, Any]) -> tuple[bool, int, str]:
    """Blocking steps first, then what is removed, changed, created, kept."""
    return not step["blocking"], ORDER.get(step["action"], 9), step["object"]


def _step(step: Mapping[str, Any]) -> StepRow:
    tone, word = ACTIONS.get(step["action"], (Tone.WAIT, str(step["action"])))
    blocking = bool(step["blocking"])
    return StepRow(
        object=step["object"],
        detail=step["detail"],
        tone=Tone.BAD if blocking else tone,
        word="Blocking" if blocking else word,
        blocking=blocking,
    )


def _summary(steps: Sequence[StepRow]) -> str:
    """`2 blocking, 3 created, 1 changed`."""
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.word.lower()] = counts.get(step.word.lower(), 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())

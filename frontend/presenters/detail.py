"""Everything on the page of one workspace, collected once per request."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend import formats
from frontend.components import Fact, Meter, Notice
from frontend.lists import some_of
from frontend.place import ProjectPlace
from frontend.presenters import (
    access,
    cost,
    drift,
    events,
    guests,
    held,
    money,
    operations,
    pods,
    tuning,
    workspaces,
)
from frontend.presenters.machines import machine_pods
from frontend.presenters.operator.sites import version_of
from frontend.presenters.pods import EvictionRow, PodRow
from frontend.presenters.rights import Rights, is_open, rights_of, why_no_resize
from frontend.presenters.sleep import Sleep, after_lease, sleep_of
from frontend.presenters.words import Words, words_of
from gpuaas.core.looks import Tone
from gpuaas.workspaces import selectors
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.roles import Permission

S = WorkspaceState
SHOWN = 10
HISTORY = "the median of the last 30 days at this site"


@dataclass(frozen=True)
class Page:
    """What `workspaces/detail.html` shows. `may` only hides buttons; the services decide."""

    tone: Tone
    word: str
    may: Rights
    drives: str
    lease_over: bool
    moving: bool
    gone: bool
    failure: Notice | None
    sleep: Sleep
    operation: operations.OperationShown | None
    meters: tuple[Meter, ...]
    bounds: tuple[dict[str, Any], ...]
    observed_at: datetime | None
    pods: tuple[PodRow, ...]
    pods_summary: str
    evictions: tuple[EvictionRow, ...]
    evictions_count: int
    drifts: tuple[drift.DriftShown, ...]
    drifts_count: int
    events: tuple[events.Event, ...]
    events_count: int
    cost: cost.CostCard | None
    access: access.AccessCard
    lent: guests.Lent | None
    setup: tuple[Fact, ...]
    conditions: tuple[held.ConditionRow, ...]
    words: Words
    command: str
    access_text: str
    delete_text: str
    delete_after: str = (
        "Its GPUs become available to others once it is deleted. Past charges stay on the statement."
    )
    after_lease: str = ""

    @property
    def pending_resize_hint(self) -> str:
        return (
            f"The resize waits for {self.words.consumers} to end. Return to the old size or choose another."
        )


def urls_of(workspace: Workspace) -> dict[str, str]:
    urls = held.urls_of(workspace, "resize", "members", "robots", "drift_check", "history", "gpus", "access")
    return urls | {"usage": reverse("frontend:intervals", args=[workspace.project.slug, workspace.pk])}


def page_of(workspace: Workspace, here: ProjectPlace, *, now: datetime) -> Page:
    tone, word = held.look_of(workspace)
    may = rights_of(workspace, here)
    removed, removed_count = some_of(selectors.evictions_of(workspace=workspace), SHOWN)
    words = words_of(workspace.site)
    rows = machine_pods(workspace, now=now) if words.machines else pods.pods_of(workspace, removed, now=now)
    evictions = pods.eviction_rows(removed, pods.gpu_names(workspace))
    return Page(
        tone=tone,
        word=word,
        may=may,
        drives=version_of(workspace.site),
        lease_over=workspace.lease_ends_at <= now,
        moving=held.is_moving(workspace),
        gone=workspace.state == S.DELETED,
        failure=_failure(workspace),
        sleep=sleep_of(workspace, rows, here),
        operation=operations.operation_of(
            selectors.timeline(workspace=workspace), now=now, history=HISTORY, may_retry=may.retry
        ),
        meters=() if workspace.state == S.DELETED else workspaces.meters_of(workspace),
        bounds=tuple(workspace.observed.get("bounds", ())),
        observed_at=_observed_at(workspace),
        pods=rows,
        pods_summary=pods.pods_summary(rows),
        evictions=evictions,
        evictions_count=removed_count,
        **_found_and_told(workspace, here, may),
        cost=_cost(workspace, here, now),
        access=access.card_of(workspace, here, manages=may.members),
        lent=guests.lent_of(workspace, here),
        setup=tuning.setup_facts(workspace),
        conditions=held.conditions_of(workspace),
        words=words,
        command=words.command.format(file=f"{workspace.name}.yaml", space=workspace.external_name),
        access_text=_access_text(workspace, here),
        delete_text=_delete_text(workspace, rows),
        after_lease=after_lease(workspace, here.zone),
    )


def _found_and_told(workspace: Workspace, here: ProjectPlace, may: Rights) -> dict[str, Any]:
    """The newest differences and events, each with how many there are."""
    drifts, drifts_count = some_of(drift.open_first(selectors.drifts_of(workspace=workspace)), SHOWN)
    told, told_count = events.events_of(workspace, with_audit=may.audit, zone=here.zone)
    return {
        "drifts": drift.drifts_shown(drifts),
        "drifts_count": drifts_count,
        "events": tuple(told),
        "events_count": told_count,
    }


def _observed_at(workspace: Workspace) -> datetime | None:
    seen = workspace.observed.get("at")
    return datetime.fromisoformat(seen) if seen else None


def _failure(workspace: Workspace) -> Notice | None:
    if workspace.state != S.FAILED:
        return None
    text = workspace.failure or "The site rejected the request."
    ways = "Try again or delete" if why_no_resize(workspace) else "Try again, resize or delete"
    return Notice(Tone.BAD, "The last change failed", f"{text} {ways} the workspace.")


def _cost(workspace: Workspace, here: ProjectPlace, now: datetime) -> cost.CostCard | None:
    if not here.can(Permission.BILLING_VIEW):
        return None
    since = formats.zoned(workspace.created_at, here.zone).date()
    with money.Unpriced():
        return cost.cost_card(workspace, now=now, zone_day=formats.day(since))
    return None


def _access_text(workspace: Workspace, here: ProjectPlace) -> str:
    if workspace.state in {S.DELETING, S.DELETED}:
        return "Access has ended."
    document = words_of(workspace.site).access
    if selectors.workspace_role(actor=here.actor, workspace=workspace) is None:
        who = (
            "Only members of the workspace"
            if here.can(Permission.WORKSPACE_ACCESS)
            else "Only members of the project"
        )
        return f"{who} can get a {document}."
    if not is_open(workspace):
        return f"You can get a {document} as soon as the workspace is ready."
    return "The credential is personal and shown once. Revoke ends it at any time."


def _delete_text(workspace: Workspace, rows: tuple[PodRow, ...]) -> str:
    parts = []
    words = words_of(workspace.site)
    if rows:
        parts.append(words.count(len(rows)))
    if gib := workspace.storage_gib + sum(row.gib for row in workspace.storage.all()):
        parts.append(f"up to {gib:,} GiB of data")
    inside = f" with {' and '.join(parts)}" if parts else ""
    return f"This deletes the {words.space} at {workspace.site.slug}{inside}."

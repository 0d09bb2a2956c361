"""Everything on the page of one workspace, put together once."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend import formats
from frontend.components import Fact, Meter, Notice, Tone
from frontend.place import ProjectPlace
from frontend.presenters import access, cost, drift, events, money, operations, pods, tuning, workspaces
from frontend.presenters.machines import machine_pods
from frontend.presenters.operator.sites import version_of
from frontend.presenters.pods import EvictionRow, PodRow
from frontend.presenters.rights import Rights, is_open, rights_of
from frontend.presenters.sleep import Sleep, after_lease, sleep_of
from frontend.presenters.words import Words, words_of
from gpuaas.core.looks import Tone as StateTone
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import drifts_of, evictions_of, grants_of, robots_of, timeline
from gpuaas.workspaces.states import WorkspaceState
from tenants.roles import Permission

S = WorkspaceState
SHOWN = 10
HISTORY = "the median of the last 30 days at this site"


@dataclass(frozen=True)
class Page:
    """What `workspaces/detail.html` draws; `may_*` hide buttons, services decide."""

    tone: StateTone
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
    observed_at: datetime | None
    pods: tuple[PodRow, ...]
    pods_said: str
    evictions: tuple[EvictionRow, ...]
    drifts: tuple[drift.DriftShown, ...]
    events: tuple[events.Event, ...]
    cost: cost.CostCard | None
    access: access.AccessCard
    setup: tuple[Fact, ...]
    conditions: tuple[workspaces.ConditionRow, ...]
    words: Words
    command: str
    access_said: str
    delete_said: str
    delete_after: str = (
        "What it held is free for others as soon as it is gone. What it cost stays on the statement."
    )
    extend_said: str = ""

    @property
    def takes_back_said(self) -> str:
        return f"It waits for {self.words.consumers} to end: go back to the old size, or choose another"


def urls_of(workspace: Workspace) -> dict[str, str]:
    slug = workspace.project.slug
    names = (
        "credential",
        "resize",
        "suspend",
        "resume",
        "extend",
        "delete",
        "retry",
        "members",
        "robots",
        "drift_check",
    )
    found = {name: reverse(f"frontend:workspace_{name}", args=[slug, workspace.pk]) for name in names}
    found["page"] = workspaces.url_of(workspace)
    found["audit"] = f"{reverse('frontend:audit', args=[slug])}?q={workspace.name}"
    found["usage"] = reverse("frontend:intervals", args=[slug, workspace.pk])
    return found


def page_of(workspace: Workspace, here: ProjectPlace, *, now: datetime) -> Page:
    tone, word = workspaces.look_of(workspace)
    may = rights_of(workspace, here)
    retry = reverse("frontend:workspace_retry", args=[here.project.slug, workspace.pk]) if may.retry else ""
    removed = list(evictions_of(workspace=workspace)[:SHOWN])
    words = words_of(workspace.site)
    found = machine_pods(workspace, now=now) if words.machines else pods.pods_of(workspace, removed, now=now)
    evictions = pods.eviction_rows(removed, pods.gpu_names(workspace))
    return Page(
        tone=tone,
        word=word,
        may=may,
        drives=version_of(workspace.site),
        lease_over=workspace.lease_ends_at <= now,
        moving=S(workspace.state) in workspaces.MOVING,
        gone=workspace.state == S.DELETED,
        failure=_failure(workspace),
        sleep=sleep_of(workspace, found, here),
        operation=operations.operation_of(
            timeline(workspace=workspace), now=now, history=HISTORY, retry_url=retry
        ),
        meters=() if workspace.state == S.DELETED else workspaces.meters_of(workspace),
        observed_at=_observed_at(workspace),
        pods=found,
        pods_said=pods.pods_said(found),
        evictions=evictions,
        drifts=drift.drifts_shown(drift.open_first(drifts_of(workspace=workspace))[:SHOWN]),
        events=events.events_of(workspace, with_audit=may.audit, zone=here.zone, evictions=evictions),
        cost=_cost(workspace, here, now),
        access=_access(workspace, here, may),
        setup=tuning.setup_facts(workspace),
        conditions=workspaces.conditions_of(workspace),
        words=words,
        command=words.command.format(file=f"{workspace.name}.yaml", space=workspace.external_name),
        access_said=_access_said(workspace, here),
        delete_said=_delete_said(workspace, found),
        extend_said=after_lease(),
    )


def _access(workspace: Workspace, here: ProjectPlace, may: Rights) -> access.AccessCard:
    return access.card_of(
        workspace,
        here,
        grants=grants_of(workspace=workspace),
        robots=robots_of(workspace=workspace),
        manages=may.members,
    )


def _observed_at(workspace: Workspace) -> datetime | None:
    seen = workspace.observed.get("at")
    return datetime.fromisoformat(seen) if seen else None


def _failure(workspace: Workspace) -> Notice | None:
    if workspace.state != S.FAILED:
        return None
    text = workspace.failure or "The site refused it."
    return Notice(Tone.BAD, "It was not done", f"{text} Try again, change it, or delete it.")


def _cost(workspace: Workspace, here: ProjectPlace, now: datetime) -> cost.CostCard | None:
    if not here.can(Permission.BILLING_VIEW):
        return None
    since = formats.zoned(workspace.created_at, here.zone).date()
    with money.Unpriced():
        return cost.cost_card(workspace, now=now, zone_day=formats.day(since))
    return None


def _access_said(workspace: Workspace, here: ProjectPlace) -> str:
    if workspace.state in {S.DELETING, S.DELETED}:
        return "Access has ended."
    document = words_of(workspace.site).access
    if not access.may_access(list(workspace.members.all()), here):
        what = (
            "A member of the workspace"
            if here.can(Permission.WORKSPACE_ACCESS)
            else "A member of the project"
        )
        return f"{what} can take a {document}; you are not one."
    if not is_open(workspace):
        return f"You can take a {document} as soon as it is ready."
    return "Yours alone, shown once, and ended at any time by Revoke."


def _delete_said(workspace: Workspace, found: tuple[PodRow, ...]) -> str:
    parts = []
    words = words_of(workspace.site)
    if found:
        parts.append(words.count(len(found)))
    if workspace.storage_gib:
        parts.append(f"up to {workspace.storage_gib:,} GiB of data")
    inside = f" with {' and '.join(parts)}" if parts else ""
    return f"Deletes the {words.space} at {workspace.site.slug}{inside}."

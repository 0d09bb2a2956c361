"""Everything on the page of one workspace, put together once."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend import formats
from frontend.components import Meter, Notice, Tone
from frontend.place import ProjectPlace
from frontend.presenters import cost, events, money, workspaces
from gpuaas.core.looks import Tone as StateTone
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.selectors import timeline
from gpuaas.workspaces.states import AccessRole, WorkspaceState
from tenants.roles import Permission

S = WorkspaceState
OPEN_TO_ACCESS = frozenset({S.READY, S.RESIZING})


@dataclass(frozen=True)
class Member:
    user: Any
    get_role_display: str
    remove_url: str


@dataclass(frozen=True)
class Page:
    """What `workspaces/detail.html` draws; `may_*` hide buttons, services decide."""

    tone: StateTone
    word: str
    moving: bool
    gone: bool
    failure: Notice | None
    operation: workspaces.OperationShown | None
    meters: tuple[Meter, ...]
    observed_at: datetime | None
    pods: tuple[workspaces.PodRow, ...]
    pods_said: str
    events: tuple[events.Event, ...]
    cost: cost.CostCard | None
    members: tuple[Member, ...]
    conditions: tuple[workspaces.ConditionRow, ...]
    command: str
    access_said: str
    delete_said: str
    resize_reason: str
    may_change: bool
    may_retry: bool
    may_resize: bool
    may_extend: bool
    may_delete: bool
    may_access: bool
    may_members: bool
    may_audit: bool
    delete_after: str = (
        "What it held is free for others as soon as it is gone. What it cost stays on the statement."
    )
    extend_said: str = "What it costs until then is on this page."


def urls_of(workspace: Workspace) -> dict[str, str]:
    slug = workspace.project.slug
    names = ("kubeconfig", "resize", "extend", "delete", "retry", "members")
    found = {name: reverse(f"frontend:workspace_{name}", args=[slug, workspace.pk]) for name in names}
    found["page"] = workspaces.url_of(workspace)
    found["audit"] = f"{reverse('frontend:audit', args=[slug])}?q={workspace.name}"
    found["usage"] = reverse("frontend:intervals", args=[slug, workspace.pk])
    return found


def page_of(workspace: Workspace, here: ProjectPlace, *, now: datetime) -> Page:
    state = S(workspace.state)
    tone, word = workspaces.look_of(workspace)
    may_change = here.can(Permission.WORKSPACE_CREATE)
    pods = workspaces.pods_of(workspace, now=now)
    may_retry = may_change and state == S.FAILED
    retry = reverse("frontend:workspace_retry", args=[here.project.slug, workspace.pk]) if may_retry else ""
    members = tuple(workspace.members.all())
    open_to_access = state in OPEN_TO_ACCESS or (state == S.FAILED and workspace.ready_at is not None)
    let_in = may_access(members, here)
    audit = here.can(Permission.AUDIT_VIEW)
    leaving = state in {S.DELETING, S.DELETED}
    return Page(
        tone=tone,
        word=word,
        moving=state in workspaces.MOVING,
        gone=state == S.DELETED,
        failure=_failure(workspace),
        operation=workspaces.operation_of(timeline(workspace=workspace), now=now, retry_url=retry),
        meters=() if state == S.DELETED else workspaces.meters_of(workspace),
        observed_at=_observed_at(workspace),
        pods=pods,
        pods_said=workspaces.pods_said(pods),
        events=events.events_of(workspace, with_audit=audit, zone=here.zone),
        cost=_cost(workspace, here, now),
        members=tuple(_member(workspace, row) for row in members),
        conditions=workspaces.conditions_of(workspace),
        command=f"kubectl --kubeconfig {workspace.name}.yaml -n {workspace.external_name} get pods",
        access_said=_access_said(workspace, here, let_in=let_in, open_now=open_to_access),
        delete_said=_delete_said(workspace, pods),
        resize_reason="" if state in {S.READY, S.FAILED} else f"one change at a time: it is {word.lower()}",
        may_change=may_change,
        may_retry=may_retry,
        may_resize=may_change and workspace.ready_at is not None and state in {S.READY, S.FAILED},
        may_extend=may_change and not leaving,
        may_delete=may_change and not leaving,
        may_access=open_to_access and let_in,
        may_members=may_manage_members(members, here) and not leaving,
        may_audit=audit,
    )


def _observed_at(workspace: Workspace) -> datetime | None:
    seen = workspace.observed.get("at")
    return datetime.fromisoformat(seen) if seen else None


def may_access(members: tuple[WorkspaceMember, ...], here: ProjectPlace) -> bool:
    named = any(row.user_id == here.user.pk for row in members)
    return here.can(Permission.WORKSPACE_ACCESS) and (named or here.can(Permission.PROJECT_MANAGE))


def may_manage_members(members: tuple[WorkspaceMember, ...], here: ProjectPlace) -> bool:
    admin = any(row.user_id == here.user.pk and row.role == AccessRole.ADMIN for row in members)
    return here.can(Permission.WORKSPACE_CREATE) and (admin or here.can(Permission.PROJECT_MANAGE))


def _member(workspace: Workspace, row: WorkspaceMember) -> Member:
    url = reverse(
        "frontend:workspace_member_remove", args=[workspace.project.slug, workspace.pk, row.user_id]
    )
    return Member(row.user, row.get_role_display(), url)


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


def _access_said(workspace: Workspace, here: ProjectPlace, *, let_in: bool, open_now: bool) -> str:
    if workspace.state in {S.DELETING, S.DELETED}:
        return "Access has ended."
    if not let_in:
        what = (
            "A member of the workspace"
            if here.can(Permission.WORKSPACE_ACCESS)
            else "A member of the project"
        )
        return f"{what} can take a kubeconfig; you are not one."
    return (
        "Yours alone, valid 8 hours, shown once."
        if open_now
        else "You can take a kubeconfig as soon as it is ready."
    )


def _delete_said(workspace: Workspace, pods: tuple[workspaces.PodRow, ...]) -> str:
    parts = []
    if pods:
        parts.append(f"{len(pods)} pod{'s' if len(pods) != 1 else ''}")
    if workspace.storage_gib:
        parts.append(f"up to {workspace.storage_gib:,} GiB of data")
    inside = f" with {' and '.join(parts)}" if parts else ""
    return f"Deletes the namespace at {workspace.site.slug}{inside}."

"""Reads of workspaces, limited to what the actor may see: an outsider gets NotFound."""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Prefetch, Q, QuerySet
from django.db.models.functions import Extract

from gpuaas.catalog.models import Node, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.clock import now
from gpuaas.core.percentiles import Percentile
from gpuaas.core.rows import first_of
from gpuaas.lifecycle.grants import grantee_of
from gpuaas.lifecycle.operations import StepState
from gpuaas.lifecycle.selectors import seen_by
from gpuaas.lifecycle.visits import PROGRESSING
from gpuaas.providers.base import ForeignWorkspace
from gpuaas.workspaces.adoption_plan import Proposal, found_read, propose
from gpuaas.workspaces.models import (
    AccessGrant,
    Adoption,
    AdoptionScan,
    Drift,
    Eviction,
    Operation,
    Robot,
    Step,
    Workspace,
    WorkspaceFlavor,
    WorkspaceMember,
    WorkspaceStorage,
)
from gpuaas.workspaces.states import (
    CHECKS_PER_SECOND,
    LIVE,
    LOOKED_AT,
    AccessRole,
    DriftState,
    OperationKind,
    WorkspaceState,
)
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require, projects_for

HISTORY = timedelta(days=30)
COMPARED = "site.drift_check"  # the action of who asked for all of a site to be compared
FINISHED_STEPS = frozenset({StepState.DONE})
IN_USE = "InUse"  # its reason: the site has all that was asked, the tenant still uses more
RANK = {AccessRole.VIEW: 0, AccessRole.EDIT: 1, AccessRole.ADMIN: 2}


@dataclass(frozen=True)
class StepView:
    """A step with its duration so far, and its usual duration at this site (None = no history)."""

    step: Step
    usual_seconds: float | None


@dataclass(frozen=True)
class OperationView:
    operation: Operation
    steps: tuple[StepView, ...]

    @property
    def remaining_seconds(self) -> float | None:
        """The usual total duration of the open steps; None if a step has no history yet."""
        usual = [view.usual_seconds for view in self.steps if view.step.state not in FINISHED_STEPS]
        known = [seconds for seconds in usual if seconds is not None]
        return sum(known) if len(known) == len(usual) else None


def workspaces_seen(*, actor: Actor, project: Project) -> QuerySet[Workspace]:
    """Those of one project, if the actor may see them, without anything else of them."""
    seen = projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW).order_by()
    return Workspace.objects.filter(project__in=seen).filter(project=project)


def workspaces_for(
    *,
    actor: Actor,
    project: Project | None = None,
    site: Site | None = None,
    states: Iterable[WorkspaceState] | None = None,
    search: str = "",
) -> QuerySet[Workspace]:
    """Workspaces that the actor may see, newest first; everything that a list shows costs 5 queries at any length."""
    also, rows = Q(adopted_name__istartswith=search), workspaces_loaded()
    rows = seen_by(actor, rows, project=project, states=states, search=search, also=also)
    return rows.filter(site=site) if site is not None else rows


def workspace_role(*, actor: Actor, workspace: Workspace) -> AccessRole | None:
    """The person's role inside: members whose role in the project allows it, and those who manage the project as
    admin.

    None = no access. A platform role alone does not give access to a tenant's workspace: one of its admins has to add
    the operator.
    """
    project = workspace.project
    if Permission.WORKSPACE_ACCESS not in actor.on_project(project.pk, project.organization_id):
        return None
    if Permission.PROJECT_MANAGE in actor.as_tenant(project.organization_id, project.pk):
        return AccessRole.ADMIN
    named = (AccessRole(row.role) for row in workspace.members.all() if actor.owns(row.user_id))
    return next(named, None)


def robot_can_issue(*, actor: Actor, workspace: Workspace, robot: Robot) -> bool:
    """Whether the actor's own role in the workspace is at least that of the service account."""
    own = workspace_role(actor=actor, workspace=workspace)
    return own is not None and RANK[own] >= RANK[AccessRole(robot.role)]


def name_is_taken(*, project: Project, name: str) -> bool:
    """For forms that validate before submission; the database decides."""
    rows = Workspace.objects.filter(project=project, name=name)
    return rows.exclude(state=WorkspaceState.DELETED).exists()


def workspaces_known(ids: Collection[uuid.UUID]) -> frozenset[uuid.UUID]:
    """Those of the ids that are of workspaces and not deleted."""
    return frozenset(Workspace.objects.filter(pk__in=ids, state__in=LIVE).values_list("pk", flat=True))


def workspaces_loaded() -> QuerySet[Workspace]:
    """With everything that pages and serializers use."""
    flavors = WorkspaceFlavor.objects.select_related("flavor__pool__gpu_type").order_by("flavor__slug")
    flavors = flavors.exclude(count=0, confirmed=0)  # what was given back stays only for late usage
    storage = WorkspaceStorage.objects.select_related("storage_class").order_by("storage_class__slug")
    storage = storage.exclude(gib=0, confirmed=0)
    members = WorkspaceMember.objects.select_related("user").order_by("user__username")
    return Workspace.objects.select_related("project__organization", "site", "created_by").prefetch_related(
        Prefetch("flavors", queryset=flavors),
        Prefetch("storage", queryset=storage),
        Prefetch("members", queryset=members),
    )


def workspace_get_for(
    *,
    actor: Actor,
    workspace_id: uuid.UUID,
    permission: Permission = Permission.WORKSPACE_VIEW,
    own: bool = False,
) -> Workspace:
    """NotFound for an outsider, Forbidden for somebody of the project who may not do this.

    own: the actor acts on things of their own (`tenants.selectors.project_require`).
    """
    workspace = first_of(workspaces_loaded().filter(pk=workspace_id), "workspace")
    workspace_require(actor=actor, workspace=workspace, permission=permission, own=own)
    return workspace


def workspace_require(
    *, actor: Actor, workspace: Workspace, permission: Permission, own: bool = False
) -> None:
    place = workspace.project
    project_require(actor=actor, project=place, permission=permission, noun="workspace", own=own)


def resize_waits(*, workspace: Workspace) -> bool:
    """Every step of its resize is done, and it only waits for surplus to end: it can be taken back."""
    if workspace.state != WorkspaceState.RESIZING:
        return False
    if workspace.conditions.get(PROGRESSING, {}).get("reason") != IN_USE:
        return False
    open_steps = Step.objects.filter(operation__workspace=workspace, operation__finished_at__isnull=True)
    return not open_steps.exclude(state=StepState.DONE).exists()


def step_durations(*, site_id: uuid.UUID) -> dict[tuple[str, str], float]:
    """Median seconds by (operation kind, step key) at a site over the last 30 days; 1 query."""
    rows = (
        Step.objects.filter(
            operation__workspace__site=site_id,
            state=StepState.DONE,
            started_at__gte=now() - HISTORY,
            finished_at__isnull=False,
        )
        .order_by()
        .values("operation__kind", "key")
        .annotate(median=Percentile(Extract(F("finished_at") - F("started_at"), "epoch"), fraction=0.5))
    )
    return {(row["operation__kind"], row["key"]): float(row["median"]) for row in rows}


def grants_of(*, workspace: Workspace) -> QuerySet[AccessGrant]:
    """Every issued credential, newest first; `standing` is its present state."""
    return AccessGrant.objects.filter(workspace=workspace).select_related("user", "robot").order_by("-pk")


def grantee_get(*, workspace: Workspace, username: str = "", user_id: uuid.UUID | None = None) -> User:
    return grantee_of(workspace.grants.filter(user__isnull=False), username=username, user_id=user_id)


def robots_of(*, workspace: Workspace) -> QuerySet[Robot]:
    return Robot.objects.filter(workspace=workspace, deleted_at__isnull=True).order_by("name")


def robot_get(*, workspace: Workspace, name: str) -> Robot:
    robot = robots_of(workspace=workspace).select_related("workspace__project", "workspace__site")
    return first_of(robot.filter(name=name), "service account")


def timeline(*, workspace: Workspace) -> list[OperationView]:
    """All operations, newest first, each with its steps; 3 queries."""
    usual = step_durations(site_id=workspace.site_id)
    return [
        OperationView(
            operation,
            tuple(StepView(step, usual.get((operation.kind, step.key))) for step in operation.steps.all()),
        )
        for operation in workspace.operations.prefetch_related("steps")
    ]


def estimate(*, site: Site, kind: OperationKind = OperationKind.CREATE) -> float | None:
    """Usual duration of such an operation at the site in seconds; None without history."""
    usual = [seconds for (held, _), seconds in step_durations(site_id=site.pk).items() if held == kind]
    return sum(usual) if usual else None


@dataclass(frozen=True)
class Adoptable:
    """A candidate of the site's last scan with its proposal; `taken`: a workspace has adopted it since."""

    found: ForeignWorkspace
    proposal: Proposal
    taken: bool


def adoption_scan_get_for(*, actor: Actor, site: Site) -> AdoptionScan | None:
    """The last scan of a site, for operators and auditors; None if none was requested."""
    platform_require(actor=actor)
    return AdoptionScan.objects.filter(site=site).select_related("site").first()


def adoptables_of(*, actor: Actor, scan: AdoptionScan) -> list[Adoptable]:
    """The candidates of the scan, each with a proposal; 3 queries."""
    flavors = list(flavors_for(actor=actor, site=scan.site.slug))
    pools: dict[str, set[uuid.UUID]] = {}
    rows = Node.objects.filter(site=scan.site_id, pool__isnull=False)
    for name, pool_id in rows.values_list("name", "pool_id"):
        if pool_id is not None:
            pools.setdefault(name, set()).add(pool_id)
    nodes = {name: frozenset(found) for name, found in pools.items()}
    live = Workspace.objects.filter(site=scan.site_id, state__in=LIVE).exclude(adopted_name="")
    taken = set(live.values_list("adopted_name", flat=True))
    return [
        Adoptable(found, propose(found, flavors, nodes), found.external_name in taken)
        for found in map(found_read, scan.found)
    ]


def adoptions_for(*, actor: Actor, site: Site | None = None) -> QuerySet[Adoption]:
    """Plans and their results, newest first, for operators and auditors; 1 query."""
    platform_require(actor=actor)
    rows = Adoption.objects.select_related("site", "project__organization", "workspace", "requested_by")
    return rows.filter(site=site) if site is not None else rows


def adoption_get_for(*, actor: Actor, adoption_id: uuid.UUID) -> Adoption:
    return first_of(adoptions_for(actor=actor).filter(pk=adoption_id), "adoption")


def evictions_of(*, workspace: Workspace) -> QuerySet[Eviction]:
    """What the warden removed from it, newest first. The caller has checked access."""
    return workspace.evictions.all()


def drifts_of(*, workspace: Workspace) -> QuerySet[Drift]:
    """Newest first."""
    return workspace.drifts.select_related("workspace__project", "workspace__site")


def drifts_at(*, site: Site, state: DriftState | None = None) -> QuerySet[Drift]:
    """Of all workspaces of a site, newest first."""
    rows = Drift.objects.filter(workspace__site=site).select_related("workspace__project", "workspace__site")
    return rows if state is None else rows.filter(state=state)


@dataclass(frozen=True)
class Comparison:
    """Of all workspaces of a site, as somebody asked for it: when, of how many, and how many are left."""

    since: datetime
    total: int
    left: int

    @property
    def done(self) -> int:
        return self.total - self.left


def comparison_at(*, site: Site) -> Comparison | None:
    """The last one that was asked for; None when all of it is done."""
    rows = AuditEntry.objects.filter(action=COMPARED, target_id=str(site.pk))
    asked = rows.values_list("at", "after__workspaces").first()
    if asked is None or not asked[1]:
        return None
    since, total = asked
    spread = since + timedelta(seconds=total / CHECKS_PER_SECOND)
    due = Workspace.objects.filter(site=site, state__in=LOOKED_AT, drift_due_at__lte=spread)
    left = min(due.count(), total)
    return Comparison(since, total, left) if left else None


def drift_get_for(*, actor: Actor, drift_id: uuid.UUID) -> Drift:
    """For operators and auditors; nobody else can look up a drift by its id."""
    platform_require(actor=actor)
    return first_of(
        Drift.objects.select_related("workspace__project", "workspace__site").filter(pk=drift_id), "drift"
    )

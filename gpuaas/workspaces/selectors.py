"""Reads of workspaces, scoped by the actor: an outsider finds nothing."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Prefetch, QuerySet
from django.db.models.functions import Extract

from gpuaas.catalog.models import Node, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.clock import now
from gpuaas.core.errors import NotFound
from gpuaas.core.percentiles import Percentile
from gpuaas.core.visits import PROGRESSING
from gpuaas.providers.base import ForeignWorkspace
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
)
from gpuaas.workspaces.states import LIVE, DriftState, OperationKind, StepState, WorkspaceState
from gpuaas.workspaces.takeover import Proposal, found_read, propose
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import platform_require, project_require, projects_for

HISTORY = timedelta(days=30)
FINISHED_STEPS = frozenset({StepState.DONE})
IN_USE = "InUse"  # its reason: the site has all that was asked, the tenant still uses more


@dataclass(frozen=True)
class StepView:
    """A step with how long it took or has run, and how long it usually takes at this site (None = no history)."""

    step: Step
    usual_seconds: float | None


@dataclass(frozen=True)
class OperationView:
    operation: Operation
    steps: tuple[StepView, ...]

    @property
    def remaining_seconds(self) -> float | None:
        """What the open steps usually take together; None where a step has no history yet."""
        usual = [view.usual_seconds for view in self.steps if view.step.state not in FINISHED_STEPS]
        known = [seconds for seconds in usual if seconds is not None]
        return sum(known) if len(known) == len(usual) else None


def workspaces_for(
    *,
    actor: Actor,
    project: Project | None = None,
    site: Site | None = None,
    states: Iterable[WorkspaceState] | None = None,
    search: str = "",
) -> QuerySet[Workspace]:
    """Workspaces that the actor may see, newest first; everything that a list shows costs 4 queries at any length."""
    rows = workspaces_loaded().filter(
        project__in=projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW).order_by()
    )
    if project is not None:
        rows = rows.filter(project=project)
    if site is not None:
        rows = rows.filter(site=site)
    if states is not None:
        rows = rows.filter(state__in=list(states))
    if search:
        rows = rows.filter(name__icontains=search)
    return rows


def workspaces_loaded() -> QuerySet[Workspace]:
    """With all that pages and serializers touch."""
    flavors = WorkspaceFlavor.objects.select_related("flavor__pool__gpu_type").order_by("flavor__slug")
    flavors = flavors.exclude(count=0, confirmed=0)  # what was given back stays only for late usage
    members = WorkspaceMember.objects.select_related("user").order_by("user__username")
    return Workspace.objects.select_related("project__organization", "site", "created_by").prefetch_related(
        Prefetch("flavors", queryset=flavors), Prefetch("members", queryset=members)
    )


def workspace_get_for(
    *, actor: Actor, workspace_id: uuid.UUID, permission: Permission = Permission.WORKSPACE_VIEW
) -> Workspace:
    """NotFound for an outsider, Forbidden for somebody of the project who may not do this."""
    workspace = workspaces_loaded().filter(pk=workspace_id).first()
    if workspace is None:
        raise NotFound("there is no such workspace")
    workspace_require(actor=actor, workspace=workspace, permission=permission)
    return workspace


def workspace_require(*, actor: Actor, workspace: Workspace, permission: Permission) -> None:
    project_require(actor=actor, project=workspace.project, permission=permission, noun="workspace")


def operation_open_of(*, workspace: Workspace) -> Operation | None:
    return workspace.operations.filter(finished_at__isnull=True).first()


def resize_waits(*, workspace: Workspace) -> bool:
    """Every step of its resize is done and all that is missing is that what is too much ends: it can be taken back."""
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
    """Every credential that was issued, newest first; `grants.grant_standing` says what has become of one."""
    return AccessGrant.objects.filter(workspace=workspace).select_related("user", "robot").order_by("-pk")


def grantee_get(*, workspace: Workspace, username: str) -> User:
    """Somebody to whom a credential was issued. Raises NotFound for anybody else, whether there is one or not."""
    people = workspace.grants.filter(user__isnull=False).values("user")
    found = User.objects.filter(pk__in=people, username=username).first()
    if found is None:
        raise NotFound("nothing was issued to anybody of this name")
    return found


def robots_of(*, workspace: Workspace) -> QuerySet[Robot]:
    return Robot.objects.filter(workspace=workspace, deleted_at__isnull=True).order_by("name")


def robot_get(*, workspace: Workspace, name: str) -> Robot:
    robot = robots_of(workspace=workspace).select_related("workspace__project", "workspace__site")
    found = robot.filter(name=name).first()
    if found is None:
        raise NotFound("there is no such service account")
    return found


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
    """Seconds that such an operation usually takes at the site; None without history."""
    usual = [seconds for (held, _), seconds in step_durations(site_id=site.pk).items() if held == kind]
    return sum(usual) if usual else None


@dataclass(frozen=True)
class Adoptable:
    """One that the last look at a site found, with what to propose for it; `taken` by a workspace since."""

    found: ForeignWorkspace
    proposal: Proposal
    taken: bool


def adoption_scan_get_for(*, actor: Actor, site: Site) -> AdoptionScan | None:
    """The last look at what could be taken over there, for operators and auditors; None where none was asked for."""
    platform_require(actor=actor)
    return AdoptionScan.objects.filter(site=site).select_related("site").first()


def adoptables_of(*, actor: Actor, scan: AdoptionScan) -> list[Adoptable]:
    """What the look found, each with a proposal; 3 queries."""
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
    """Plans and what became of them, newest first, for operators and auditors; 1 query."""
    platform_require(actor=actor)
    rows = Adoption.objects.select_related("site", "project__organization", "workspace", "requested_by")
    return rows.filter(site=site) if site is not None else rows


def adoption_get_for(*, actor: Actor, adoption_id: uuid.UUID) -> Adoption:
    found = adoptions_for(actor=actor).filter(pk=adoption_id).first()
    if found is None:
        raise NotFound("there is no such adoption")
    return found


def evictions_of(*, workspace: Workspace) -> QuerySet[Eviction]:
    """What the warden removed from it, newest first. The caller has checked who asks."""
    return workspace.evictions.all()


def drifts_of(*, workspace: Workspace) -> QuerySet[Drift]:
    """Newest first."""
    return workspace.drifts.select_related("workspace__project", "workspace__site")


def drifts_at(*, site: Site, state: DriftState | None = None) -> QuerySet[Drift]:
    """Of all workspaces of a site, newest first."""
    rows = Drift.objects.filter(workspace__site=site).select_related("workspace__project", "workspace__site")
    return rows if state is None else rows.filter(state=state)


def drift_get_for(*, actor: Actor, drift_id: uuid.UUID) -> Drift:
    """For operators and auditors; nobody else knows of drifts by their id."""
    platform_require(actor=actor)
    drift = Drift.objects.select_related("workspace__project", "workspace__site").filter(pk=drift_id).first()
    if drift is None:
        raise NotFound("there is no such drift")
    return drift

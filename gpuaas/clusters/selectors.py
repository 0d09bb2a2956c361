"""Reads of templates and clusters, limited to what the actor may see: an outsider gets NotFound."""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Exists, F, OuterRef, Prefetch, Q, QuerySet, Sum
from django.db.models.functions import Extract

from gpuaas.catalog.models import Flavor
from gpuaas.clusters.definition import Definition, definition_read
from gpuaas.clusters.models import (
    Cluster,
    ClusterGrant,
    ClusterJob,
    ClusterLogin,
    ClusterOperation,
    ClusterOperationStep,
    ClusterPool,
    ClusterTemplate,
    LedgerEntry,
    ScalingDecision,
    ScalingPolicy,
    TemplateGrant,
    TemplateVersion,
)
from gpuaas.clusters.releases import STEP_MAX, release_order
from gpuaas.clusters.states import JOB_OPEN, LIVE, ClusterState, TemplateState
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, NotFound
from gpuaas.core.percentiles import Percentile
from gpuaas.core.rows import first_of
from gpuaas.lifecycle.grants import grantee_of
from gpuaas.lifecycle.operations import StepState
from gpuaas.lifecycle.selectors import seen_by
from tenants.actors import SYSTEM, Actor
from tenants.models import OrganizationMembership, Project, ProjectMembership, User
from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    Permission,
    roles_with,
)
from tenants.selectors import platform_require, project_require

ENTER_PROJECT = roles_with(PROJECT_PERMISSIONS, Permission.WORKSPACE_ACCESS)
HISTORY = timedelta(days=90)
ORDERED = (TemplateState.ACTIVE, TemplateState.DEPRECATED)


@dataclass(frozen=True)
class Usual:
    """Duration of earlier operations in seconds: the median and the 90th percentile."""

    median: float
    p90: float
    samples: int


@dataclass(frozen=True)
class StepView:
    step: ClusterOperationStep
    usual: Usual | None

    @property
    def usual_seconds(self) -> float | None:
        return self.usual.median if self.usual else None


@dataclass(frozen=True)
class OperationView:
    """remaining_seconds: the usual total duration of the open steps; None if one has no history."""

    operation: ClusterOperation
    steps: tuple[StepView, ...]

    @property
    def remaining_seconds(self) -> float | None:
        usual = [view.usual for view in self.steps if view.step.state != StepState.DONE]
        known = [each.median for each in usual if each is not None]
        return sum(known) if len(known) == len(usual) else None


# -- templates --------------------------------------------------------------------------------------------------------


def templates_all(*, actor: Actor) -> QuerySet[ClusterTemplate]:
    """For operators and auditors, drafts and retired ones included."""
    platform_require(actor=actor)
    rows = ClusterTemplate.objects.select_related("site")
    return rows.prefetch_related("versions", "grants__organization")


def versions_of(*, template: ClusterTemplate) -> QuerySet[TemplateVersion]:
    """Newest first."""
    return TemplateVersion.objects.filter(template=template).select_related("template__site")


def template_get(*, actor: Actor, slug: str) -> ClusterTemplate:
    return first_of(templates_all(actor=actor).filter(slug=slug), "template")


def templates_for(*, actor: Actor, project: Project) -> QuerySet[ClusterTemplate]:
    """What can be ordered in the project: active and deprecated templates that are public or granted to its
    organization."""
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
    return _offered(project)


def _offered(project: Project) -> QuerySet[ClusterTemplate]:
    mine = TemplateGrant.objects.filter(template=OuterRef("pk"), organization=project.organization_id)
    rows = ClusterTemplate.objects.filter(Q(public=True) | Exists(mine), state__in=ORDERED)
    return rows.select_related("site").prefetch_related("versions").order_by("slug")


def template_get_for(*, actor: Actor, project: Project, slug: str) -> ClusterTemplate:
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
    return template_offered(project=project, slug=slug)


def template_offered(*, project: Project, slug: str) -> ClusterTemplate:
    """For those who may order there."""
    return first_of(_offered(project).filter(slug=slug), "template")


def template_version_get(*, template: ClusterTemplate, number: int | None = None) -> TemplateVersion:
    """The newest if no number is given."""
    rows = TemplateVersion.objects.filter(template=template).select_related("template__site")
    found = (rows if number is None else rows.filter(number=number)).first()
    if found is None:
        raise NotFound("the template has no such version")
    return found


def definition_of(version: TemplateVersion) -> Definition:
    return definition_read(version.document, kind=version.template.kind)


def burst_places(*, definition: Definition) -> dict[str, str]:
    """By flavor the burst site of its workers; 1 query, none without burst."""
    if not definition.burst:
        return {}
    rows = Flavor.objects.filter(pool__site__slug__in=definition.burst)
    return dict(rows.values_list("slug", "pool__site__slug"))


# -- clusters ---------------------------------------------------------------------------------------------------------


def clusters_known(ids: Collection[uuid.UUID]) -> frozenset[uuid.UUID]:
    """Those of the ids that are of clusters and not deleted."""
    return frozenset(Cluster.objects.filter(pk__in=ids, state__in=LIVE).values_list("pk", flat=True))


def clusters_loaded() -> QuerySet[Cluster]:
    """With everything that pages and serializers use."""
    pools = ClusterPool.objects.select_related("flavor__pool__gpu_type", "flavor__pool__site").order_by("pk")
    rows = Cluster.objects.select_related(
        "project__organization", "site", "template_version__template", "created_by"
    )
    return rows.prefetch_related(Prefetch("pools", queryset=pools))


def name_is_taken(*, project: Project, name: str) -> bool:
    """For forms that validate before submission; the database decides."""
    rows = Cluster.objects.filter(project=project, name=name)
    return rows.exclude(state=ClusterState.DELETED).exists()


def clusters_for(
    *,
    actor: Actor,
    project: Project | None = None,
    states: Iterable[str] | None = None,
    template: str = "",
    site: str = "",
    search: str = "",
) -> QuerySet[Cluster]:
    """Those that the actor may see, newest first; template and site by their slugs, search in the name."""
    rows = seen_by(actor, clusters_loaded(), project=project, states=states, search=search)
    if template:
        rows = rows.filter(template_version__template__slug=template)
    return rows.filter(site__slug=site) if site else rows


def cluster_get_for(
    *,
    actor: Actor,
    cluster_id: uuid.UUID,
    permission: Permission = Permission.WORKSPACE_VIEW,
    own: bool = False,
) -> Cluster:
    """NotFound for an outsider, Forbidden for somebody of the project who may not do this.

    own: the actor acts on things of their own (`tenants.selectors.project_require`).
    """
    found = first_of(clusters_loaded().filter(pk=cluster_id), "cluster")
    cluster_require(actor=actor, cluster=found, permission=permission, own=own)
    return found


def cluster_require(*, actor: Actor, cluster: Cluster, permission: Permission, own: bool = False) -> None:
    """Only the portal may touch a cluster in a warm pool: anybody with access could keep a key to a later tenant's
    cluster."""
    project_require(actor=actor, project=cluster.project, permission=permission, noun="cluster", own=own)
    if cluster.is_waiting and permission is not Permission.WORKSPACE_VIEW and actor is not SYSTEM:
        raise Conflict("this cluster is in a warm pool and not claimed; change the warm pool instead")


def releases_offered(*, cluster: Cluster) -> tuple[str, ...]:
    """The releases to which it can be upgraded now, by the newest version of its template; its present one if a pool
    is behind."""
    definition = definition_of(template_version_get(template=cluster.template_version.template))
    held = release_order(definition.kind, cluster.release)
    behind = any(pool.release != cluster.release for pool in cluster.pools.all())
    return tuple(
        release
        for release in definition.releases
        if (behind if release == cluster.release else release_order(definition.kind, release) > held)
        and release_order(definition.kind, release)[0] - held[0] <= STEP_MAX[definition.kind]
    )


def ledger_of(*, cluster: Cluster) -> QuerySet[LedgerEntry]:
    """Every object that was ever made for it, in the order of recording."""
    rows = LedgerEntry.objects.filter(cluster=cluster).select_related("site", "cluster__site")
    return rows.order_by("pk")


def ledger_orphans(*, actor: Actor) -> QuerySet[LedgerEntry]:
    """For operators: what clusters being deleted, or deleted, may still have at their sites, without a proof that it
    is gone."""
    platform_require(actor=actor)
    rows = LedgerEntry.objects.filter(
        gone_at=None, cluster__state__in=[ClusterState.DELETING, ClusterState.DELETED]
    )
    return rows.select_related("cluster__project__organization", "cluster__site", "site").order_by("pk")


# -- credentials ------------------------------------------------------------------------------------------------------


def grants_of(*, cluster: Cluster) -> QuerySet[ClusterGrant]:
    """Every issued credential, newest first."""
    return ClusterGrant.objects.filter(cluster=cluster).select_related("user").order_by("-pk")


def grants_open(*, cluster_id: uuid.UUID) -> QuerySet[ClusterGrant]:
    """Neither ended nor expired."""
    return ClusterGrant.objects.filter(cluster=cluster_id, revoked_at=None, expires_at__gt=now())


def grants_lost() -> QuerySet[ClusterGrant]:
    """Open ones of people who may no longer have credentials in the project: a lost or lower role, a disabled
    account."""
    lets_in = _lets_in("cluster__project")
    rows = ClusterGrant.objects.exclude(cluster__state=ClusterState.DELETED).exclude(lets_in)
    return rows.filter(revoke_asked_at=None, revoked_at=None, expires_at__gt=now())


def cluster_jobs_lost(*, cluster: Cluster) -> frozenset[uuid.UUID]:
    """Those that have not ended, of people who may not enter any more."""
    lets_in = _lets_in("cluster__project", "created_by")
    rows = ClusterJob.objects.filter(cluster=cluster, state__in=JOB_OPEN).exclude(lets_in)
    return frozenset(rows.values_list("pk", flat=True))


def _lets_in(project: str, user: str = "user") -> Q:
    """Whether the person to whom the row's path `user` leads may have credentials in the project to which `project` does."""
    of_project = ProjectMembership.objects.filter(
        project=OuterRef(project), user=OuterRef(user), role__in=ENTER_PROJECT
    )
    of_organization = OrganizationMembership.objects.filter(
        organization=OuterRef(f"{project}__organization"),
        user=OuterRef(user),
        role__in=roles_with(ORGANIZATION_PERMISSIONS, Permission.WORKSPACE_ACCESS),
    )
    able = roles_with(PLATFORM_PERMISSIONS, Permission.WORKSPACE_ACCESS)
    platform = Q(**{f"{user}__platform_role__in": able})
    return Q(**{f"{user}__is_active": True}) & (platform | Exists(of_project) | Exists(of_organization))


def logins_of(*, project_id: uuid.UUID) -> QuerySet[ClusterLogin]:
    """Every login that was ever given."""
    return ClusterLogin.objects.filter(project=project_id).select_related("user").order_by("pk")


def logins_admitted(*, project_id: uuid.UUID) -> frozenset[int]:
    """Those of people who may enter now."""
    rows = ClusterLogin.objects.filter(_lets_in("project"), project=project_id)
    return frozenset(rows.values_list("pk", flat=True))


def use_by_login(*, cluster: Cluster, since: date, before: date) -> dict[ClusterLogin, int]:
    """GPU-seconds on the days of [since, before), of those who used any."""
    rows = ClusterLogin.objects.filter(
        use__cluster=cluster, use__day__gte=since, use__day__lt=before, use__gpu_seconds__gt=0
    )
    summed = rows.annotate(used=Sum("use__gpu_seconds")).select_related("user")
    return {row: row.used for row in summed}


def logins_lacking(*, project_id: uuid.UUID) -> QuerySet[User]:
    """Members who may enter and have no login yet. Owners and operators get one when they ask for a credential."""
    members = ProjectMembership.objects.filter(project=project_id, role__in=ENTER_PROJECT)
    rows = User.objects.filter(is_active=True, pk__in=members.values("user"))
    return rows.exclude(pk__in=ClusterLogin.objects.filter(project=project_id).values("user")).order_by("pk")


def grantee_get(*, cluster: Cluster, username: str = "", user_id: uuid.UUID | None = None) -> User:
    return grantee_of(cluster.grants.all(), username=username, user_id=user_id)


# -- how long it takes ------------------------------------------------------------------------------------------------


def usual_time(*, template_id: uuid.UUID, kind: str) -> Usual | None:
    """Of successful operations on clusters of the template in 90 days; None without any; 1 query."""
    rows = ClusterOperation.objects.filter(
        cluster__template_version__template=template_id,
        kind=str(kind),
        succeeded=True,
        requested_at__gte=now() - HISTORY,
    )
    took = Extract(F("finished_at") - F("requested_at"), "epoch")
    median = rows.order_by().aggregate(
        median=Percentile(took, fraction=0.5), p90=Percentile(took, fraction=0.9)
    )
    if median["median"] is None:
        return None
    return Usual(float(median["median"]), float(median["p90"]), rows.count())


def timeline(*, cluster: Cluster) -> list[OperationView]:
    """All operations, newest first, each with its steps and their usual duration; 3 queries."""
    usual = _step_times(cluster.template_version.template_id)
    steps = Prefetch("steps", queryset=ClusterOperationStep.objects.select_related("site"))
    return [
        OperationView(
            operation,
            tuple(StepView(step, usual.get((operation.kind, step.key))) for step in operation.steps.all()),
        )
        for operation in cluster.operations.prefetch_related(steps)
    ]


def _step_times(template_id: uuid.UUID) -> dict[tuple[str, str], Usual]:
    took = Extract(F("finished_at") - F("started_at"), "epoch")
    rows = (
        ClusterOperationStep.objects.filter(
            operation__cluster__template_version__template=template_id,
            state=StepState.DONE,
            started_at__gte=now() - HISTORY,
            finished_at__isnull=False,
        )
        .order_by()
        .values("operation__kind", "key")
        .annotate(median=Percentile(took, fraction=0.5), p90=Percentile(took, fraction=0.9))
    )
    return {
        (row["operation__kind"], row["key"]): Usual(float(row["median"]), float(row["p90"]), 0)
        for row in rows
    }


# -- scaling by policy ------------------------------------------------------------------------------------------------


def policies_of(*, cluster: Cluster) -> QuerySet[ScalingPolicy]:
    return ScalingPolicy.objects.filter(pool__cluster=cluster).select_related("pool__flavor").order_by("pk")


def policy_get_of(*, cluster: Cluster, policy_id: uuid.UUID) -> ScalingPolicy:
    return first_of(policies_of(cluster=cluster).filter(pk=policy_id), "policy")


def decisions_of(*, cluster: Cluster, pool: str = "", outcome: str = "") -> QuerySet[ScalingDecision]:
    """Newest first."""
    rows = ScalingDecision.objects.filter(cluster=cluster)
    if pool:
        rows = rows.filter(pool=pool)
    return rows.filter(outcome=outcome) if outcome else rows

"""Reads of environments and their kinds, limited to what the actor may see: an outsider gets NotFound."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.expressions import Combinable

from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import first_of, one_or_none
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import (
    DoorKey,
    Environment,
    EnvironmentCounter,
    EnvironmentKind,
    EnvironmentOperation,
    EnvironmentUse,
    KindVersion,
    SshKey,
    TokenDay,
)
from gpuaas.environments.states import LIVE, OFF, Access, EnvironmentState, KindState
from gpuaas.lifecycle.selectors import seen_by
from gpuaas.workspaces.machines.keys import fingerprint_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Taken
from gpuaas.workspaces.selectors import workspace_require
from tenants.actors import Actor
from tenants.models import OrganizationMembership, Project, ProjectMembership, User
from tenants.roles import Permission
from tenants.selectors import platform_require

SSH_PORT = 22  # of which nothing need be said


def environments_loaded() -> QuerySet[Environment]:
    """With everything that pages and serializers use."""
    return Environment.objects.select_related(
        "project__organization",
        "site",
        "workspace__project__organization",
        "workspace__site",
        "made_of__kind",
        "pool__gpu_type",
        "created_by",
        "use",
    )


def environments_for(
    *,
    actor: Actor,
    project: Project | None = None,
    workspace: Workspace | None = None,
    states: Iterable[EnvironmentState] = LIVE,
    search: str = "",
) -> QuerySet[Environment]:
    """Those that the actor may see, newest first."""
    rows = seen_by(actor, environments_loaded(), project=project, states=states, search=search)
    return rows.filter(workspace=workspace) if workspace is not None else rows


def environment_get_for(
    *,
    actor: Actor,
    environment_id: uuid.UUID,
    permission: Permission = Permission.WORKSPACE_VIEW,
    own: bool = False,
) -> Environment:
    """NotFound for an outsider, Forbidden for somebody of the project who may not do this."""
    found = first_of(environments_loaded().filter(pk=environment_id), "environment")
    workspace_require(actor=actor, workspace=found.workspace, permission=permission, own=own)
    return found


def environment_at_for(*, actor: Actor, label: str) -> Environment:
    """By the label of its host at the door; like `environment_get_for` for who wants to use it, and for the organization where
    that is its policy."""
    found = first_of(environments_loaded().filter(label=label, state__in=list(LIVE)), "environment")
    if found.access != Access.ORGANIZATION or not is_of_organization(actor, found):
        workspace_require(actor=actor, workspace=found.workspace, permission=Permission.WORKSPACE_ACCESS)
    return found


def is_of_organization(actor: Actor, row: Environment) -> bool:
    """Whether the person has any role in it. An API token never counts: its scopes are asked for elsewhere."""
    organization = row.workspace.project.organization_id
    people = User.objects.filter(of_organization(OuterRef("pk"), organization))
    return actor.user_id is not None and not actor.is_token and people.filter(pk=actor.user_id).exists()


def of_organization(user: Any, organization: Any) -> Q:
    """Whether somebody has a role in it, or in a project of it; roles of the platform do not count. Takes expressions of the
    query around it, or ids."""
    direct = OrganizationMembership.objects.filter(user=user, organization=organization)
    of_project = ProjectMembership.objects.filter(user=user, project__organization=organization)
    return Q(Exists(direct)) | Q(Exists(of_project))


def keys_of(*, environment: Environment) -> QuerySet[DoorKey]:
    """Newest first, with those that were revoked."""
    return environment.keys.select_related("created_by")


def key_get(*, environment: Environment, key_id: uuid.UUID) -> DoorKey:
    return first_of(environment.keys.select_related("created_by").filter(pk=key_id), "key")


def operations_of(*, environment: Environment) -> QuerySet[EnvironmentOperation]:
    """With their steps, newest first; 2 queries."""
    return environment.operations.prefetch_related("steps")


def kinds_offered() -> QuerySet[EnvironmentKind]:
    """What can be ordered now; what is shown of it costs 2 queries."""
    return _kinds().filter(state=KindState.ACTIVE)


def kind_offered(*, slug: str) -> EnvironmentKind:
    """Raises NotFound for one that cannot be ordered."""
    return first_of(kinds_offered().filter(slug=slug), "kind of environment")


def kinds_all(*, actor: Actor) -> QuerySet[EnvironmentKind]:
    platform_require(actor=actor, permission=Permission.PLATFORM_VIEW)
    return _kinds()


def kind_get(*, actor: Actor, slug: str) -> EnvironmentKind:
    return first_of(kinds_all(actor=actor).filter(slug=slug), "kind of environment")


def _kinds() -> QuerySet[EnvironmentKind]:
    newest = KindVersion.objects.filter(kind=OuterRef("pk")).order_by("-number").values("number")[:1]
    return EnvironmentKind.objects.annotate(newest=Subquery(newest)).prefetch_related("versions")


def newest_version(kind: EnvironmentKind) -> KindVersion:
    """Raises Invalid for a kind that nobody can order."""
    version = kind.versions.first()
    if kind.state != KindState.ACTIVE or version is None:
        raise Invalid.field("kind", f"{kind.name} is not offered any more")
    return version


def use_of(row: Environment) -> EnvironmentUse | None:
    """None where nothing is kept of it yet."""
    return getattr(row, "use", None)


def was_idle(row: Environment) -> bool:
    """Whether it was stopped for want of use, and neither started since nor stopped by somebody."""
    found = use_of(row)
    return found is not None and found.stopped_at is not None


def hours_of(row: Environment) -> int | None:
    """Without use, after which it is stopped; None = never."""
    return row.idle_hours or definition_read(row.made_of.document).idle_hours


def hours_words(hours: int) -> str:
    return "1 hour" if hours == 1 else f"{hours} hours"


def address_of(row: Environment) -> str:
    """At the door; "" where there is none. Needs the version of its kind."""
    has_one = settings.DOOR_DOMAIN and row.label and "port" in row.made_of.document
    return f"https://{row.label}.{settings.DOOR_DOMAIN}/" if has_one else ""


@dataclass(frozen=True)
class SshWay:
    """command: with which it is entered. known: the line by which clients know the door, in the form of `known_hosts`, "" until a
    door has run; fingerprint: of the same key, as `ssh` asks about it."""

    command: str
    known: str
    fingerprint: str


def ssh_command_of(row: Environment) -> str:
    """ "" where the portal has no way in by SSH."""
    if not settings.DOOR_SSH or not row.label:
        return ""
    host, port = settings.DOOR_SSH
    return f"ssh {row.label}@{host}" if port == SSH_PORT else f"ssh -p {port} {row.label}@{host}"


def ssh_way_of(row: Environment) -> SshWay | None:
    """One query."""
    command = ssh_command_of(row)
    if not command:
        return None
    host, port = settings.DOOR_SSH or ("", 0)
    key = SshKey.objects.first()
    if key is None:
        return SshWay(command, "", "")
    place = host if port == SSH_PORT else f"[{host}]:{port}"
    return SshWay(command, f"{place} {key.public}", fingerprint_of(key.public))


# -- what was counted ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokens:
    """Of a day or a month of the billing time zone."""

    requests: int
    tokens_in: int
    tokens_out: int


def token_days_of(*, environment: Environment) -> QuerySet[TokenDay]:
    """Newest first, without the days on which nothing was counted."""
    return environment.token_days.all()


def counter_of(row: Environment) -> EnvironmentCounter | None:
    """None where nothing was counted yet."""
    return one_or_none(EnvironmentCounter.objects.filter(pk=row.pk))


def tokens_of(*, environment: Environment) -> tuple[Tokens, Tokens]:
    """Of today and of this month; 1 query."""
    today = clock.billing_day(clock.now())
    names = [each.name for each in fields(Tokens)]
    sums = environment.token_days.filter(day__gte=today.replace(day=1)).aggregate(
        **{f"month_{name}": Sum(name, default=0) for name in names},
        **{f"today_{name}": Sum(name, filter=Q(day=today), default=0) for name in names},
    )
    found = [Tokens(**{name: int(sums[f"{of}_{name}"]) for name in names}) for of in ("today", "month")]
    return found[0], found[1]


# -- what is free --------------------------------------------------------------------------------------------------


def taken_by(workspace: Workspace, besides: Any = None) -> Taken:
    """What the environments of a workspace take of it, without `besides`. A stopped one takes no more than its home; 2
    queries."""
    others = Environment.objects.filter(workspace=workspace, state__in=list(LIVE)).order_by()
    if besides is not None:
        others = others.exclude(pk=besides.pk)
    running = ~Q(state__in=list(OFF))
    sums = others.aggregate(
        vcpus=Sum(_whole("vcpus"), filter=running, default=0),
        memory_gib=Sum(_whole("memory_gib"), filter=running, default=0),
        home_gib=Sum("home_gib", default=0),
    )
    held = others.filter(running, pool__isnull=False).values_list("pool").annotate(held=Sum(_whole("gpus")))
    return Taken(sums, dict(held))


def _whole(size: str) -> Combinable:
    """Of the main pod and its workers."""
    return F(size) + F("workers") * F(f"worker_{size}")

"""Finds the actor, and what the actor may see of organizations and projects. An outsider gets NotFound, never
Forbidden."""

import hashlib
import hmac
import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Literal

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from psycopg.sql import SQL, Identifier

from gpuaas.core.errors import Forbidden, NotFound, Unauthorized
from gpuaas.core.rows import first_of, one_or_none
from tenants.actors import Actor
from tenants.addresses import with_address
from tenants.models import (
    ApiToken,
    AuditEntry,
    Organization,
    OrganizationMembership,
    Project,
    ProjectMembership,
    Tries,
    User,
)
from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    Permission,
)

ROLES_OF = """
SELECT user_id, organization_id, NULL, role FROM tenants_organizationmembership WHERE user_id = ANY(%(users)s)
UNION ALL SELECT user_id, NULL, project_id, role FROM tenants_projectmembership WHERE user_id = ANY(%(users)s)
"""


def actor_for(*, user: User) -> Actor:
    """The actor of a person, in 1 query: each request asks it. Raises Unauthorized for an inactive person."""
    if not user.is_active:
        raise Unauthorized("this account is disabled")
    return actors_for(users=[user])[user.pk]


def actors_for(*, users: Collection[User]) -> dict[uuid.UUID, Actor]:
    """The actors of those who are active by their keys, in 1 query however many there are."""
    actors = {
        user.pk: Actor(user.pk, user.username, PLATFORM_PERMISSIONS[user.platform_role])
        for user in users
        if user.is_active
    }
    if not actors:
        return actors
    with connection.cursor() as cursor:
        cursor.execute(ROLES_OF, {"users": list(actors)})
        for user_id, organization_id, project_id, role in cursor.fetchall():
            if organization_id is not None:
                actors[user_id].organizations[organization_id] = ORGANIZATION_PERMISSIONS[role]
            else:
                actors[user_id].projects[project_id] = PROJECT_PERMISSIONS[role]
    return actors


def token_find(*, raw: str, now: datetime) -> ApiToken:
    """The valid token of the string `raw`. Raises Unauthorized with the reason: malformed, unknown, expired,
    revoked."""
    parts = raw.split("_")
    if len(parts) != 3 or parts[0] != "gpa":
        raise Unauthorized("this is not a valid API token")
    token = one_or_none(ApiToken.objects.select_related("user", "project").filter(prefix=parts[1]))
    digest = hashlib.sha256(parts[2].encode()).hexdigest()
    if token is None or not hmac.compare_digest(token.secret_hash, digest):
        raise Unauthorized("unknown API token")
    if token.revoked_at is not None:
        raise Unauthorized("the API token was revoked")
    if token.expires_at <= now:
        raise Unauthorized("the API token has expired; create a new one on the project's API tokens page")
    return token


def actor_for_token(*, token: ApiToken) -> Actor:
    """What the token's creator may do now, limited to the token's project and scopes: a role that is lost is lost at
    once."""
    person = actor_for(user=token.user)
    return Actor(
        user_id=person.user_id,
        name=person.name,
        projects={token.project_id: person.on_project(token.project_id, token.project.organization_id)},
        scopes=frozenset(token.scopes),
        token_project=token.project_id,
        token_prefix=token.prefix,
    )


def projects_for(*, actor: Actor, permission: Permission = Permission.PROJECT_VIEW) -> QuerySet[Project]:
    """Projects on which the actor has `permission`, sorted by slug."""
    rows = Project.objects.select_related("organization")
    if actor.scopes is not None and permission.value not in actor.scopes:
        return rows.none()
    if permission in actor.platform:
        return rows
    organizations = [pk for pk, held in actor.organizations.items() if permission in held]
    projects = [pk for pk, held in actor.projects.items() if permission in held]
    return rows.filter(Q(organization__in=organizations) | Q(pk__in=projects))


def organizations_for(*, actor: Actor) -> QuerySet[Organization]:
    """Organizations that the actor belongs to directly or through a project (whose members know its name anyway)."""
    rows = Organization.objects.all()
    if actor.is_token:
        return rows.filter(projects__in=projects_for(actor=actor, permission=Permission.ORGANIZATION_VIEW))
    if actor.sees_all:
        return rows
    return rows.filter(Q(pk__in=actor.organizations) | Q(projects__in=actor.projects)).distinct()


def project_require(
    *, actor: Actor, project: Project, permission: Permission, noun: str = "project", own: bool = False
) -> None:
    """NotFound for an outsider, Forbidden for somebody who may see the project but not do this.

    noun: names what is asked for in the project. own: it belongs to the actor, so any role in the project is enough;
    a token still needs the scope `permission`.
    """
    held = actor.on_project(project.pk, project.organization_id, own=permission if own else None)
    if not held:
        raise NotFound(f"there is no such {noun}")
    if permission not in held:
        raise _refusal(actor, f"your role in {project.slug}", permission)


def project_get_for(
    *, actor: Actor, slug: str, permission: Permission = Permission.PROJECT_VIEW, own: bool = False
) -> Project:
    """Like `project_require`. own: the actor acts on things of their own."""
    project = first_of(Project.objects.select_related("organization").filter(slug=slug), "project")
    project_require(actor=actor, project=project, permission=permission, own=own)
    return project


def personal_require(*, actor: Actor, permission: Permission) -> None:
    """For what belongs to a person and to no project: the person may; a token of theirs needs `permission`."""
    if actor.is_token and not actor.holds_somewhere({permission}):
        raise _refusal(actor, "your role in the token's project", permission)


def _refusal(actor: Actor, role: str, permission: Permission) -> Forbidden:
    """The missing scope of a token is reported before the missing role of its creator."""
    why = f"{role} does not allow this; it needs the permission {permission.value}"
    if actor.scopes is not None and permission.value not in actor.scopes:
        why = f"this API token does not allow this; it needs the scope {permission.value}"
    return Forbidden(why, detail={"permission": permission.value})


def organization_require(*, actor: Actor, organization: Organization, permission: Permission) -> None:
    """NotFound for an outsider, Forbidden for somebody who may see the organization but not do this."""
    held = actor.on_organization(organization.pk)
    if not held:
        raise NotFound("there is no such organization")
    if permission not in held:
        raise _refusal(actor, f"your role in {organization.slug}", permission)


def organization_get_for(
    *, actor: Actor, slug: str, permission: Permission = Permission.ORGANIZATION_VIEW
) -> Organization:
    organization = first_of(Organization.objects.filter(slug=slug), "organization")
    organization_require(actor=actor, organization=organization, permission=permission)
    return organization


def platform_require(*, actor: Actor, permission: Permission = Permission.PLATFORM_VIEW) -> None:
    """Operators' pages do not exist for anybody else."""
    held = actor.on_platform()
    if Permission.PLATFORM_VIEW not in held:
        raise NotFound("there is no such page")
    if permission not in held:
        raise Forbidden("auditors can only read; an operator has to make this change")


def person_require(*, actor: Actor, user: User, permission: Permission = Permission.PLATFORM_VIEW) -> None:
    """For what belongs to a person: they themselves, never a token of theirs, and who has `permission` on the platform."""
    if actor.is_token or not actor.owns(user.pk):
        platform_require(actor=actor, permission=permission)


def links_of(*, actor: Actor, user: User) -> QuerySet[SocialAccount]:
    """Identities at the provider by which the person signs in."""
    person_require(actor=actor, user=user)
    return SocialAccount.objects.filter(user=user).order_by("pk")


def second_factor_of(*, actor: Actor, user: User) -> Authenticator | None:
    """By which the person confirms a sign-in; recovery codes alone are none."""
    person_require(actor=actor, user=user)
    rows = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES)
    return rows.order_by("pk").first()


def sessions_of(*, actor: Actor, user: User, now: datetime) -> list[UserSession]:
    """Browsers in which the person is signed in, the latest first. Two queries."""
    person_require(actor=actor, user=user)
    rows = {row.session_key: row for row in UserSession.objects.filter(user=user).order_by("-created_at")}
    stored = Session.objects.filter(pk__in=rows, expire_date__gt=now)
    own = user.get_session_auth_hash()  # another one since a new password
    alive = {row.pk for row in stored if row.get_decoded().get(HASH_SESSION_KEY) == own}
    return [row for key, row in rows.items() if key in alive]


def audit_for(
    *, actor: Actor, project_id: uuid.UUID | None = None, organization_id: uuid.UUID | None = None
) -> QuerySet[AuditEntry]:
    """Entries of one project or organization (requires audit:view there), or of everything (auditors and operators)."""
    rows = AuditEntry.objects.all()
    if project_id is not None:
        project = first_of(Project.objects.filter(pk=project_id), "project")
        project_require(actor=actor, project=project, permission=Permission.AUDIT_VIEW)
        return rows.filter(project_id=project_id)
    if organization_id is not None:
        organization = first_of(Organization.objects.filter(pk=organization_id), "organization")
        organization_require(actor=actor, organization=organization, permission=Permission.AUDIT_VIEW)
        return rows.filter(organization_id=organization_id)
    platform_require(actor=actor)
    return rows


CHOICES = SQL("""
    WITH RECURSIVE found AS (
        (SELECT {column} AS name FROM tenants_auditentry ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT {column} FROM tenants_auditentry WHERE {column} > found.name ORDER BY 1 LIMIT 1)
        FROM found WHERE name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL LIMIT {most}
""")


def audit_choices(*, actor: Actor, column: Literal["actor", "action"], most: int) -> list[str]:
    """The first `most` names in that column of the whole log: a step along its index for each, whatever the entries."""
    platform_require(actor=actor)
    with connection.cursor() as cursor:
        cursor.execute(CHOICES.format(column=Identifier(column), most=most).as_string(cursor.connection))
        return [name for (name,) in cursor.fetchall()]


def project_members(*, actor: Actor, project: Project) -> QuerySet[User]:
    """Everybody with a role in the project, by name, in one query.

    Annotated: project_role ("" = none in the project) and organization_role ("" = none; it applies here, too).
    """
    project_require(actor=actor, project=project, permission=Permission.PROJECT_VIEW)
    return _members_of(project)


def project_member_get(*, actor: Actor, project: Project, username: str) -> User:
    """Somebody with a role in the project: for those who manage its members anybody, for everybody else only
    themselves."""
    found = one_or_none(_members_of(project).filter(username=username))
    own = found is not None and actor.owns(found.pk)
    project_require(actor=actor, project=project, permission=Permission.PROJECT_MANAGE, own=own)
    if found is None:
        raise NotFound("there is no such member")
    return found


def project_person_get(*, actor: Actor, project: Project, user_id: uuid.UUID) -> User:
    """A member, or a former member whose removal can be undone; for those who manage the project's members. Nobody
    else is found by id: accounts are looked up by `user_find`."""
    project_require(actor=actor, project=project, permission=Permission.PROJECT_MANAGE)
    removed = AuditEntry.objects.filter(
        project_id=project.pk, action="project_member.remove", target_id=str(user_id)
    )
    found = one_or_none(_members_of(project).filter(pk=user_id))
    if found is None and removed.exists():
        found = one_or_none(User.objects.filter(pk=user_id))
    if found is None:
        raise NotFound("there is no such member")
    return found


def _members_of(project: Project) -> QuerySet[User]:
    here = ProjectMembership.objects.filter(project=project, user=OuterRef("pk"))
    above = OrganizationMembership.objects.filter(organization=project.organization_id, user=OuterRef("pk"))
    return (
        User.objects.annotate(
            project_role=Coalesce(Subquery(here.values("role")), Value("")),
            organization_role=Coalesce(Subquery(above.values("role")), Value("")),
        )
        .exclude(project_role="", organization_role="")
        .order_by("username")
    )


def people_seen(*, actor: Actor, search: str, most: int) -> list[tuple[User, str]]:
    """Active people whose names contain `search`, each with a project that they share with the actor.

    By name, in one query. People who share no project with the actor are not found.
    """
    seen = projects_for(actor=actor).order_by("slug").values("slug")
    people = User.objects.filter(is_active=True, username__icontains=search).annotate(
        seen_in=Coalesce(
            Subquery(seen.filter(memberships__user=OuterRef("pk"))[:1]),
            Subquery(seen.filter(organization__memberships__user=OuterRef("pk"))[:1]),
        )
    )
    found = people.filter(seen_in__isnull=False).order_by("username")[:most]
    return [(user, str(getattr(user, "seen_in", ""))) for user in found]


def organization_members(*, actor: Actor, organization: Organization) -> QuerySet[OrganizationMembership]:
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_VIEW)
    rows = OrganizationMembership.objects.filter(organization=organization)
    return rows.select_related("user").order_by("user__username")


def tokens_for(*, actor: Actor, project: Project) -> QuerySet[ApiToken]:
    """All tokens of the project for those who manage them, only their own for everybody else; newest first."""
    project_require(actor=actor, project=project, permission=Permission.TOKEN_MANAGE, own=True)
    rows = ApiToken.objects.filter(project=project).select_related("user", "project")
    if Permission.TOKEN_MANAGE in actor.on_project(project.pk, project.organization_id):
        return rows
    return rows.filter(user=actor.user_id)


def tokens_of(*, actor: Actor, now: datetime) -> QuerySet[ApiToken]:
    """The person's own tokens of all their projects that still work, newest first; a token sees none."""
    if actor.is_token:
        return ApiToken.objects.none()
    seen = projects_for(actor=actor).order_by()
    rows = ApiToken.objects.filter(project__in=seen, revoked_at=None, expires_at__gt=now, user=actor.user_id)
    return rows.select_related("project")


def token_get_for(*, actor: Actor, project: Project, token_id: uuid.UUID) -> ApiToken:
    return first_of(tokens_for(actor=actor, project=project).filter(pk=token_id), "API token")


def user_find(*, actor: Actor, text: str) -> User:
    """The active account with exactly this username or email address, for adding members.

    Only for actors who manage members somewhere, and only exact matches: the directory cannot be browsed.
    """
    if not actor.holds_somewhere({Permission.PROJECT_MANAGE, Permission.ORGANIZATION_MANAGE}):
        raise Forbidden("only people who manage members of a project or organization can look up accounts")
    wanted, people = text.strip(), User.objects.filter(is_active=True)
    user = one_or_none(people.filter(username=wanted)) if wanted else None
    if user is None and "@" in wanted:
        user = with_address(people, wanted)
    if user is None:
        raise NotFound("no account has exactly this name or address")
    return user


def tries_for(*, actor: Actor) -> QuerySet[Tries]:
    """Of accounts and of addresses, for operators and auditors. Names without an account are not among them."""
    platform_require(actor=actor)
    return Tries.objects.exclude(user=None, account__gt="").select_related("user").order_by("until", "pk")


def users_for(*, actor: Actor) -> QuerySet[User]:
    """All accounts, for operators and auditors."""
    platform_require(actor=actor)
    return User.objects.order_by("username")

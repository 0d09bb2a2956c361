"""Who the actor is, and what of the tenants they may see. An outsider finds nothing: NotFound, never Forbidden."""

import hashlib
import hmac
import uuid
from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from gpuaas.core.errors import Forbidden, NotFound, Unauthorized
from tenants.actors import Actor
from tenants.models import (
    ApiToken,
    AuditEntry,
    Organization,
    OrganizationMembership,
    Project,
    ProjectMembership,
    User,
)
from tenants.roles import (
    ORGANIZATION_PERMISSIONS,
    PLATFORM_PERMISSIONS,
    PROJECT_PERMISSIONS,
    Permission,
)


def actor_for(*, user: User) -> Actor:
    """A person's actor: 2 queries. Inactive people are refused with Unauthorized."""
    if not user.is_active:
        raise Unauthorized("this account is disabled")
    return Actor(
        user_id=user.pk,
        name=user.username,
        platform=PLATFORM_PERMISSIONS[user.platform_role],
        organizations={
            row.organization_id: ORGANIZATION_PERMISSIONS[row.role]
            for row in user.organization_memberships.all()
        },
        projects={row.project_id: PROJECT_PERMISSIONS[row.role] for row in user.project_memberships.all()},
    )


def token_find(*, raw: str, now: datetime) -> ApiToken:
    """The valid token that `raw` is. Raises Unauthorized with the reason: malformed, unknown, expired, revoked."""
    parts = raw.split("_")
    if len(parts) != 3 or parts[0] != "gpa":
        raise Unauthorized("this is not an API token of this portal")
    token = ApiToken.objects.select_related("user", "project").filter(prefix=parts[1]).first()
    digest = hashlib.sha256(parts[2].encode()).hexdigest()
    if token is None or not hmac.compare_digest(token.secret_hash, digest):
        raise Unauthorized("the API token is not known")
    if token.revoked_at is not None:
        raise Unauthorized("the API token was revoked")
    if token.expires_at <= now:
        raise Unauthorized("the API token has expired; make a new one on the project's API tokens page")
    return token


def actor_for_token(*, token: ApiToken) -> Actor:
    """What the token's maker may do now, cut to the token's project and scopes: a lost role is lost at once."""
    person = actor_for(user=token.user)
    return Actor(
        user_id=person.user_id,
        name=person.name,
        platform=person.platform,
        organizations=person.organizations,
        projects=person.projects,
        scopes=frozenset(token.scopes),
        token_project=token.project_id,
        token_prefix=token.prefix,
    )


def projects_for(*, actor: Actor, permission: Permission = Permission.PROJECT_VIEW) -> QuerySet[Project]:
    """Projects on which the actor has `permission`, by slug."""
    rows = Project.objects.select_related("organization")
    if actor.scopes is not None and permission.value not in actor.scopes:
        return rows.none()
    if actor.token_project is not None:
        rows = rows.filter(pk=actor.token_project)
    if permission in actor.platform:
        return rows
    organizations = [pk for pk, held in actor.organizations.items() if permission in held]
    projects = [pk for pk, held in actor.projects.items() if permission in held]
    return rows.filter(Q(organization__in=organizations) | Q(pk__in=projects))


def organizations_for(*, actor: Actor) -> QuerySet[Organization]:
    """Organizations that the actor belongs to directly or by a project (its name is then no secret to them)."""
    rows = Organization.objects.all()
    if actor.scopes is not None and Permission.ORGANIZATION_VIEW.value not in actor.scopes:
        return rows.none()
    if actor.token_project is not None:
        return rows.filter(projects__in=projects_for(actor=actor, permission=Permission.ORGANIZATION_VIEW))
    if actor.sees_all:
        return rows
    return rows.filter(Q(pk__in=actor.organizations) | Q(projects__in=actor.projects)).distinct()


def project_require(*, actor: Actor, project: Project, permission: Permission, noun: str = "project") -> None:
    """NotFound for an outsider, Forbidden for somebody who may see the project but not do this.

    noun: of what in the project is asked for.
    """
    held = actor.on_project(project.pk, project.organization_id)
    if not held:
        raise NotFound(f"there is no such {noun}")
    if permission not in held:
        raise Forbidden(
            f"your role in {project.slug} does not allow this; it needs the permission {permission.value}",
            detail={"permission": permission.value},
        )


def project_get_for(*, actor: Actor, slug: str, permission: Permission = Permission.PROJECT_VIEW) -> Project:
    project = Project.objects.select_related("organization").filter(slug=slug).first()
    if project is None:
        raise NotFound("there is no such project")
    project_require(actor=actor, project=project, permission=permission)
    return project


def organization_require(*, actor: Actor, organization: Organization, permission: Permission) -> None:
    """NotFound for an outsider, Forbidden for somebody who may see the organization but not do this."""
    held = actor.on_organization(organization.pk)
    if not held:
        raise NotFound("there is no such organization")
    if permission not in held:
        raise Forbidden(
            f"your role in {organization.slug} does not allow this; it needs the permission {permission.value}",
            detail={"permission": permission.value},
        )


def organization_get_for(
    *, actor: Actor, slug: str, permission: Permission = Permission.ORGANIZATION_VIEW
) -> Organization:
    organization = Organization.objects.filter(slug=slug).first()
    if organization is None:
        raise NotFound("there is no such organization")
    organization_require(actor=actor, organization=organization, permission=permission)
    return organization


def platform_require(*, actor: Actor, permission: Permission = Permission.PLATFORM_VIEW) -> None:
    """Operators' pages do not exist for anybody else."""
    held = actor.on_platform()
    if Permission.PLATFORM_VIEW not in held:
        raise NotFound("there is no such page")
    if permission not in held:
        raise Forbidden("auditors may look but not change; an operator has to do this")


def audit_for(
    *, actor: Actor, project_id: uuid.UUID | None = None, organization_id: uuid.UUID | None = None
) -> QuerySet[AuditEntry]:
    """Entries of one project or organization (audit:view there), or of everything (auditors and operators)."""
    rows = AuditEntry.objects.all()
    if project_id is not None:
        project = Project.objects.filter(pk=project_id).first()
        if project is None:
            raise NotFound("there is no such project")
        project_require(actor=actor, project=project, permission=Permission.AUDIT_VIEW)
        return rows.filter(project_id=project_id)
    if organization_id is not None:
        organization = Organization.objects.filter(pk=organization_id).first()
        if organization is None:
            raise NotFound("there is no such organization")
        organization_require(actor=actor, organization=organization, permission=Permission.AUDIT_VIEW)
        return rows.filter(organization_id=organization_id)
    platform_require(actor=actor)
    return rows


def project_members(*, actor: Actor, project: Project) -> QuerySet[User]:
    """Everybody with a role in the project, by name, in one query.

    Annotated: project_role ("" = none of its own) and organization_role ("" = none; roles there hold here too).
    """
    project_require(actor=actor, project=project, permission=Permission.PROJECT_VIEW)
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


def organization_members(*, actor: Actor, organization: Organization) -> QuerySet[OrganizationMembership]:
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_VIEW)
    rows = OrganizationMembership.objects.filter(organization=organization)
    return rows.select_related("user").order_by("user__username")


def tokens_for(*, actor: Actor, project: Project) -> QuerySet[ApiToken]:
    """All tokens of the project for who manages them, one's own for everybody else; newest first."""
    project_require(actor=actor, project=project, permission=Permission.PROJECT_VIEW)
    rows = ApiToken.objects.filter(project=project).select_related("user", "project")
    if Permission.TOKEN_MANAGE in actor.on_project(project.pk, project.organization_id):
        return rows
    return rows.filter(user=actor.user_id)


def token_get_for(*, actor: Actor, project: Project, token_id: uuid.UUID) -> ApiToken:
    token = tokens_for(actor=actor, project=project).filter(pk=token_id).first()
    if token is None:
        raise NotFound("there is no such API token")
    return token


def user_find(*, actor: Actor, text: str) -> User:
    """The active account with exactly this username or e-mail address, for adding members.

    Only who manages members somewhere may ask, and only whole names match: the directory cannot be browsed.
    """
    managing = {Permission.PROJECT_MANAGE, Permission.ORGANIZATION_MANAGE}
    held = (actor.platform, *actor.organizations.values(), *actor.projects.values())
    scoped = actor.scopes is None or any(each.value in actor.scopes for each in managing)
    if not scoped or not any(managing & permissions for permissions in held):
        raise Forbidden("only who manages members of a project or organization may look people up")
    wanted = text.strip()
    matching = Q(username=wanted) | (Q(email__iexact=wanted) if "@" in wanted else Q(pk__in=[]))
    user = User.objects.filter(matching, is_active=True).first() if wanted else None
    if user is None:
        raise NotFound("there is no account with exactly this name or address")
    return user


def users_for(*, actor: Actor) -> QuerySet[User]:
    """All accounts, for operators and auditors."""
    platform_require(actor=actor)
    return User.objects.order_by("username")

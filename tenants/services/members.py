"""Membership of organizations and projects, and its roles."""

from django.db import transaction
from django.db.models import F

from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.core.events import project_group, publish, user_group
from gpuaas.core.queue import poke
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, OrganizationMembership, Project, ProjectMembership, User
from tenants.roles import OrganizationRole, Permission, ProjectRole
from tenants.selectors import organization_require, project_require
from tenants.services.checks import choice_check


@transaction.atomic
def organization_member_set(
    *, actor: Actor, organization: Organization, user: User, role: str
) -> OrganizationMembership:
    """Add a member or change their role. Repeating it changes nothing. The last owner keeps the role."""
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_MANAGE)
    role = choice_check("role", role, OrganizationRole)
    _active(user)
    before = _organization_locked(organization).get(user.pk)
    if before is not None and before.role == role:
        return before
    if before is not None:
        _keeps_an_owner(organization, before)
    row, _ = OrganizationMembership.objects.update_or_create(
        organization=organization, user=user, defaults={"role": role}
    )
    _organization_changed(actor, "set", organization, user, before.role if before else None, role)
    return row


@transaction.atomic
def organization_member_remove(*, actor: Actor, organization: Organization, user: User) -> None:
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_MANAGE)
    row = _organization_locked(organization).get(user.pk)
    if row is None:
        raise NotFound(f"{user.username} is not a member of {organization.slug}")
    _keeps_an_owner(organization, row)
    row.delete()
    _organization_changed(actor, "remove", organization, user, row.role, None)


@transaction.atomic
def project_member_set(*, actor: Actor, project: Project, user: User, role: str) -> ProjectMembership:
    """Add a member or change their role. Repeating it changes nothing."""
    project_require(actor=actor, project=project, permission=Permission.PROJECT_MANAGE)
    role = choice_check("role", role, ProjectRole)
    _active(user)
    Project.objects.select_for_update().get(pk=project.pk)
    before = ProjectMembership.objects.filter(project=project, user=user).first()
    if before is not None and before.role == role:
        return before
    row, _ = ProjectMembership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    _project_changed(actor, "set", project, user, before.role if before else None, role)
    return row


@transaction.atomic
def project_member_remove(*, actor: Actor, project: Project, user: User) -> None:
    """People may leave; removing others needs project:manage, which a token also needs for its creator."""
    manage = Permission.PROJECT_MANAGE
    project_require(actor=actor, project=project, permission=manage, own=actor.owns(user.pk))
    Project.objects.select_for_update().get(pk=project.pk)
    row = ProjectMembership.objects.filter(project=project, user=user).first()
    if row is None:
        raise NotFound(f"{user.username} is not a member of {project.slug}")
    row.delete()
    _project_changed(actor, "remove", project, user, row.role, None)


def _active(user: User) -> None:
    if not user.is_active:
        raise Forbidden(f"the account {user.username} is disabled; an operator can enable it")


def _organization_locked(organization: Organization) -> dict[object, OrganizationMembership]:
    """Members by user, under the organization's row lock, so that two owners cannot remove each other at the same
    time."""
    Organization.objects.select_for_update().get(pk=organization.pk)
    return {row.user_id: row for row in OrganizationMembership.objects.filter(organization=organization)}


def _keeps_an_owner(organization: Organization, row: OrganizationMembership) -> None:
    """One who is disabled manages nothing."""
    owners = OrganizationMembership.objects.filter(organization=organization, role=OrganizationRole.OWNER)
    others = owners.exclude(pk=row.pk).filter(user__is_active=True)
    if row.role == OrganizationRole.OWNER and not others.exists():
        raise Conflict(
            f"{row.user.username} is the last owner of {organization.slug}; make another member an "
            "owner first"
        )


def _organization_changed(
    actor: Actor, verb: str, organization: Organization, user: User, before: str | None, after: str | None
) -> None:
    audit_record(
        actor=actor,
        action=f"organization_member.{verb}",
        target=user,
        organization=organization,
        before={"role": before},
        after={"role": after},
    )
    for project in organization.projects.all():
        _told(project, "organization_membership", user)
    poke("clusters.revoke")


def _project_changed(
    actor: Actor, verb: str, project: Project, user: User, before: str | None, after: str | None
) -> None:
    Project.objects.filter(pk=project.pk).update(version=F("version") + 1)
    audit_record(
        actor=actor,
        action=f"project_member.{verb}",
        target=user,
        project=project,
        before={"role": before},
        after={"role": after},
    )
    _told(project, "project_membership", user)
    poke("clusters.revoke")


def _told(project: Project, kind: str, user: User) -> None:
    """Makes open pages reload what they may show, also those of somebody who heard nothing of the project so far, and updates access
    at sites."""
    publish(kind=kind, id=user.pk, groups=(project_group(project.pk), user_group(user.pk)))
    poke("workspaces.members_sync", str(project.pk))

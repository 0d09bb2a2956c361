"""Creating and renaming organizations and projects."""

from django.db import IntegrityError, transaction
from django.db.models import F

from gpuaas.core.errors import Invalid
from gpuaas.core.validation import row_check
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, OrganizationMembership, Project, User
from tenants.roles import OrganizationRole, Permission
from tenants.selectors import organization_require, platform_require, project_require


@transaction.atomic
def organization_create(*, actor: Actor, slug: str, name: str, owner: User | None = None) -> Organization:
    """Operators only. Without an owner, only operators can use the organization."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    organization = Organization(slug=slug, name=name.strip())
    _insert(organization)
    if owner is not None:
        OrganizationMembership.objects.create(
            organization=organization, user=owner, role=OrganizationRole.OWNER
        )
    audit_record(
        actor=actor,
        action="organization.create",
        target=organization,
        organization=organization,
        after={"slug": slug, "name": organization.name, "owner": owner.username if owner else None},
    )
    return organization


@transaction.atomic
def organization_update(*, actor: Actor, organization: Organization, name: str) -> Organization:
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_MANAGE)
    before, organization.name = organization.name, name.strip()
    row_check(organization)
    organization.save(update_fields=["name"])
    audit_record(
        actor=actor,
        action="organization.update",
        target=organization,
        organization=organization,
        before={"name": before},
        after={"name": organization.name},
    )
    return organization


@transaction.atomic
def project_create(*, actor: Actor, organization: Organization, slug: str, name: str) -> Project:
    """All its limits are zero until an operator sets them."""
    organization_require(actor=actor, organization=organization, permission=Permission.ORGANIZATION_MANAGE)
    project = Project(organization=organization, slug=slug, name=name.strip())
    _insert(project)
    audit_record(
        actor=actor,
        action="project.create",
        target=project,
        project=project,
        after={"slug": slug, "name": project.name},
    )
    return project


@transaction.atomic
def project_update(*, actor: Actor, project: Project, name: str) -> Project:
    project_require(actor=actor, project=project, permission=Permission.PROJECT_MANAGE)
    before, project.name = project.name, name.strip()
    row_check(project)
    Project.objects.filter(pk=project.pk).update(name=project.name, version=F("version") + 1)
    audit_record(
        actor=actor,
        action="project.update",
        target=project,
        project=project,
        before={"name": before},
        after={"name": project.name},
    )
    project.refresh_from_db()
    return project


def _insert(row: Organization | Project) -> None:
    """If two requests use one slug at the same time, the second gets the same error as a later one."""
    row_check(row)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid.field("slug", "this short name is already in use") from error

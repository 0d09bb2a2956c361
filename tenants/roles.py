"""Roles and their permissions, as the one table that every permission check uses.

A role in the organization applies in all its projects. Operators and auditors are roles of the platform.
"""

from collections.abc import Mapping

from django.db import models


class Permission(models.TextChoices):
    """Also the scopes of API tokens: a token can do what both its scopes and its creator's roles allow."""

    PROJECT_VIEW = "project:view", "see the project, its limits and members"
    PROJECT_MANAGE = "project:manage", "change members and settings of the project"
    WORKSPACE_VIEW = "workspace:view", "see workspaces, their usage and timeline"
    WORKSPACE_CREATE = "workspace:create", "request, resize, suspend, resume, extend and delete workspaces"
    WORKSPACE_ACCESS = (
        "workspace:access",
        "enter workspaces and clusters: issue and end credentials, run machines",
    )
    TOKEN_MANAGE = "token:manage", "create and revoke API tokens of the project"
    BILLING_VIEW = "billing:view", "see prices, charges and statements"
    BILLING_MANAGE = "billing:manage", "set budgets"
    AUDIT_VIEW = "audit:view", "see the audit log"
    ORGANIZATION_VIEW = "organization:view", "see the organization and its projects"
    ORGANIZATION_MANAGE = "organization:manage", "create projects, change members of the organization"
    PLATFORM_VIEW = "platform:view", "see sites, capacity, limits and money of all tenants"
    PLATFORM_MANAGE = "platform:manage", "change sites, flavors, limits and rate cards"


class OrganizationRole(models.TextChoices):
    OWNER = "owner", "Owner"
    BILLING = "billing", "Billing"


class ProjectRole(models.TextChoices):
    ADMIN = "admin", "Admin"
    MEMBER = "member", "Member"
    VIEWER = "viewer", "Viewer"


class PlatformRole(models.TextChoices):
    NONE = "", "None"
    OPERATOR = "operator", "Operator"
    AUDITOR = "auditor", "Auditor"


_P = Permission
VIEWER = frozenset({_P.PROJECT_VIEW, _P.WORKSPACE_VIEW, _P.BILLING_VIEW, _P.ORGANIZATION_VIEW})
MEMBER = VIEWER | {_P.WORKSPACE_CREATE, _P.WORKSPACE_ACCESS}
ADMIN = MEMBER | {_P.PROJECT_MANAGE, _P.BILLING_MANAGE, _P.TOKEN_MANAGE, _P.AUDIT_VIEW}
BILLING = frozenset({_P.PROJECT_VIEW, _P.ORGANIZATION_VIEW, _P.BILLING_VIEW, _P.BILLING_MANAGE})
OWNER = ADMIN | {_P.ORGANIZATION_MANAGE}
AUDITOR = VIEWER | {_P.PLATFORM_VIEW, _P.AUDIT_VIEW}
OPERATOR = frozenset(_P)

# What an API token may carry: it lives in one project, so nothing of the organization's or the platform's management.
TOKEN_SCOPES = ADMIN

PROJECT_PERMISSIONS: dict[str, frozenset[Permission]] = {
    ProjectRole.VIEWER: VIEWER,
    ProjectRole.MEMBER: MEMBER,
    ProjectRole.ADMIN: ADMIN,
}
ORGANIZATION_PERMISSIONS: dict[str, frozenset[Permission]] = {
    OrganizationRole.OWNER: OWNER,
    OrganizationRole.BILLING: BILLING,
}
PLATFORM_PERMISSIONS: dict[str, frozenset[Permission]] = {
    PlatformRole.NONE: frozenset(),
    PlatformRole.AUDITOR: AUDITOR,
    PlatformRole.OPERATOR: OPERATOR,
}


def roles_with(roles: Mapping[str, frozenset[Permission]], permission: Permission) -> list[str]:
    """The roles of a table that have the permission, for a query."""
    return [role for role, held in roles.items() if permission in held]

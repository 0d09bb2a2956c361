"""Issued credentials: which are valid, and which ended because the right to enter ended."""

import uuid
from collections.abc import Container
from datetime import datetime

from django.db.models import QuerySet

from gpuaas.core.clock import now
from gpuaas.workspaces.models import AccessGrant, Workspace
from gpuaas.workspaces.spec import robot_subject_of, subject_of

REVOCATION = "CredentialsRevoked"  # the condition; there only while the site has not confirmed


def grants_open(*, workspace_id: uuid.UUID) -> QuerySet[AccessGrant]:
    """Neither ended nor expired."""
    return AccessGrant.objects.filter(
        workspace=workspace_id, revoked_at__isnull=True, expires_at__gt=now()
    ).order_by("pk")


def grant_subject(grant: AccessGrant) -> str:
    return robot_subject_of(grant.robot_id) if grant.robot_id else subject_of(_person(grant))


def _person(grant: AccessGrant) -> uuid.UUID:
    if grant.user_id is None:
        raise ValueError("a grant belongs to either a person or a service account")
    return grant.user_id


def grants_end(*, workspace: Workspace, at: datetime, keep: Container[str] = ()) -> None:
    """The site has confirmed that only `keep` (subjects) have access: all other credentials are invalid."""
    gone = [row.pk for row in grants_open(workspace_id=workspace.pk) if grant_subject(row) not in keep]
    if gone:
        AccessGrant.objects.filter(pk__in=gone).update(revoked_at=at, revoke_due_at=None)

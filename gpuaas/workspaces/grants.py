"""Credentials that were issued: which are valid, and which have ended with the right that they stood on."""

import uuid
from collections.abc import Container
from datetime import datetime

from django.db.models import QuerySet

from gpuaas.core.clock import now
from gpuaas.workspaces.models import AccessGrant, Workspace
from gpuaas.workspaces.spec import robot_subject_of, subject_of
from gpuaas.workspaces.states import GrantStanding

REVOCATION = "CredentialsRevoked"  # the condition; there only while the site has not confirmed


def grants_open(*, workspace_id: uuid.UUID) -> QuerySet[AccessGrant]:
    """Neither ended nor run out."""
    return AccessGrant.objects.filter(
        workspace=workspace_id, revoked_at__isnull=True, expires_at__gt=now()
    ).order_by("pk")


def grant_subject(grant: AccessGrant) -> str:
    return robot_subject_of(grant.robot_id) if grant.robot_id else subject_of(_person(grant))


def _person(grant: AccessGrant) -> uuid.UUID:
    if grant.user_id is None:
        raise ValueError("a grant is a person's or a robot's")
    return grant.user_id


def grant_standing(grant: AccessGrant) -> GrantStanding:
    if grant.revoked_at is not None:
        return GrantStanding.REVOKED
    if grant.expires_at <= now():
        return GrantStanding.EXPIRED
    return GrantStanding.ENDING if grant.revoke_due_at is not None else GrantStanding.VALID


def grants_end(*, workspace: Workspace, at: datetime, keep: Container[str] = ()) -> None:
    """The site has confirmed that only `keep` (subjects) may enter: everybody else's credentials are dead."""
    gone = [row.pk for row in grants_open(workspace_id=workspace.pk) if grant_subject(row) not in keep]
    if gone:
        AccessGrant.objects.filter(pk__in=gone).update(revoked_at=at, revoke_due_at=None)

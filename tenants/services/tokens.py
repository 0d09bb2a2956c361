"""API tokens: created and shown once, stored as a hash."""

import hashlib
import secrets
import string
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from gpuaas.core.clock import now as current
from gpuaas.core.errors import Forbidden, Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import ApiToken, Project
from tenants.roles import TOKEN_SCOPES, Permission
from tenants.selectors import project_require

ALPHABET = string.ascii_letters + string.digits
SECRET_LENGTH = 43  # of 62 letters and digits: 256 bits
LONGEST = timedelta(days=365)
TOUCH_EVERY = timedelta(minutes=1)


@transaction.atomic
def token_create(
    *, actor: Actor, project: Project, name: str, scopes: Sequence[str], expires_at: datetime
) -> tuple[ApiToken, str]:
    """Returns the row and the token itself, which is not stored. It acts as its creator, within `scopes` and the
    project."""
    project_require(actor=actor, project=project, permission=Permission.TOKEN_MANAGE)
    if actor.user_id is None or actor.is_token:
        raise Forbidden("only a signed-in person can create a token, not another token")
    prefix, secret = secrets.token_hex(6), "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LENGTH))
    token = ApiToken.objects.create(
        project=project,
        user_id=actor.user_id,
        name=_name(name),
        prefix=prefix,
        secret_hash=hashlib.sha256(secret.encode()).hexdigest(),
        scopes=_scopes(actor, project, scopes),
        expires_at=_expiry(expires_at),
    )
    audit_record(
        actor=actor,
        action="token.create",
        target=token,
        project=project,
        after={"name": token.name, "scopes": token.scopes, "expires_at": token.expires_at.isoformat()},
    )
    return token, f"gpa_{prefix}_{secret}"


@transaction.atomic
def token_revoke(*, actor: Actor, token: ApiToken) -> None:
    """For its creator and those who manage the project's tokens. Revoking twice changes nothing."""
    project, own = token.project, actor.owns(token.user_id)
    manage = Permission.TOKEN_MANAGE
    project_require(actor=actor, project=project, permission=manage, noun="API token", own=own)
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=current()):
        audit_record(actor=actor, action="token.revoke", target=token, project=project)
    token.refresh_from_db()


def token_touch(*, token: ApiToken, now: datetime) -> None:
    """Records that it was used; at most once a minute, so that reads do not become writes."""
    if token.last_used_at is not None and now - token.last_used_at < TOUCH_EVERY:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - TOUCH_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def _name(name: str) -> str:
    cut = name.strip()
    if not 1 <= len(cut) <= 100 or not cut.isprintable():
        raise Invalid.field("name", "give it a name of 1 to 100 characters to recognize it by")
    return cut


def _scopes(actor: Actor, project: Project, scopes: Sequence[str]) -> list[str]:
    wanted = set(scopes)
    if not wanted:
        raise Invalid.field("scopes", "choose at least one scope")
    unknown = sorted(wanted - {scope.value for scope in TOKEN_SCOPES})
    if unknown:
        raise Invalid.field("scopes", f"not a scope of API tokens: {', '.join(unknown)}")
    held = {permission.value for permission in actor.on_project(project.pk, project.organization_id)}
    if missing := sorted(wanted - held):
        raise Forbidden(
            f"your role does not include {', '.join(missing)}, so your token cannot include it either",
            detail={"permission": missing[0]},
        )
    return sorted(wanted)


def _expiry(expires_at: datetime) -> datetime:
    now = current()
    if expires_at <= now:
        raise Invalid.field("expires_at", "the expiry must be in the future")
    if expires_at > now + LONGEST:
        raise Invalid.field("expires_at", "a token can be valid for at most 365 days")
    return expires_at

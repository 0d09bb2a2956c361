"""Credentials issued to people: how long they are valid, and their present state. The credential itself is never
stored."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models

from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import Access
from tenants.models import User

LIFETIME_MIN = timedelta(minutes=10)  # the least that Kubernetes' TokenRequest gives
LIFETIME_MAX = timedelta(hours=24)  # the most that a policy may allow
LIFETIME_DEFAULT = timedelta(hours=8)


class GrantStanding(models.TextChoices):
    """Of an issued credential. Ending: its end was requested, and the site has not confirmed it yet."""

    VALID = "valid", "Valid"
    ENDING = "ending", "Ending"
    REVOKED = "revoked", "Revoked"
    EXPIRED = "expired", "Expired"


def standing(*, revoked_at: datetime | None, expires_at: datetime, ending: bool) -> GrantStanding:
    if revoked_at is not None:
        return GrantStanding.REVOKED
    if expires_at <= now():
        return GrantStanding.EXPIRED
    return GrantStanding.ENDING if ending else GrantStanding.VALID


def lifetime_max() -> timedelta:
    """The longest lifetime by the provider's policy."""
    return min(timedelta(hours=settings.ACCESS_HOURS_MAX), LIFETIME_MAX)


def lifetime_of(asked: timedelta | None, *, default: timedelta = LIFETIME_DEFAULT) -> timedelta:
    """The requested lifetime, or the default within the policy. Raises Invalid."""
    most = lifetime_max()
    lifetime = min(default, most) if asked is None else asked
    if not LIFETIME_MIN <= lifetime <= most:
        hours = most // timedelta(hours=1)
        raise Invalid.field(
            "lifetime",
            f"a credential can be valid from 10 minutes to {hours} {'hour' if hours == 1 else 'hours'}",
        )
    return lifetime


def grantee_of(grants: models.QuerySet[Any], *, username: str, user_id: uuid.UUID | None) -> User:
    """Somebody to whom one of `grants` was issued, by name or by id. Raises NotFound for anybody else, whether they
    exist or not."""
    people = User.objects.filter(pk__in=grants.values("user"))
    found = (
        one_or_none(people.filter(username=username))
        if user_id is None
        else one_or_none(people.filter(pk=user_id))
    )
    if found is None:
        raise NotFound("nothing was issued to anybody of this name")
    return found


def grant_issue(grant: models.Model, ask: Callable[[], Access], *, unknown: str) -> Access:
    """Recorded before the site is asked, so that no unknown credential exists.

    A refusal deletes the record; a site that does not answer may have issued the credential anyway. unknown: the
    message if the site does not know the subject yet.
    """
    grant.save(force_insert=True)
    try:
        return ask()
    except Unavailable:
        raise
    except GpuaasError as error:
        grant.delete()
        if isinstance(error, NotFound):
            raise Conflict(unknown) from error
        raise

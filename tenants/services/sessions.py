"""Sessions of browsers: ended one by one, or all of a person at once."""

from collections.abc import Collection, Mapping
from typing import Any

from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.events import publish, user_group
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import person_require


@transaction.atomic
def sessions_end(
    *,
    actor: Actor,
    user: User,
    only: Collection[str] | None = None,
    but: Collection[str] = (),
    link: SocialAccount | None = None,
) -> int:
    """Signs a person out: by themselves, or by an operator. How many sessions ended.

    All are looked through, as those from before an upgrade are in no list; only, but: by their keys; link: those that began
    by this identity at the provider.
    """
    person_require(actor=actor, user=user, permission=Permission.PLATFORM_MANAGE)
    person = User.objects.select_for_update().get(pk=user.pk)
    rows = Session.objects.filter(expire_date__gt=clock.now()).exclude(pk__in=but)
    if only is not None:
        rows = rows.filter(pk__in=only)
    kept = ((row.pk, row.get_decoded()) for row in rows.iterator())
    theirs = ((key, held) for key, held in kept if held.get(SESSION_KEY) == str(user.pk))
    ended = [key for key, held in theirs if link is None or _began_by(link, held)]
    Session.objects.filter(pk__in=ended).delete()
    UserSession.objects.filter(session_key__in=ended).delete()
    if ended:
        audit_record(actor=actor, action="user.sign_out", target=person, after={"sessions": len(ended)})
        session_changed(person)
    return len(ended)


def _began_by(link: SocialAccount, held: Mapping[str, Any]) -> bool:
    ways = held.get(AUTHENTICATION_METHODS_SESSION_KEY) or []
    return any((way.get("provider"), way.get("uid")) == (link.provider, link.uid) for way in ways)


def session_changed(user: User) -> None:
    """Open pages of the person ask at once whether their session still holds."""
    publish(kind="membership", id=user.pk, groups=(user_group(user.pk),))

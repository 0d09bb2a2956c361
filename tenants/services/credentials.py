"""Passwords and second factors that people change on pages of allauth, which says so afterwards."""

from typing import Any

from allauth.account.signals import password_changed, password_reset, password_set
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from django.db import transaction

from gpuaas.core.errors import Conflict
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import platform_require

ACTIONS = {
    password_changed: "user.password_change",
    password_set: "user.password_change",
    password_reset: "user.password_reset",
    authenticator_added: "user.second_factor_add",
    authenticator_removed: "user.second_factor_remove",
    authenticator_reset: "user.second_factor_renew",
}


def credentials_watch() -> None:
    """Each of them is in the audit log from then on."""
    for signal, action in ACTIONS.items():
        signal.connect(_recording(action), weak=False, dispatch_uid=action)


def _recording(action: str) -> Any:
    def record(*, user: Any, authenticator: Any = None, **_more: Any) -> None:
        after = {"kind": str(authenticator.type)} if authenticator is not None else None
        # a link by mail is opened by who is not signed in: it is the person who acts
        actor = Actor(user_id=user.pk, name=user.username)
        audit_record(actor=actor, action=action, target=User.objects.get(pk=user.pk), after=after)

    return record


@transaction.atomic
def second_factor_remove(*, actor: Actor, user: User) -> None:
    """Takes a second factor off that somebody has lost, with its recovery codes: by another operator. Nothing happens without one.

    Raises Conflict for one's own: the page of the account asks for the password first, which a stolen session lacks.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if actor.owns(user.pk):
        raise Conflict("your own second factor is on the page of your account")
    person = User.objects.select_for_update().get(pk=user.pk)
    rows = Authenticator.objects.filter(user=person)
    kinds = sorted(rows.values_list("type", flat=True))
    if kinds:
        rows.delete()
        audit_record(actor=actor, action="user.second_factor_remove", target=person, before={"kinds": kinds})

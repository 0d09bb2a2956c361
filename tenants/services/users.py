"""People: invited by an operator, or created when they first sign in with the provider's OIDC. There is no sign-up."""

from typing import Any

from allauth.account.models import EmailAddress
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.rows import version_require
from gpuaas.core.validation import row_check
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission, PlatformRole
from tenants.selectors import platform_require
from tenants.services.addresses import address_free_require, name_free_require
from tenants.services.checks import choice_check
from tenants.services.sessions import session_changed, sessions_end


@transaction.atomic
def user_create(
    *,
    actor: Actor,
    username: str,
    email: str,
    first_name: str = "",
    last_name: str = "",
    platform_role: str = PlatformRole.NONE,
    password: str | None = None,
) -> User:
    """Without a password they set one by "forgot password", or sign in with the provider's OIDC."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    user = User(
        username=username,
        email=email.strip().lower(),
        first_name=first_name,
        last_name=last_name,
        platform_role=choice_check("platform_role", platform_role, PlatformRole),
    )
    _password_set(user, password)
    name_free_require(username)
    address_free_require(user.email)
    row_check(user)
    user.save(force_insert=True)
    _recorded(actor, "create", user, after={"username": username, "platform_role": user.platform_role})
    return user


@transaction.atomic
def user_update(
    *,
    actor: Actor,
    user: User,
    username: str,
    email: str,
    first_name: str,
    last_name: str,
    expected_version: int | None = None,
) -> None:
    """Another name or address. The old address opens nothing any more: no sign-in, no mailed link. Raises StaleVersion if another
    version is current."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    wanted = {
        "username": username,
        "email": email.strip().lower(),
        "first_name": first_name,
        "last_name": last_name,
    }
    if username != user.username:
        name_free_require(username, but=user)
    if wanted["email"] != user.email:
        address_free_require(wanted["email"], but=user)
    row = User.objects.select_for_update().get(pk=user.pk)
    version_require(row.version, expected_version, "account")
    before = {name: getattr(row, name) for name in wanted if getattr(row, name) != wanted[name]}
    if not before:
        return
    for name in before:
        setattr(row, name, wanted[name])
    row_check(row)
    row.version += 1
    row.save(update_fields=[*before, "version"])
    EmailAddress.objects.filter(user=row).exclude(email=row.email).delete()
    _recorded(actor, "update", row, before=before, after={name: wanted[name] for name in before})
    user.refresh_from_db()


@transaction.atomic
def user_platform_role_set(*, actor: Actor, user: User, platform_role: str) -> None:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    role = choice_check("platform_role", platform_role, PlatformRole)
    row, is_last = _locked(user)
    if actor.owns(user.pk) and role != row.platform_role:
        raise Conflict("you cannot change your own role; ask another operator")
    if role == row.platform_role:
        return
    if is_last:
        raise _last(row)
    User.objects.filter(pk=user.pk).update(platform_role=role)
    _recorded(actor, "role", user, before={"platform_role": row.platform_role}, after={"platform_role": role})
    _access_follows(user)
    user.refresh_from_db()


@transaction.atomic
def user_deactivate(*, actor: Actor, user: User) -> None:
    """Sessions end, also for when the account is enabled again; tokens rest until then, and access at the sites follows. What the
    person created stays."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if actor.owns(user.pk):
        raise Conflict("you cannot disable your own account; ask another operator")
    if _locked(user)[1]:
        raise _last(user)
    _active_set(actor, user, active=False)
    sessions_end(actor=actor, user=user)


@transaction.atomic
def user_activate(*, actor: Actor, user: User) -> None:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    _active_set(actor, user, active=True)


def _locked(user: User) -> tuple[User, bool]:
    """The person as they are now, and whether nobody else is an operator: the last one could not be replaced. All are locked in
    the order of their ids, so that two operators who remove each other run one after the other."""
    those = Q(platform_role=PlatformRole.OPERATOR, is_active=True) | Q(pk=user.pk)
    rows = {row.pk: row for row in User.objects.select_for_update().filter(those).order_by("pk")}
    operators = {
        row.pk for row in rows.values() if row.is_active and row.platform_role == PlatformRole.OPERATOR
    }
    return rows[user.pk], operators == {user.pk}


def _last(user: User) -> Conflict:
    return Conflict(f"{user.username} is the last operator; make another account an operator first")


def _active_set(actor: Actor, user: User, *, active: bool) -> None:
    if User.objects.filter(pk=user.pk, is_active=not active).update(is_active=active):
        _recorded(actor, "activate" if active else "deactivate", user)
        _access_follows(user)
    user.refresh_from_db()


def _access_follows(user: User) -> None:
    """At the sites, and on open pages."""
    poke("workspaces.person_sync", str(user.pk))
    poke("clusters.revoke")
    session_changed(user)


def _password_set(user: User, password: str | None) -> None:
    if password is None:
        user.set_unusable_password()
        return
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(
            "this password is too weak; choose a better one", fields={"password": error.messages}
        ) from error
    user.set_password(password)


def _recorded(
    actor: Actor,
    verb: str,
    user: User,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    audit_record(actor=actor, action=f"user.{verb}", target=user, before=before, after=after)

"""The way in by the provider's OpenID Connect: to the account that was invited with this address, or, where sign-up is open,
to a new one. Never to a second one with the address of somebody."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from allauth.socialaccount.models import SocialAccount
from allauth.utils import generate_unique_username
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.core.queue import poke
from gpuaas.core.rows import one_or_none
from tenants.actors import Actor
from tenants.addresses import folded, with_address
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import actor_for, person_require
from tenants.services.addresses import accounts_lock
from tenants.services.sessions import sessions_end


@dataclass(frozen=True)
class Said:
    """What the provider says of a person: the address that it names, and whether it has verified that it is theirs."""

    address: str
    verified: bool
    name: str
    first_name: str
    last_name: str


def said_of(data: dict[str, Any]) -> Said:
    """Of the claims as allauth keeps them. Verified is what one of them says with the value true and none denies: a text such
    as "true" verifies nothing."""
    claims = [one for one in (data.get("userinfo"), data.get("id_token")) if isinstance(one, dict)] or [data]

    def text(name: str) -> str:
        found = (one.get(name) for one in claims)
        return next((value for value in found if isinstance(value, str)), "")[:150]

    named = {folded(str(one["email"])) for one in claims if one.get("email")}
    verdicts = [one["email_verified"] for one in claims if "email_verified" in one]
    confirmed = {folded(str(one.get("email"))) for one in claims if one.get("email_verified") is True}
    address = _valid(named.pop()) if len(named) == 1 else ""
    return Said(
        address=address,
        verified=bool(address) and confirmed == {address} and all(one is True for one in verdicts),
        name=text("preferred_username"),
        first_name=text("given_name"),
        last_name=text("family_name"),
    )


def _valid(address: str) -> str:
    try:
        validate_email(address)
    except ValidationError:
        return ""
    return address if len(address) <= 254 else ""


@transaction.atomic
def user_enter(*, link: SocialAccount, signup: bool) -> User:
    """Whose account somebody enters who signs in at the provider for the first time; `link`, not saved yet, leads there from
    now on. Raises Forbidden with what they can do. A disabled account is returned as it is, with no link.
    """
    said = said_of(link.extra_data)
    accounts_lock()
    invited = with_address(User.objects.select_for_update(), said.address)
    known = one_or_none(
        SocialAccount.objects.filter(provider=link.provider, uid=link.uid).select_related("user")
    )
    if known is not None:  # of two at once
        entered: User = known.user
        return entered
    if not said.verified and (invited is not None or not signup):
        raise Forbidden(
            "the provider has not confirmed that your e-mail address is yours, so no account can be opened by it; "
            "have it confirmed there, or sign in with your password"
        )
    if invited is not None:
        return _linked(link, invited)
    if not signup:
        raise Forbidden(
            f"no account has the address {said.address}; ask the admin of your project or an operator for one"
        )
    return _signed_up(link, said)


def _linked(link: SocialAccount, user: User) -> User:
    if not user.is_active:
        return user
    if SocialAccount.objects.filter(user=user, provider=link.provider).exists():
        raise Forbidden(
            "somebody else at the provider already enters the account with your address; ask an operator of the portal"
        )
    _link(link, user, "user.enter")
    poke("workspaces.person_sync", str(user.pk))  # sites may know the person by it from now on
    return user


def _signed_up(link: SocialAccount, said: Said) -> User:
    address = said.address if said.verified else ""
    username = generate_unique_username([said.name, said.address, said.first_name, "person"])
    user = User(username=username, email=address, first_name=said.first_name, last_name=said.last_name)
    user.set_unusable_password()
    user.save(force_insert=True)
    _link(link, user, "user.sign_up")
    return user


@transaction.atomic
def link_remove(*, actor: Actor, link: SocialAccount, but: Collection[str] = ()) -> None:
    """Takes the identity at the provider off the account: by the person, where something else lets them in, or by an operator.
    Sessions that began by it end (but: keys of those that stay), and sites that know the person by it forget it.
    A next sign-in there with the verified address enters the account again, as the first one did."""
    user = User.objects.select_for_update().get(pk=link.user_id)
    person_require(actor=actor, user=user, permission=Permission.PLATFORM_MANAGE)
    others = SocialAccount.objects.filter(user=user).exclude(pk=link.pk)
    if actor.owns(user.pk) and not user.has_usable_password() and not others.exists():
        raise Conflict("this is your only way in; set a password first")
    if SocialAccount.objects.filter(pk=link.pk).delete()[0]:
        before = {"provider": link.provider, "identity": link.uid}
        audit_record(actor=actor, action="user.unlink", target=user, before=before)
        sessions_end(actor=actor, user=user, but=but, link=link)
        poke("workspaces.person_sync", str(user.pk))


def _link(link: SocialAccount, user: User, action: str) -> None:
    link.user = user
    link.save()
    after = {"provider": link.provider, "address": user.email}
    audit_record(actor=actor_for(user=user), action=action, target=user, after=after)

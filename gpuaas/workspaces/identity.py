"""The identities of people at a site's own OIDC: known only if the portal's sign-in and the site trust the same
issuer."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import SignIn, sign_in_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import AccessRole


def identities_of(site: Site, user_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """The names by which the site knows people. A `sub` of another issuer is another person, so it gives no name
    here."""
    sign_in = _sign_in(site)
    provider = portal_issuers().get(sign_in.issuer_url) if sign_in else None
    if sign_in is None or provider is None:
        return {}
    rows = SocialAccount.objects.filter(user__in=list(user_ids), provider=provider).order_by("pk")
    named = {row.user_id: _claimed(row, sign_in.username_claim) for row in rows}
    return {pk: sign_in.username_prefix + claim for pk, claim in named.items() if claim}


def groups_of(workspace: Workspace) -> dict[str, str]:
    """`<prefix>climate/weather-lm/edit`: members of a group with such a name have that role in every workspace of the
    project."""
    sign_in = _sign_in(workspace.site)
    if sign_in is None or not sign_in.groups_prefix:
        return {}
    project = workspace.project
    path = f"{sign_in.groups_prefix}{project.organization.slug}/{project.slug}"
    return {role.value: f"{path}/{role.value}" for role in AccessRole}


def _sign_in(site: Site) -> SignIn | None:
    """Values stored before validation existed are ignored."""
    try:
        return sign_in_of(site.options)
    except Invalid:
        return None


def _claimed(row: SocialAccount, claim: str) -> str:
    """An unverified address proves nothing."""
    if claim == "sub":
        return str(row.uid)
    claims = _claims(row.extra_data)
    verified = claims.get("email_verified") is True
    value = claims.get(claim)
    return value if verified and isinstance(value, str) and "@" in value else ""


def portal_issuers() -> dict[str, str]:
    """Issuer → allauth's name of the provider."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return {_issuer(app["settings"]["server_url"]): app["provider_id"] for app in apps}


def _issuer(url: object) -> str:
    return str(url).removesuffix("/.well-known/openid-configuration").rstrip("/")


def _claims(extra: Any) -> Mapping[str, Any]:
    """allauth stores the claims flat, or separates those of the token and of the userinfo endpoint."""
    if not isinstance(extra, Mapping):
        return {}
    nested = [extra.get(part) for part in ("id_token", "userinfo")]
    parts = [part for part in nested if isinstance(part, Mapping)]
    return {key: value for part in parts or [extra] for key, value in part.items()}

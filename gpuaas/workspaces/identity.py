"""Who people are to a site's own OIDC: known only where the portal's sign-in and the site trust the same issuer."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from gpuaas.catalog.models import Site


def identities_of(site: Site, user_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """The claim that the site names people by, without its prefix. A `sub` of another issuer is another person."""
    options = site.options.get("oidc") if isinstance(site.options, Mapping) else None
    if not options or _issuer(options.get("issuer_url", "")) not in portal_issuers():
        return {}
    claim = options.get("username_claim") or "sub"
    rows = SocialAccount.objects.filter(user__in=list(user_ids), provider__in=portal_issuers().values())
    found: dict[uuid.UUID, str] = {}
    for row in rows.order_by("pk"):
        value = row.uid if claim == "sub" else _claim(row.extra_data, claim)
        # an unverified address is whatever its owner says
        if value and not (claim == "email" and _claims(row.extra_data).get("email_verified") is not True):
            found[row.user_id] = value
    return found


def portal_issuers() -> dict[str, str]:
    """Issuer → allauth's name of it."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return {_issuer(app["settings"]["server_url"]): app["provider_id"] for app in apps}


def _issuer(url: object) -> str:
    return str(url).removesuffix("/.well-known/openid-configuration").rstrip("/")


def _claims(extra: Any) -> Mapping[str, Any]:
    """allauth keeps the claims flat, or those of the token and of the user's page apart."""
    if not isinstance(extra, Mapping):
        return {}
    nested = [extra.get(part) for part in ("id_token", "userinfo")]
    parts = [part for part in nested if isinstance(part, Mapping)]
    return {key: value for part in parts or [extra] for key, value in part.items()}


def _claim(extra: Any, claim: str) -> str:
    value = _claims(extra).get(claim)
    return value if isinstance(value, str) else ""

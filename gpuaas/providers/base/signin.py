"""A site's own identity provider (OIDC), as its operator describes it among the site's options under `oidc`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gpuaas.core.errors import Invalid

CLAIMS = ("sub", "email")
KEYS = {"issuer_url", "client_id", "username_claim", "username_prefix", "groups_prefix"}


@dataclass(frozen=True)
class SignIn:
    """The OIDC flags of the site's API server: a person's user name there is username_prefix + the claim.

    groups_prefix "" = the site gets no groups.
    """

    issuer_url: str
    client_id: str
    username_claim: str
    username_prefix: str
    groups_prefix: str


def sign_in_of(options: Mapping[str, Any]) -> SignIn | None:
    """None if the site has none. Raises Invalid for the field `options`."""
    given = options.get("oidc")
    if given is None:
        return None
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise _wrong(f"must be an object of strings: {', '.join(sorted(KEYS))}")
    if unknown := sorted(given.keys() - KEYS):
        raise _wrong(f"has no key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    found = SignIn(
        issuer_url=given.get("issuer_url", "").rstrip("/"),
        client_id=given.get("client_id", ""),
        username_claim=given.get("username_claim", "sub"),
        username_prefix=given.get("username_prefix", ""),
        groups_prefix=given.get("groups_prefix", ""),
    )
    _validate(found)
    return found


def _validate(found: SignIn) -> None:
    issuer = urlsplit(found.issuer_url)
    if issuer.scheme != "https" or not issuer.netloc or issuer.query or issuer.fragment:
        raise _wrong("needs an issuer_url that begins with https://, as the site's API server has it")
    if not found.client_id or found.client_id.startswith("-"):
        raise _wrong("needs the client_id that the site's API server accepts")
    if found.username_claim not in CLAIMS:
        raise _wrong(f"needs a username_claim that is one of {', '.join(CLAIMS)}")
    for prefix in (found.username_prefix, found.groups_prefix):
        if prefix.startswith("system:"):
            raise _wrong("cannot have a prefix that begins with system:, which is reserved for Kubernetes")
    if not found.username_prefix and found.username_claim != "email":
        raise _wrong(
            "needs the username_prefix of the site's API server (by default the issuer and #): a bare sub could be anybody"
        )


def _wrong(what: str) -> Invalid:
    return Invalid.field("options", f"oidc {what}")

"""Sign-in from the environment: the provider's OpenID Connect beside passwords, and rate limits.

GPUAAS_OIDC_ISSUER enables it and then requires GPUAAS_OIDC_CLIENT_ID and GPUAAS_OIDC_CLIENT_SECRET (or _FILE).
GPUAAS_OIDC_NAME is the label of the button. GPUAAS_OIDC_SIGNUP gives an account to everybody whom the provider
authenticates.
"""

from typing import Any
from urllib.parse import urlsplit

from gpuaas.core import env

# What is no guess, in allauth's notation: times per span and per address (ip) or address of mail (key). Passwords and codes
# are counted by services/tries.py.
RATE_LIMITS = {
    "login": None,
    "login_failed": None,
    "reset_password": "60/m/ip,3/10m/key",
    "reset_password_from_key": "60/m/ip",
    "change_password": None,
    "reauthenticate": None,
}


def oidc_providers() -> dict[str, Any]:
    """allauth's SOCIALACCOUNT_PROVIDERS; empty without an issuer."""
    #: Signing in: the address of an OpenID Connect provider; without it people have passwords
    issuer = env.text("GPUAAS_OIDC_ISSUER", "")
    if not issuer:
        return {}
    app = {
        "provider_id": "oidc",
        #: Signing in: what the button says
        "name": env.text("GPUAAS_OIDC_NAME", "single sign-on"),
        #: Signing in: the portal's client there
        "client_id": env.text("GPUAAS_OIDC_CLIENT_ID"),
        #: Signing in: its secret
        "secret": env.text("GPUAAS_OIDC_CLIENT_SECRET"),
        "settings": {"server_url": issuer},
    }
    return {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}


def oidc_origins() -> list[str]:
    """Where the form of the sign-in leads when it is sent: browsers hold redirects to the policy of the page too."""
    issuer = urlsplit(env.text("GPUAAS_OIDC_ISSUER", ""))
    return [f"{issuer.scheme}://{issuer.netloc}"] if issuer.netloc else []


def oidc_signup_open() -> bool:
    #: Signing in: whether people without an invitation get an account
    return env.boolean("GPUAAS_OIDC_SIGNUP", default=False)

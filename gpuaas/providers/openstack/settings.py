"""Validates a cloud's credentials and options before they are saved, without calling it."""

from collections.abc import Mapping
from typing import Any

from gpuaas.core.errors import Invalid, Unusable
from gpuaas.providers.openstack import warden
from gpuaas.providers.openstack.classes import OPTION, PCI_CLASS, option_check
from gpuaas.providers.openstack.client import cloud_entry

TYPED = ("auth_url", "application_credential_id", "application_credential_secret")
# accounts and their secrets; one of each is needed
SIGN_INS = (
    (("username", "user_id"), ("password",)),
    (("application_credential_id", "application_credential_name"), ("application_credential_secret",)),
)
SURPLUS, HISTORY = "surplus_machines", "history_days"
HISTORY_DAYS, MOST_DAYS = 30, 3650


def credentials_check(credentials: Mapping[str, Any]) -> None:
    if not credentials:
        raise Invalid.field(
            "credentials", "an OpenStack site needs a clouds.yaml or an application credential"
        )
    typed = [name for name in TYPED if credentials.get(name)]
    if typed and credentials.get("clouds_yaml"):
        raise Invalid.field(
            f"credentials.{typed[0]}", "use either a clouds.yaml or an application credential, not both"
        )
    if missing := [name for name in TYPED if typed and name not in typed]:
        needed = "an application credential needs this too"
        raise Invalid(needed, fields={f"credentials.{name}": [needed] for name in missing})
    try:
        _auth_check(cloud_entry(credentials)["auth"])
    except Unusable as error:
        raise Invalid.field("credentials", error.message) from error


def _auth_check(auth: Mapping[str, Any]) -> None:
    """Requires an account and its secret. Raises Unusable."""
    whole = any(
        any(auth.get(name) for name in who) and any(auth.get(name) for name in proof)
        for who, proof in SIGN_INS
    )
    if not whole and not auth.get("token"):
        raise Unusable(
            "the cloud's section auth has neither a user with a password nor an application credential with its secret"
        )


def surplus_policy(options: Mapping[str, Any]) -> warden.Policy:
    """What happens to surplus machines. Raises Invalid for the field `options`."""
    wanted = options.get(SURPLUS, warden.Policy.SHELVE)
    try:
        return warden.Policy(wanted)
    except ValueError as error:
        raise Invalid.field("options", f"{SURPLUS} must be one of {', '.join(warden.Policy)}") from error


def history_days(options: Mapping[str, Any]) -> int:
    """For how long Nova's database keeps deleted machines. Raises Invalid for the field `options`."""
    days = options.get(HISTORY, HISTORY_DAYS)
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
        raise Invalid.field("options", f"{HISTORY} must be a whole number of days from 1 to {MOST_DAYS}")
    return days


def options_check(options: Mapping[str, Any]) -> None:
    surplus_policy(options)
    history_days(options)
    classes = option_check(options)
    for name, alias in (options.get("aliases") or {}).items():
        if not classes.is_known(name):
            raise Invalid.field(
                "options.aliases",
                f"{name!r} is not a resource class of GPUs: they begin with {PCI_CLASS}, or {OPTION} names their model",
            )
        if not alias or any(sign in alias for sign in ":, "):
            raise Invalid.field(
                "options.aliases", f"{alias!r} is not a valid alias of Nova's [pci] configuration"
            )

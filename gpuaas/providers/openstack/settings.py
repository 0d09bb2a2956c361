"""What an operator says of a cloud: judged before it is saved, without calling it."""

from collections.abc import Mapping
from typing import Any

from gpuaas.core.errors import Invalid, Unauthorized
from gpuaas.providers.openstack import names, warden
from gpuaas.providers.openstack.client import cloud_entry

TEXTS = ("domain", "external_network")
TOKEN_CACHE_MOST = 3600
SURPLUS, HISTORY = "surplus_machines", "history_days"
HISTORY_DAYS, MOST_DAYS = 30, 3650


def credentials_check(credentials: Mapping[str, Any]) -> None:
    if not credentials:
        raise Invalid.field(
            "credentials", "an OpenStack site needs a clouds.yaml or an application credential"
        )
    try:
        cloud_entry(credentials)
    except Unauthorized as error:
        raise Invalid.field("credentials", error.message) from error


def surplus_policy(options: Mapping[str, Any]) -> warden.Policy:
    """What becomes of a machine beyond what was bought. Raises Invalid beside `options`."""
    wanted = options.get(SURPLUS, warden.Policy.SHELVE)
    try:
        return warden.Policy(wanted)
    except ValueError as error:
        raise Invalid.field("options", f"{SURPLUS} is one of {', '.join(warden.Policy)}") from error


def history_days(options: Mapping[str, Any]) -> int:
    """For how long Nova's database keeps what was deleted. Raises Invalid beside `options`."""
    days = options.get(HISTORY, HISTORY_DAYS)
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
        raise Invalid.field("options", f"{HISTORY} is a whole number of days from 1 to {MOST_DAYS}")
    return days


def options_check(options: Mapping[str, Any]) -> None:
    surplus_policy(options)
    history_days(options)
    for name in TEXTS:
        if not isinstance(options.get(name, ""), str):
            raise Invalid.field("options", f"{name} is a text")
    projects, seconds = options.get("sites_projects", []), options.get("token_cache_seconds", 0)
    if not isinstance(projects, list) or not all(isinstance(each, str) for each in projects):
        raise Invalid.field("options", "sites_projects is a list of names of projects; * stands for anything")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= TOKEN_CACHE_MOST:
        raise Invalid.field(
            "options", f"token_cache_seconds is a number of seconds, {TOKEN_CACHE_MOST} at most"
        )
    aliases = options.get("aliases", {})
    if not isinstance(aliases, Mapping) or not all(isinstance(alias, str) for alias in aliases.values()):
        raise Invalid.field("options", "aliases is an object: resource class to alias")
    for name, alias in aliases.items():
        if not names.is_gpu_class(name):
            raise Invalid.field(
                "options", f"{name!r} is no resource class of GPUs: they begin with {names.PCI_CLASS}"
            )
        if not alias or any(sign in alias for sign in ":, "):
            raise Invalid.field("options", f"{alias!r} is no alias of Nova's [pci] configuration")

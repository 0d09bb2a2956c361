"""Policies by name: those of the portal, and those that operators install as entry points of the group `gpuaas.policies`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import structlog

from gpuaas.clusters.policies.facts import Policy
from gpuaas.clusters.policies.kinds import GpuUse, JobQueue, PendingPods, Schedule
from gpuaas.core.errors import GpuaasError, Invalid
from gpuaas.core.schema import Schema, document_check, schema_compile

log = structlog.get_logger(__name__)
GROUP = "gpuaas.policies"
BUILT_IN: dict[str, type[Policy]] = {
    "pending": PendingPods,
    "queue": JobQueue,
    "use": GpuUse,
    "schedule": Schedule,
}


@dataclass(frozen=True)
class Kind:
    """A kind of policy that can be chosen; `schema` is that of its settings, compiled. needs_signals: it needs the
    demand, so the driver has to report it."""

    name: str
    label: str
    schema: Schema
    made: type[Policy]
    needs_signals: bool


@cache
def kinds() -> Mapping[str, Kind]:
    """The kinds that can be chosen, in this order. One that cannot be loaded, or has the name of one of the portal's,
    is left out and logged; the others stay. Read once per process: installing one requires a restart."""
    known = {name: kind_of(name, made) for name, made in BUILT_IN.items()}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        if entry.name in known:
            log.error("policy_not_loaded", policy=entry.name, reason="a policy of this name already exists")
            continue
        try:
            known[entry.name] = kind_of(entry.name, entry.load())
        except Exception as error:
            log.exception("policy_not_loaded", policy=entry.name, reason=str(error))
    return known


def kind_of(name: str, made: Any) -> Kind:
    if not name or len(name) > 32 or not callable(getattr(made, "decide", None)):
        raise TypeError("a policy needs a name of at most 32 characters and a method `decide`")
    schema = schema_compile(made.schema)
    if schema["type"] != "object":
        raise TypeError("the settings of a policy must be an object")
    return Kind(name, str(made.label)[:60], schema, made, bool(getattr(made, "needs_signals", True)))


def kind_get(name: str) -> Kind:
    """Raises Invalid on `kind`."""
    found = kinds().get(name)
    if found is None:
        raise Invalid.field("kind", f"unknown policy {name[:40]!r}; known: {', '.join(kinds())}")
    return found


def settings_check(kind: Kind, given: Any) -> dict[str, Any]:
    """With the defaults filled in. Raises Invalid on `settings.…`."""
    try:
        settings = document_check(kind.schema, given)
        kind.made(settings)
    except Invalid as error:
        fields = {
            f"settings.{name}" if name else "settings": messages for name, messages in error.fields.items()
        }
        raise Invalid(error.message, fields=fields) from error
    except GpuaasError:
        raise
    except Exception as error:
        words = f"the policy {kind.name} refuses these settings: {error}"[:300]
        raise Invalid.field("settings", words) from error
    return settings


def policy_make(name: str, settings: Mapping[str, Any]) -> Policy:
    """With settings that were validated before; raises Invalid if its plug-in is gone or broken now."""
    kind = kind_get(name)
    try:
        return kind.made(settings)
    except Exception as error:
        words = f"the policy {name} cannot be created: {type(error).__name__}: {error}"[:300]
        raise Invalid.field("kind", words) from error

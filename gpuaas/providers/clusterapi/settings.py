"""A template's settings for this driver: its ClusterClass, and how an order becomes variables of the topology."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpuaas.core.errors import Invalid
from gpuaas.providers.kubeapi.manifests import MANIFESTS_MAX
from gpuaas.providers.kubeapi.names import NAME

VARIABLE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,62}")
REPAIR_MAX = 24 * 3600


@dataclass(frozen=True)
class Addon:
    """Either a variable of the class that switches it on, or manifests that are applied in the cluster."""

    variable: str = ""
    manifests: str = ""


@dataclass(frozen=True)
class ClassSettings:
    """`flavors`: a flavor's name in the class; others use their slug. `parameters`: the variable that an order's parameter
    sets, if it has another name. `repair_after`: seconds that a node may be broken before its machine is
    replaced, where the class has no health check of its own."""

    name: str
    namespace: str
    worker_class: str
    pool_classes: Mapping[str, str] = field(default_factory=dict)
    flavor_variable: str = ""
    flavors: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    addons: Mapping[str, Addon] = field(default_factory=dict)
    repair_after: int = 300


KEYS = {
    "class",
    "class_namespace",
    "worker_class",
    "pool_classes",
    "flavor_variable",
    "flavors",
    "variables",
    "parameters",
    "addons",
    "repair_after_seconds",
}


def settings_read(given: Mapping[str, Any]) -> ClassSettings:
    """Raises Invalid for the field `settings`, with the path."""
    if unknown := sorted(set(map(str, given)) - KEYS):
        raise _bad(unknown[0][:40], f"there is no such setting; known: {', '.join(sorted(KEYS))}")
    return ClassSettings(
        name=_text(given, "class", NAME),
        namespace=_text(given, "class_namespace", NAME),
        worker_class=_text(given, "worker_class", NAME),
        pool_classes=_texts(given, "pool_classes", NAME),
        flavor_variable=_text(given, "flavor_variable", VARIABLE) if "flavor_variable" in given else "",
        flavors=_texts(given, "flavors", re.compile(r".{1,200}")),
        variables=_variables(given),
        parameters=_texts(given, "parameters", VARIABLE),
        addons={str(name): _addon(f"addons.{name}", one) for name, one in _object(given, "addons").items()},
        repair_after=_seconds(given),
    )


def _bad(path: str, words: str) -> Invalid:
    return Invalid.field("settings", f"settings.{path}: {words}")


def _text(given: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _bad(key, f"this is required: a name that matches {pattern.pattern}")
    return value


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, Mapping):
        raise _bad(key, "this must be a JSON object")
    return value


def _texts(given: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> dict[str, str]:
    found = _object(given, key)
    for name, value in found.items():
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _bad(f"{key}.{name}", f"this must be a text that matches {pattern.pattern}")
    return {str(name): value for name, value in found.items()}


def _variables(given: Mapping[str, Any]) -> dict[str, Any]:
    found = _object(given, "variables")
    for name in found:
        if not VARIABLE.fullmatch(str(name)):
            raise _bad(f"variables.{str(name)[:40]}", "this is not a valid name of a variable")
    return dict(found)


def _seconds(given: Mapping[str, Any]) -> int:
    value = given.get("repair_after_seconds", ClassSettings.repair_after)
    if type(value) is not int or not 0 <= value <= REPAIR_MAX:
        raise _bad("repair_after_seconds", f"this must be a whole number from 0 to {REPAIR_MAX}")
    return value


def _addon(path: str, given: Any) -> Addon:
    if not isinstance(given, Mapping) or set(given) not in ({"variable"}, {"manifests"}):
        raise _bad(path, 'this must be either {"variable": …}, of the class, or {"manifests": "…"}, as YAML')
    if "variable" in given:
        return Addon(variable=_text_at(path, given["variable"]))
    text = given["manifests"]
    if not isinstance(text, str) or not 0 < len(text) <= MANIFESTS_MAX:
        raise _bad(f"{path}.manifests", f"this must be a text of at most {MANIFESTS_MAX} characters")
    try:
        found = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        raise _bad(f"{path}.manifests", "this is not valid YAML") from error
    if not found or not all(
        isinstance(one, dict) and one.get("kind") and one.get("apiVersion") for one in found
    ):
        raise _bad(f"{path}.manifests", "each document must be an object with apiVersion and kind")
    return Addon(manifests=text)


def _text_at(path: str, value: Any) -> str:
    if not isinstance(value, str) or not VARIABLE.fullmatch(value):
        raise _bad(f"{path}.variable", "this is not a valid name of a variable")
    return value

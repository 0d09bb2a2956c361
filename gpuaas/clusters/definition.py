"""The document of a template version, typed: releases, control plane, pools, add-ons, parameters; and the schema of
an order."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuaas.clusters.releases import release_order
from gpuaas.core.schema import Schema, Unfit, schema_compile
from gpuaas.providers.base import ClusterKind

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,18}[a-z0-9])?")
COUNT_MAX = 500
SIZES = {"vcpus": 1024, "memory_gib": 16384, "disk_gib": 65536}
PARTS = {"releases", "control_plane", "pools", "addons", "parameters", "settings", "burst"}
NOTHING: Schema = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class PoolDefinition:
    """`flavors` are slugs of the catalog; the number of workers is from minimum to maximum."""

    name: str
    label: str
    flavors: tuple[str, ...]
    minimum: int
    maximum: int
    default: int


@dataclass(frozen=True)
class AddonDefinition:
    name: str
    label: str
    default: bool
    required: bool


@dataclass(frozen=True)
class Definition:
    """`releases` from the oldest to the newest; counts: possible numbers of control plane machines, with their size.
    burst: slugs of other sites where pools can be, by flavors of those sites."""

    kind: ClusterKind
    releases: tuple[str, ...]
    counts: tuple[int, ...]
    vcpus: int
    memory_gib: int
    disk_gib: int
    pools: tuple[PoolDefinition, ...]
    addons: tuple[AddonDefinition, ...]
    parameters: Schema
    settings: Mapping[str, Any]
    burst: tuple[str, ...] = ()

    def pool(self, name: str) -> PoolDefinition:
        return next(pool for pool in self.pools if pool.name == name)

    @property
    def schema(self) -> Schema:
        """The schema of an order: the same for the form, the API and the command line."""
        return schema_compile(
            {
                "type": "object",
                "required": ["release", "control_plane", "pools", "addons", "parameters"],
                "properties": {
                    "release": _choice("Release", list(self.releases), self.releases[-1]),
                    "control_plane": {
                        "type": "integer",
                        "title": "Machines of the control plane",
                        "enum": list(self.counts),
                        "default": self.counts[0],
                    },
                    "pools": _all({pool.name: _pool_schema(pool) for pool in self.pools}),
                    "addons": {
                        "type": "object",
                        "properties": {
                            one.name: {"type": "boolean", "title": one.label, "default": one.default}
                            for one in self.addons
                            if not one.required
                        },
                    },
                    "parameters": self.parameters,
                },
            }
        )


def definition_read(document: Any, *, kind: str) -> Definition:
    """Raises Unfit with the place and the error."""
    given = _mapping(document, "", PARTS)
    control = _mapping(given.get("control_plane"), "control_plane", {*SIZES, "counts"})
    pools = tuple(_pool(one, f"pools.{at}") for at, one in enumerate(_list(given, "pools", least=1)))
    addons = tuple(_addon(one, f"addons.{at}") for at, one in enumerate(_list(given, "addons")))
    _once([pool.name for pool in pools], "pools")
    _once([addon.name for addon in addons], "addons")
    settings = given.get("settings", {})
    if not isinstance(settings, Mapping):
        raise Unfit("settings", "the settings of the driver must be a JSON object")
    parameters = schema_compile(given.get("parameters", NOTHING), path="parameters")
    if parameters["type"] != "object":
        raise Unfit("parameters", "the parameters must be an object")
    return Definition(
        kind=ClusterKind(kind),
        releases=_releases(given, ClusterKind(kind)),
        counts=_counts(control),
        parameters=parameters,
        pools=pools,
        addons=addons,
        settings=dict(settings),
        burst=_burst(given),
        **{key: _number(control, key, f"control_plane.{key}", 1, most) for key, most in SIZES.items()},
    )


def _releases(given: Mapping[str, Any], kind: ClusterKind) -> tuple[str, ...]:
    named = _list(given, "releases", least=1)
    if not all(isinstance(one, str) and len(one) <= 32 for one in named):
        raise Unfit("releases", "a release must be text of at most 32 characters")
    _once(named, "releases")
    try:
        return tuple(sorted(named, key=lambda one: release_order(kind, one)))
    except ValueError as error:
        raise Unfit("releases", str(error)) from error


def _burst(given: Mapping[str, Any]) -> tuple[str, ...]:
    named = _list(given, "burst")
    if not all(isinstance(slug, str) and 0 < len(slug) <= 64 for slug in named):
        raise Unfit("burst", "list the slugs of the sites where pools can be")
    _once(named, "burst")
    return tuple(named)


def _counts(control: Mapping[str, Any]) -> tuple[int, ...]:
    counts = control.get("counts", [1])
    if not isinstance(counts, list) or not counts or not all(type(one) is int for one in counts):
        raise Unfit("control_plane.counts", "list the numbers of machines to choose from")
    if not all(1 <= one <= 9 and one % 2 for one in counts) or len(set(counts)) != len(counts):
        raise Unfit(
            "control_plane.counts", "a control plane needs 1, 3, 5, 7 or 9 machines, to have a majority"
        )
    return tuple(counts)


def _pool(given: Any, path: str) -> PoolDefinition:
    one = _mapping(given, path, {"name", "label", "flavors", "min", "max", "default"})
    flavors = _list(one, "flavors", least=1, path=f"{path}.flavors")
    if not all(isinstance(slug, str) and 0 < len(slug) <= 64 for slug in flavors):
        raise Unfit(f"{path}.flavors", "name a flavor by its slug")
    _once(flavors, f"{path}.flavors")
    least = _number(one, "min", f"{path}.min", 0, COUNT_MAX)
    most = _number(one, "max", f"{path}.max", max(least, 1), COUNT_MAX)
    name = _name(one, path)
    if name == "control":
        raise Unfit(f"{path}.name", "control is the name of the control plane: give the pool another name")
    return PoolDefinition(
        name=name,
        label=_label(one, path),
        flavors=tuple(flavors),
        minimum=least,
        maximum=most,
        default=_number({"default": least, **one}, "default", f"{path}.default", least, most),
    )


def _addon(given: Any, path: str) -> AddonDefinition:
    one = _mapping(given, path, {"name", "label", "default", "required"})
    chosen = {key: one.get(key, False) for key in ("default", "required")}
    if not all(type(value) is bool for value in chosen.values()):
        raise Unfit(path, "default and required must be true or false")
    return AddonDefinition(name=_name(one, path), label=_label(one, path), **chosen)


def _pool_schema(pool: PoolDefinition) -> Schema:
    count = {"type": "integer", "title": f"{pool.label}: workers", "default": pool.default}
    return _all(
        {
            "flavor": _choice(f"{pool.label}: flavor", list(pool.flavors), pool.flavors[0]),
            "count": {**count, "minimum": pool.minimum, "maximum": pool.maximum},
        }
    )


def _choice(title: str, values: list[str], default: str) -> Schema:
    return {"type": "string", "title": title, "enum": values, "default": default}


def _all(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


# -- reading ----------------------------------------------------------------------------------------------------------


def _mapping(given: Any, path: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise Unfit(path, "this must be a JSON object")
    if unknown := sorted(set(map(str, given)) - known):
        raise Unfit(path, f"unknown property {unknown[0][:40]!r}; known: {', '.join(sorted(known))}")
    return given


def _list(given: Mapping[str, Any], key: str, *, least: int = 0, path: str = "") -> list[Any]:
    entries = given.get(key, [])
    if not isinstance(entries, list) or not least <= len(entries) <= 20:
        raise Unfit(path or key, f"list {least or 'none'} to 20 of them")
    return entries


def _name(one: Mapping[str, Any], path: str) -> str:
    name = one.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Unfit(
            f"{path}.name",
            "a name has 1 to 20 lower-case letters, digits and hyphens, and starts with a letter",
        )
    return name


def _label(one: Mapping[str, Any], path: str) -> str:
    label = one.get("label", one.get("name"))
    if not isinstance(label, str) or not 0 < len(label) <= 60 or not label.isprintable():
        raise Unfit(f"{path}.label", "a label must be one line of at most 60 characters")
    return label


def _number(one: Mapping[str, Any], key: str, path: str, least: int, most: int) -> int:
    value = one.get(key)
    if type(value) is not int or not least <= value <= most:
        raise Unfit(path, f"a whole number from {least} to {most}")
    return value


def _once(names: list[str], path: str) -> None:
    if len(set(names)) != len(names):
        raise Unfit(path, "list each only once")

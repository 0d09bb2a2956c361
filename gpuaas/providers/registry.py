"""Drivers by name. Ours are listed here; others come by entry points of the group `gpuaas.drivers`.

A driver's classes are imported when a site of it is first used. A plug-in that cannot be loaded is left out and reported by
the system checks; its sites show the driver as missing, and nothing else is affected.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from gpuaas.core.declaration import declared_check
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterDriver, Connection, Driver, DriverKind
from gpuaas.providers.measured import measured

GROUP = "gpuaas.drivers"
# modules that declare KINDS
BUILT_IN = (
    "gpuaas.providers.kubernetes.kind",
    "gpuaas.providers.kubernetes.openshift.kind",
    "gpuaas.providers.openstack.kind",
    "gpuaas.providers.baremetal.kind",
    "gpuaas.providers.sandbox.kind",
    "gpuaas.providers.clusterapi.kind",
    "gpuaas.providers.vcluster.kind",
)


@dataclass(frozen=True)
class Known:
    """`broken`: plug-ins that could not be loaded, with the reason."""

    kinds: Mapping[str, DriverKind]
    broken: Mapping[str, str]


@cache
def known() -> Known:
    """Read once a process; `known.cache_clear()` reads again."""
    kinds = {kind.name: kind for module in BUILT_IN for kind in import_module(module).KINDS}
    broken: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            for kind in _kinds(entry.load()):
                _check(kind, kinds)
                kinds[kind.name] = kind
        except Exception as error:  # noqa: BLE001 - errors of foreign code are reported, not raised
            broken[entry.name] = f"{type(error).__name__}: {error}"
    return Known(kinds, broken)


def _kinds(found: Any) -> Iterator[DriverKind]:
    for kind in found if isinstance(found, Iterable) else (found,):
        if not isinstance(kind, DriverKind):
            raise TypeError(f"it names {type(kind).__name__}, not one or several DriverKinds")
        yield kind


def _check(kind: DriverKind, others: Mapping[str, DriverKind]) -> None:
    if kind.name in others:
        raise ValueError(f"there is a driver {kind.name!r} already")
    for path, base in ((kind.site, Driver), (kind.clusters, ClusterDriver)):
        if path and not issubclass(_load(path), base):
            raise TypeError(f"{path} is not a {base.__name__}")
    if not kind.site and not kind.clusters:
        raise ValueError(f"{kind.name} names neither a driver of sites nor one of clusters")


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def kinds_known() -> list[DriverKind]:
    """Built-in ones in their order, then plug-ins; experimental ones last."""
    return sorted(known().kinds.values(), key=lambda kind: bool(kind.experimental))


def site_kinds() -> list[DriverKind]:
    return [kind for kind in kinds_known() if kind.site]


def cluster_kinds() -> list[DriverKind]:
    return [kind for kind in kinds_known() if kind.clusters]


def driver_names() -> list[str]:
    return sorted(kind.name for kind in site_kinds())


def cluster_driver_names() -> list[str]:
    return sorted(kind.name for kind in cluster_kinds())


def clusters_only() -> frozenset[str]:
    """Drivers whose sites have no workspaces."""
    return frozenset(kind.name for kind in site_kinds() if not kind.workspaces)


def site_kind(name: str) -> DriverKind:
    """Raises Invalid for an unknown driver of sites."""
    kind = known().kinds.get(name)
    if kind is None or not kind.site:
        raise Invalid.field("driver", f"there is no driver {name!r}; known: {', '.join(driver_names())}")
    return kind


def kind_or_missing(name: str) -> DriverKind:
    """For pages: a driver that is no longer installed is represented by its name."""
    return known().kinds.get(name) or DriverKind(
        name="missing", label=name, summary="This driver is not installed here."
    )


def driver_for(name: str, connection: Connection) -> Driver:
    """Its calls are measured. Raises Invalid for an unknown driver."""
    found: type[Driver] = _load(site_kind(name).site)
    driver: Driver = measured(found)(connection)
    return driver


def driver_class(name: str) -> type[Driver]:
    """The class, for its capabilities, without a site; the base class if the driver is not installed."""
    path = kind_or_missing(name).site
    found: type[Driver] = _load(path) if path else Driver
    return found


def credentials_check(name: str, credentials: Mapping[str, Any]) -> None:
    """Raises Invalid for the field `credentials`, or for one of them (`credentials.token`)."""
    kind = site_kind(name)
    _load(kind.site).credentials_check(declared_check(kind.credentials, credentials, at="credentials"))


def options_check(name: str, options: Mapping[str, Any]) -> None:
    """Raises Invalid for the field `options`, or for one of them."""
    kind = site_kind(name)
    if kind.options is not None:
        declared_check(kind.options, options, at="options", complete=False)
    _load(kind.site).options_check(options)


def options_change_check(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises Invalid for the field `options` if the new ones are invalid or change a fixed option."""
    options_check(name, after)
    for option in sorted(driver_class(name).fixed_options):
        if (before.get(option) or "") != (after.get(option) or ""):
            raise Invalid.field(
                "options",
                f"{option} cannot change after the site is attached: existing objects are found by it",
            )


def cluster_driver_class(name: str) -> type[ClusterDriver]:
    """Raises Invalid for an unknown driver of clusters."""
    kind = known().kinds.get(name)
    if kind is None or not kind.clusters:
        names = ", ".join(cluster_driver_names())
        raise Invalid.field("driver", f"there is no driver of clusters {name!r}; known: {names}")
    found: type[ClusterDriver] = _load(kind.clusters)
    return found


def cluster_driver_for(name: str, connection: Connection) -> ClusterDriver:
    """As `driver_for`."""
    driver: ClusterDriver = measured(cluster_driver_class(name))(connection)
    return driver

"""Checks whether a cloud is ready to be sold; each check has a reason, and a remedy if it fails."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from gpuaas.core.errors import GpuaasError
from gpuaas.providers import verdicts
from gpuaas.providers.base import Check, Inventory
from gpuaas.providers.openstack import limits
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.preflight import canary, devices, platform, ports, privacy, server
from gpuaas.providers.verdicts import Kind

TRIED = (canary.LIMITS, ports.DIRECT, privacy.PRIVATE)
OF_DEVICES = (
    devices.PLACEMENT,
    devices.CLASSES,
    devices.REGISTERED,
    devices.DEFAULTS,
    devices.ALIASES,
    devices.MODELS,
    *TRIED,
)
KINDS: tuple[Kind, ...] = (
    server.SERVICES,
    server.VERSIONS,
    verdicts.CREDENTIALS,
    verdicts.PERMISSIONS,
    verdicts.CLOCK,
    *OF_DEVICES,
    platform.IMAGES,
    platform.NETWORK,
    platform.VOLUMES,
)


@dataclass(frozen=True)
class Site:
    """The site and its options; `probe` takes its inventory."""

    id: uuid.UUID
    cloud: Cloud
    domain: str
    external: str
    classes: Classes
    probe: Callable[[], Inventory]


def run(site: Site) -> tuple[Check, ...]:
    """In the order of KINDS. Raises Unavailable if Keystone does not answer, Unauthorized if it rejects our credentials."""
    found = {check.type: check for check in _checks(site)}
    return tuple(found[kind.type] for kind in KINDS)


def _checks(site: Site) -> Iterator[Check]:
    cloud = site.cloud
    yield server.services(cloud)
    yield _looked(server.VERSIONS, partial(server.versions, cloud))
    yield _looked(verdicts.CREDENTIALS, partial(server.credentials, cloud))
    yield _looked(verdicts.PERMISSIONS, partial(server.permissions, cloud))
    yield _looked(verdicts.CLOCK, partial(server.skew, cloud))
    yield _looked(platform.IMAGES, partial(platform.images, cloud))
    yield _looked(platform.NETWORK, partial(platform.network, cloud, site.external))
    yield _looked(platform.VOLUMES, partial(platform.volumes, cloud))
    yield from _of_devices(site)


def _of_devices(site: Site) -> Iterator[Check]:
    try:
        inventory = site.probe()
        registered = limits.registered_limits(site.cloud)
        elsewhere = limits.registered_elsewhere(site.cloud)
    except GpuaasError as error:
        yield from (_untried(kind, error) for kind in OF_DEVICES)
        return
    yield devices.in_placement(inventory)
    yield devices.understood(inventory)
    yield devices.registered(inventory, registered, elsewhere, site.cloud.region)
    yield devices.defaults(inventory, registered)
    yield devices.aliases(inventory)
    yield devices.models(inventory)
    yield from _tried(site, inventory, registered)


def _tried(site: Site, inventory: Inventory, registered: Mapping[str, Object]) -> Iterator[Check]:
    found: tuple[Check, ...]
    try:
        with canary.Canary(site.cloud, site.id, site.domain, site.classes).project(registered) as stage:
            found = (
                _looked(canary.LIMITS, partial(stage.limits, inventory, registered)),
                _looked(ports.DIRECT, partial(ports.direct, stage.own)),
                _looked(privacy.PRIVATE, partial(stage.private, registered)),
            )
    except GpuaasError as error:
        found = tuple(_untried(kind, error) for kind in TRIED)
    yield from found


def _looked(kind: Kind, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except GpuaasError as error:
        return _untried(kind, error)


def _untried(kind: Kind, error: GpuaasError) -> Check:
    return kind.unknown(
        "NotTried",
        f"This could not be checked: {error.message.rstrip('.')}.",
        "Fix what Services and Permissions report, then run the checks again.",
    )

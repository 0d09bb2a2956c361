"""Drivers by name; a driver's module is imported when a site of it is first used."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterDriver, Connection, Driver

DRIVERS = {
    "sandbox": "gpuaas.providers.sandbox.driver:SandboxDriver",
    "sandbox-cloud": "gpuaas.providers.sandbox.machines:SandboxCloudDriver",
    "kubernetes": "gpuaas.providers.kubernetes.driver:KubernetesDriver",
    "openstack": "gpuaas.providers.openstack.driver:OpenStackDriver",
    "bare-metal": "gpuaas.providers.baremetal.site:BareMetalSiteDriver",
    "openshift": "gpuaas.providers.kubernetes.openshift.driver:OpenShiftDriver",
}
# nothing at sites of these is asked for as a workspace
CLUSTERS_ONLY = frozenset({"bare-metal"})
CLUSTER_DRIVERS = {
    "sandbox": "gpuaas.providers.sandbox.clusters.driver:SandboxClusterDriver",
    "cluster-api": "gpuaas.providers.clusterapi.driver:ClusterApiDriver",
    "openshift-bare-metal": "gpuaas.providers.baremetal.driver:OpenShiftBareMetalDriver",
    "openstack": "gpuaas.providers.openstack.clusters.driver:OpenStackClusterDriver",
    "vcluster": "gpuaas.providers.vcluster.driver:VirtualClusterDriver",
}


def driver_names() -> list[str]:
    return sorted(DRIVERS)


def driver_for(name: str, connection: Connection) -> Driver:
    """Raises Invalid for a name that no driver has."""
    return _driver_class(name)(connection)


def driver_kind(name: str) -> type[Driver]:
    """What every site of the driver can do; asks no site, opens no credentials."""
    return _driver_class(name)


def default_disk_gib(name: str) -> int:
    return _driver_class(name).disk_gib


def credentials_check(name: str, credentials: Mapping[str, Any]) -> None:
    """Raises Invalid beside `credentials`."""
    _driver_class(name).credentials_check(credentials)


def options_check(name: str, options: Mapping[str, Any]) -> None:
    """Raises Invalid beside `options` for what the driver cannot work with."""
    _driver_class(name).options_check(options)


def options_change_check(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises Invalid beside `options` for what the driver cannot work with, or cannot any more."""
    driver = _driver_class(name)
    driver.options_check(after)
    for option in sorted(driver.fixed_options):
        if (before.get(option) or "") != (after.get(option) or ""):
            raise Invalid.field(
                "options",
                f"{option} stays as it was when the site was attached: what is there is found by it",
            )


def _driver_class(name: str) -> type[Driver]:
    path = DRIVERS.get(name)
    if path is None:
        raise Invalid.field("driver", f"there is no driver {name!r}; known: {', '.join(driver_names())}")
    module, _, attribute = path.partition(":")
    found: type[Driver] = getattr(import_module(module), attribute)
    return found


def cluster_driver_names() -> list[str]:
    return sorted(CLUSTER_DRIVERS)


def cluster_driver_class(name: str) -> type[ClusterDriver]:
    """Raises Invalid for a name that no driver of clusters has."""
    path = CLUSTER_DRIVERS.get(name)
    if path is None:
        known = ", ".join(cluster_driver_names())
        raise Invalid.field("driver", f"there is no driver of clusters {name!r}; known: {known}")
    module, _, attribute = path.partition(":")
    found: type[ClusterDriver] = getattr(import_module(module), attribute)
    return found

"""Drivers by name; a driver's module is imported when a site of it is first used."""

from importlib import import_module

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import Connection, Driver

DRIVERS = {
    "sandbox": "gpuaas.providers.sandbox.driver:SandboxDriver",
    "kubernetes": "gpuaas.providers.kubernetes.driver:KubernetesDriver",
    "openstack": "gpuaas.providers.openstack.driver:OpenStackDriver",
    "openshift": "gpuaas.providers.kubernetes.openshift.driver:OpenShiftDriver",
}


def driver_names() -> list[str]:
    return sorted(DRIVERS)


def driver_for(name: str, connection: Connection) -> Driver:
    """Raises Invalid for a name that no driver has."""
    path = DRIVERS.get(name)
    if path is None:
        raise Invalid.field("driver", f"there is no driver {name!r}; known: {', '.join(driver_names())}")
    module, _, attribute = path.partition(":")
    made: Driver = getattr(import_module(module), attribute)(connection)
    return made

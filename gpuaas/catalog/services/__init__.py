"""Writes of the catalog."""

from gpuaas.catalog.services.flavors import (
    FlavorDefaults,
    flavor_create,
    flavor_defaults,
    flavor_publish,
    flavor_retire,
    gpu_type_publish,
    gpu_type_retire,
    pool_publish,
)
from gpuaas.catalog.services.probe import site_look, site_probe
from gpuaas.catalog.services.sites import credentials_rotate, site_create, site_update

__all__ = [
    "FlavorDefaults",
    "credentials_rotate",
    "flavor_create",
    "flavor_defaults",
    "flavor_publish",
    "flavor_retire",
    "gpu_type_publish",
    "gpu_type_retire",
    "pool_publish",
    "site_create",
    "site_look",
    "site_probe",
    "site_update",
]

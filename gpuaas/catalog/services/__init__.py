"""Writes of the catalog."""

from gpuaas.catalog.services.confirmed import sites_unconfirm
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
from gpuaas.catalog.services.health import site_health
from gpuaas.catalog.services.node_checks import node_check_look, node_check_request
from gpuaas.catalog.services.offers import site_offers
from gpuaas.catalog.services.preflight import site_preflight, site_preflight_look, site_preflight_request
from gpuaas.catalog.services.probe import site_look, site_probe, site_probe_request
from gpuaas.catalog.services.removal import site_detach
from gpuaas.catalog.services.rounds import rounds_fill
from gpuaas.catalog.services.sites import (
    credentials_rotate,
    options_fingerprint,
    site_create,
    site_update,
    site_wrong,
)
from gpuaas.catalog.services.storage import storage_class_retire, storage_class_sell, storage_plain_choose

__all__ = [
    "FlavorDefaults",
    "credentials_rotate",
    "flavor_create",
    "flavor_defaults",
    "flavor_publish",
    "flavor_retire",
    "gpu_type_publish",
    "gpu_type_retire",
    "node_check_look",
    "node_check_request",
    "options_fingerprint",
    "pool_publish",
    "rounds_fill",
    "site_create",
    "site_detach",
    "site_health",
    "site_look",
    "site_offers",
    "site_preflight",
    "site_preflight_look",
    "site_preflight_request",
    "site_probe",
    "site_probe_request",
    "site_update",
    "site_wrong",
    "sites_unconfirm",
    "storage_class_retire",
    "storage_class_sell",
    "storage_plain_choose",
]

"""Hosts of a rack as operators describe them."""

from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.providers.baremetal.facts import host_put
from gpuaas.providers.baremetal.models import Host

PRODUCT = "NVIDIA-H100-80GB-HBM3"


def described(number: int = 7, /, **changes: object) -> dict[str, Any]:
    return {
        "name": f"dgx-{number}",
        "bmc_address": f"redfish-virtualmedia://10.0.8.{number}/redfish/v1/Systems/1",
        "bmc_secret": f"bmc-dgx-{number}",
        "boot_mac": f"0C:42:A1:00:00:{number:02X}",
        "addresses": [f"10.0.16.{number}"],
        "product": PRODUCT,
        "gpu_memory_gib": 80,
        "gpus": 8,
        **changes,
    }


def host_at(site: Site, number: int = 7, /, **changes: object) -> Host:
    """Read in, whatever the site's driver is."""
    return host_put(site_id=site.pk, facts=described(number, **changes))[0]

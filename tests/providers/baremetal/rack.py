"""Hosts of an inventory."""

import itertools
import uuid

from gpuaas.providers.baremetal.models import Host

_NUMBERS = itertools.count(1)


def host_make(site_id: uuid.UUID, **facts: object) -> Host:
    number = next(_NUMBERS)
    made = {
        "name": f"dgx-{uuid.uuid4().hex[:8]}",
        "resource_name": "nvidia.com/gpu",
        "gpus": 8,
        "bmc_address": f"redfish-virtualmedia://10.1.{number // 250}.{number % 250 + 1}/redfish/v1/Systems/1",
        "bmc_secret": "bmc",
        "boot_mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        "interfaces": [{"name": "eno1", "mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"}],
        "addresses": [f"192.0.2.{number % 250 + 1}"],
        "root_device": {"deviceName": "/dev/nvme0n1"},
        **facts,
    }
    return Host.objects.create(site_id=site_id, **made)

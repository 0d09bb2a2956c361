"""Variables by which vendors' container runtimes hand out devices, past what a site counts: nobody but the site sets them."""

from collections.abc import Mapping
from typing import Final

SITE_VARIABLES: Final = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "AMD_VISIBLE_DEVICES",
    "HABANA_VISIBLE_DEVICES",
    "ASCEND_VISIBLE_DEVICES",
)
NO_DEVICE: Final = frozenset({"none", "void"})


def devices_refusal(variables: Mapping[str, str], gpus: int) -> str:
    """Why a site would refuse a container with these, in words; "" if it would not."""
    for name in SITE_VARIABLES:
        if name in variables and (gpus or variables[name] not in NO_DEVICE):
            return f"{name} may not be set (but for none or void, without a GPU): the site sets it for the GPUs that are asked for"
    return ""

"""GPUs as the cloud counts them: in Placement, in Keystone's registered limits, and by the names that flavors ask for."""

from collections.abc import Mapping

from gpuaas.providers.base import Check, Inventory
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Object
from gpuaas.providers.verdicts import Kind, some

PLACEMENT = Kind("GpusInPlacement", blocking=True)
REGISTERED = Kind("RegisteredLimits", blocking=True)
DEFAULTS = Kind("DefaultLimits")
ALIASES = Kind("PciAliases")
MODELS = Kind("GpuModels")
# of every machine, beside its devices
PLAIN = ("servers", "class:VCPU", "class:MEMORY_MB", "class:DISK_GB")


def in_placement(inventory: Inventory) -> Check:
    classes = classes_of(inventory)
    if not classes:
        return PLACEMENT.bad(
            "None",
            "Placement has no GPUs.",
            "In nova.conf of the hosts name them ([pci] device_spec) and set [pci] report_in_placement = true; on the "
            "scheduler [filter_scheduler] pci_in_placement = true. For vGPUs name the types in [devices].",
        )
    count = sum(node.capacity for node in inventory.nodes if node.kind_slug)
    return PLACEMENT.good("Counted", f"Placement counts {count} devices: {some(classes)}.")


def registered(inventory: Inventory, limits: Mapping[str, Object]) -> Check:
    """A resource without a registered limit is without an end for everybody."""
    wanted = [*PLAIN, *map(names.limit_name, classes_of(inventory))]
    if lacking := [name for name in wanted if name not in limits]:
        return REGISTERED.bad(
            "Missing",
            f"Keystone has no registered limit for {some(lacking)}: Nova would give any number of it.",
            "Register each for the service nova: openstack registered limit create --service nova --default-limit 0 "
            f"{lacking[0]}.",
        )
    return REGISTERED.good("Registered", f"Registered: {some(wanted, most=12)}.")


def defaults(inventory: Inventory, limits: Mapping[str, Object]) -> Check:
    wanted = map(names.limit_name, classes_of(inventory))
    if loose := [name for name in wanted if name in limits and limits[name]["default_limit"] != 0]:
        return DEFAULTS.bad(
            "NotZero",
            f"Every project of the cloud may take some of {some(loose)}, without the portal: what is sold may be gone.",
            "Set the default to 0 (openstack registered limit set --default-limit 0 …) and give limits to the projects "
            "that need one.",
        )
    return DEFAULTS.good("Zero", "No project has GPUs by default.")


def aliases(inventory: Inventory) -> Check:
    """By a flavor that names one, or by the site's option."""
    nameless = [pool.resource_name for pool in inventory.pools if not pool.selector]
    if nameless:
        return ALIASES.bad(
            "Unknown",
            f"Nobody has said by which alias flavors ask for {some(nameless)}: it cannot be sold.",
            "Name it in the site's option aliases: resource class to alias, as in [pci] alias of nova.conf.",
        )
    return ALIASES.good("Known", "It is known how flavors ask for every GPU type.")


def models(inventory: Inventory) -> Check:
    """Shares of a card all go by one class: only a trait tells whose they are."""
    nameless = [
        pool.kind.name
        for pool in inventory.pools
        if pool.resource_name == names.VGPU and not any(key.startswith("trait:") for key in pool.selector)
    ]
    if nameless:
        return MODELS.bad(
            "Unknown",
            f"vGPUs do not say of which card they are: {some(nameless)}.",
            "Give the providers a trait CUSTOM_GPU_<MODEL>, for example CUSTOM_GPU_L40S (openstack resource provider trait "
            "set), or in provider.yaml of the host.",
        )
    return MODELS.good("Known", "It is known of which model every GPU is.")


def classes_of(inventory: Inventory) -> list[str]:
    return sorted({pool.resource_name for pool in inventory.pools})

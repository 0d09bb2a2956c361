"""Checks of GPUs in Placement, in Keystone's registered limits, and of the aliases that flavors use."""

from collections.abc import Mapping

from gpuaas.providers.base import Check, Inventory
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.classes import VGPU
from gpuaas.providers.openstack.client import Object
from gpuaas.providers.verdicts import Kind, some

PLACEMENT = Kind("GpusInPlacement", blocking=True)
REGISTERED = Kind("RegisteredLimits", blocking=True)
DEFAULTS = Kind("DefaultLimits")
CLASSES = Kind("ResourceClasses")
ALIASES = Kind("PciAliases")
MODELS = Kind("GpuModels")
# resources of every machine besides devices
PLAIN = ("servers", "class:VCPU", "class:MEMORY_MB", "class:DISK_GB")


def in_placement(inventory: Inventory) -> Check:
    classes = classes_of(inventory)
    if not classes:
        return PLACEMENT.bad(
            "None",
            "Placement has no GPUs.",
            "In nova.conf of the hosts configure them ([pci] device_spec) and set [pci] report_in_placement = true; on the "
            "scheduler [filter_scheduler] pci_in_placement = true. For vGPUs list the types in [devices].",
        )
    count = sum(node.capacity for node in inventory.nodes if node.kind_slug)
    return PLACEMENT.good("Counted", f"Placement counts {count} devices: {some(classes)}.")


def understood(inventory: Inventory) -> Check:
    """What Placement counts and nobody can buy, since it is not known what it is."""
    if strange := [
        f"{each.count} × {each.name} of {each.place} ({each.reason})" for each in inventory.unknown
    ]:
        return CLASSES.bad(
            "NotUnderstood",
            f"These devices are not sold, and closed to every workspace: {some(strange)}.",
            "Name in the site's option gpu_classes what they are: class to model (H100, or L40S/4 for a quarter of a card), or "
            "none for what is no GPU.",
        )
    return CLASSES.good("Understood", "It is known of every device in Placement what it is.")


def registered(
    inventory: Inventory, limits: Mapping[str, Object], elsewhere: Mapping[str, str], region: str
) -> Check:
    """A resource without a registered limit is unlimited for everybody; Nova reads those of its own region only."""
    wanted = [*PLAIN, *map(names.limit_name, inventory.names)]
    if lacking := [name for name in wanted if name not in limits]:
        here = f" in {region}" if region else ""
        strays = [f"{name} is registered {elsewhere[name]}" for name in lacking if name in elsewhere]
        more = f" Nova does not read what is registered elsewhere: {some(strays)}." if strays else ""
        return REGISTERED.bad(
            "Elsewhere" if strays else "Missing",
            f"Keystone has no registered limit{here} for {some(lacking)}: Nova does not limit it.{more}",
            "Register each for the service nova: openstack registered limit create --service nova "
            f"{f'--region {region} ' if region else ''}--default-limit 0 {lacking[0]}.",
        )
    return REGISTERED.good("Registered", f"Registered: {some(wanted, most=12)}.")


def defaults(inventory: Inventory, limits: Mapping[str, Object]) -> Check:
    wanted = map(names.limit_name, classes_of(inventory))
    if loose := [name for name in wanted if name in limits and limits[name]["default_limit"] != 0]:
        return DEFAULTS.bad(
            "NotZero",
            f"Every project of the cloud may use some of {some(loose)} without the portal: sold GPUs may be taken.",
            "Set the default to 0 (openstack registered limit set --default-limit 0 …) and set limits for the projects "
            "that need one.",
        )
    return DEFAULTS.good("Zero", "Projects have no GPUs by default.")


def aliases(inventory: Inventory) -> Check:
    """Known from flavors or from the site's option."""
    nameless = [pool.resource_name for pool in inventory.pools if not pool.selector]
    if nameless:
        return ALIASES.bad(
            "Unknown",
            f"The alias by which flavors request {some(nameless)} is unknown: it cannot be sold.",
            "Set it in the site's option aliases: resource class to alias, as in [pci] alias of nova.conf.",
        )
    return ALIASES.good("Known", "The alias of every GPU type is known.")


def models(inventory: Inventory) -> Check:
    """All vGPUs share one resource class: only a trait names their model."""
    nameless = [
        pool.kind.name
        for pool in inventory.pools
        if pool.resource_name == VGPU and not any(key.startswith("trait:") for key in pool.selector)
    ]
    if nameless:
        return MODELS.bad(
            "Unknown",
            f"The model of these vGPUs is unknown: {some(nameless)}.",
            "Give the providers a trait CUSTOM_GPU_<MODEL>, for example CUSTOM_GPU_L40S (openstack resource provider trait "
            "set), or in provider.yaml of the host.",
        )
    return MODELS.good("Known", "The model of every GPU is known.")


def classes_of(inventory: Inventory) -> list[str]:
    return sorted({pool.resource_name for pool in inventory.pools})

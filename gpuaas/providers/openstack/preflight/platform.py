"""Checks of what machines need besides GPUs: images, an external network, volumes."""

from gpuaas.providers.base import Check
from gpuaas.providers.openstack import volume_types
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.verdicts import Kind, some

IMAGES = Kind("Images")
NETWORK = Kind("ExternalNetwork", blocking=True)
VOLUMES = Kind("BlockStorage")


def images(cloud: Cloud) -> Check:
    found = cloud.get("image", "/images", visibility="public", status="active", limit=1)["images"]
    if not found:
        return IMAGES.bad(
            "None",
            "The cloud has no public image: tenants must upload their own before they can start a machine.",
            "Upload one (openstack image create --public …) that contains the GPU driver.",
        )
    return IMAGES.good("Public", "There are public images for machines.")


def network(cloud: Cloud, external: str) -> Check:
    if not external:
        return NETWORK.good(
            "NotWanted",
            "The site has no external network configured: workspaces have no access to the outside.",
        )
    rows = cloud.items("network", "/networks", "networks", name=external)
    if not rows:
        return NETWORK.bad(
            "Missing",
            f"The cloud has no network {external} for the routers of workspaces.",
            "Set an existing network in the site's option external_network, or create this one.",
        )
    if not any(row.get("router:external") for row in rows):
        return NETWORK.bad(
            "NotExternal",
            f"The network {external} is not external: no router can connect to it.",
            "Make it external with openstack network set --external, or set another in the site's option external_network.",
        )
    return NETWORK.good("There", f"Routers of workspaces can connect to {external}.")


def volumes(cloud: Cloud) -> Check:
    if not cloud.has_volumes:
        return VOLUMES.bad(
            "Missing",
            "The cloud has no volume service: storage cannot be bought, and machines have only their own disks.",
            "Deploy Cinder, or sell flavors with enough disk.",
        )
    cloud.get("volume", "/volumes", limit=1)
    types, default = volume_types.all_types(cloud), volume_types.default_type(cloud)
    there = some(sorted(row["name"] for row in types))
    if not default:
        return VOLUMES.bad(
            "NoDefaultType",
            f"A volume for which nobody names a type fails: the default type of the cloud is none of {there}.",
            "Set [DEFAULT] default_volume_type in cinder.conf to one of them, and choose on the site's Storage page which one plain "
            "storage is taken from.",
        )
    return VOLUMES.good("There", f"The volume service answers. Types: {there}; {default} is the default.")

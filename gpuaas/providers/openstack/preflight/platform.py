"""What machines need beside GPUs: an image, a way outside, volumes."""

from gpuaas.providers.base import Check
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.verdicts import Kind

IMAGES = Kind("Images")
NETWORK = Kind("ExternalNetwork", blocking=True)
VOLUMES = Kind("BlockStorage")


def images(cloud: Cloud) -> Check:
    found = cloud.get("image", "/images", visibility="public", status="active", limit=1)["images"]
    if not found:
        return IMAGES.bad(
            "None",
            "The cloud has no public image: tenants have to bring their own before they can start a machine.",
            "Upload one (openstack image create --public …), with the GPU's driver in it.",
        )
    return IMAGES.good("Public", "There are public images to start machines from.")


def network(cloud: Cloud, external: str) -> Check:
    if not external:
        return NETWORK.good(
            "NotWanted", "No outside network is named for this site: networks of workspaces have no way out."
        )
    rows = cloud.items("network", "/networks", "networks", name=external)
    if not rows:
        return NETWORK.bad(
            "Missing",
            f"The cloud has no network {external}, to which routers of workspaces shall lead.",
            "Name one that is there in the site's option external_network, or make it.",
        )
    if not any(row.get("router:external") for row in rows):
        return NETWORK.bad(
            "NotExternal",
            f"The network {external} is not an outside one: no router can lead to it.",
            "Set it with openstack network set --external, or name another in the site's option external_network.",
        )
    return NETWORK.good("There", f"Routers of workspaces lead to {external}.")


def volumes(cloud: Cloud) -> Check:
    if not cloud.has_volumes:
        return VOLUMES.bad(
            "Missing",
            "The cloud has no volume service: storage cannot be bought there, machines have their own disks alone.",
            "Deploy Cinder, or sell flavors with enough disk.",
        )
    cloud.get("volume", "/volumes", limit=1)
    return VOLUMES.good("There", "The volume service answers.")

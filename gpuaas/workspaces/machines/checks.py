"""Checks of an order that need no call to the site. Each refusal names its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid, QuotaRefused
from gpuaas.core.rows import one_or_none
from gpuaas.workspaces.machines.keys import keys_for, public_key_check
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.selectors import (
    flavors_left,
    machine_look_of,
    machines_counted,
    machines_of,
)
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.validation import name_validate
from tenants.actors import Actor

if TYPE_CHECKING:
    from gpuaas.workspaces.machines.services import MachineOrder

# Nova takes 65,535 bytes of base64
CLOUD_INIT_BYTES_MAX = 49_000


@dataclass(frozen=True)
class Order:
    """An order that can be sent to the site."""

    name: str
    flavor: Flavor
    image: dict[str, Any]
    key_name: str
    public_key: str
    cloud_init: str
    volume_gib: int


def order_check(actor: Actor, workspace: Workspace, order: MachineOrder) -> Order:
    """The workspace's row is locked, so that of two orders for the last machine only one is accepted."""
    name = name_validate(order.name)
    if machines_of(workspace=workspace).filter(name=name).exists():
        raise Conflict(f"the workspace already has a machine called {name}", detail={"field": "name"})
    flavor = _flavor(workspace, order.flavor)
    look = machine_look_of(workspace=workspace)
    image = image_check(look, order.image, flavor)
    key_name, public_key = _key(actor, order)
    return Order(
        name=name,
        flavor=flavor,
        image=image,
        key_name=key_name,
        public_key=public_key,
        cloud_init=_cloud_init(order.cloud_init),
        volume_gib=_volume(workspace, look, order.volume_gib),
    )


def image_check(look: MachineLook | None, wanted: str, flavor: Flavor | None) -> dict[str, Any]:
    """By id, or by a name that only one image has."""
    if look is None or look.slow_at is None:
        raise Conflict(
            "the portal is still asking the site for its images; try again in a few seconds",
            detail={"field": "image"},
        )
    images = [row for row in look.images if row["id"] == wanted] or [
        row for row in look.images if row["name"] == wanted
    ]
    if len(images) != 1:
        many = (
            "several images have this name: give the id instead" if images else "the site has no such image"
        )
        raise Invalid.field("image", many)
    image: dict[str, Any] = images[0]
    if flavor is not None:
        _fits(image, flavor)
    return image


def rebuild_image_check(workspace: Workspace, machine: Machine, wanted: str) -> str:
    room = {each.flavor.slug: each.flavor for each in flavors_left(workspace=workspace)}
    look = machine_look_of(workspace=workspace)
    return str(image_check(look, wanted, room.get(machine.flavor_slug))["id"])


def _fits(image: dict[str, Any], flavor: Flavor) -> None:
    """A flavor without a disk of its own uses the image's size."""
    if flavor.disk_gib and image["disk_gib"] > flavor.disk_gib:
        raise Invalid.field(
            "image",
            f"{image['name']} needs {image['disk_gib']} GiB of disk, and {flavor.slug} gives {flavor.disk_gib}: choose "
            "another image or a larger flavor",
        )
    if image["memory_gib"] > flavor.memory_gib:
        raise Invalid.field(
            "image",
            f"{image['name']} needs {image['memory_gib']} GiB of memory, and {flavor.slug} gives {flavor.memory_gib}",
        )


def _flavor(workspace: Workspace, slug: str) -> Flavor:
    rooms = flavors_left(workspace=workspace)
    room = next((each for each in rooms if each.flavor.slug == slug), None)
    if room is None:
        has = ", ".join(each.flavor.slug for each in rooms) or "none"
        raise Invalid.field("flavor", f"the workspace has not bought this flavor; it has bought {has}")
    if not room.left:
        everything = machines_counted(workspace=workspace).count()
        raise QuotaRefused(
            f"the workspace has bought {room.bought} × {slug} and has {max(room.held, everything)} "
            "machines, including stopped and shelved ones: delete one, or resize the workspace",
            detail={
                "field": "flavor",
                "resource": slug,
                "limit": room.bought,
                "used": room.held,
                "asked": 1,
                "left": room.left,
            },
        )
    return room.flavor


def _key(actor: Actor, order: MachineOrder) -> tuple[str, str]:
    """(name, line); both "" if nobody signs in with a key."""
    if order.key and order.public_key:
        raise Invalid.field("public_key", "give either one of your keys or a public key, not both")
    if order.key:
        found = one_or_none(keys_for(actor=actor).filter(name=order.key))
        if found is None:
            raise Invalid.field("key", "you have no key of this name; add it to your keys first")
        return found.name, found.public_key
    if order.public_key:
        line = public_key_check(order.public_key)
        return "".join(line.split(maxsplit=2)[2:])[:255], line
    return "", ""


def _cloud_init(text: str) -> str:
    given = text.replace("\r\n", "\n").strip()
    if len(given.encode()) > CLOUD_INIT_BYTES_MAX:
        raise Invalid.field(
            "cloud_init", f"cloud-init text may be at most {CLOUD_INIT_BYTES_MAX:,} bytes long"
        )
    if given and not given.startswith(("#", "Content-Type:", "MIME-Version:")):
        raise Invalid.field(
            "cloud_init", "cloud-init text must start with #cloud-config, or with #! for a script"
        )
    return given


def _volume(workspace: Workspace, look: MachineLook | None, gib: int) -> int:
    if type(gib) is not int or gib < 0:
        raise Invalid.field("volume_gib", "the size of a volume must be a whole number of GiB")
    if gib and look is not None and not look.volumes_sold:
        raise Invalid.field(
            "volume_gib", "this site has no volumes; the machine only has the disk of its flavor"
        )
    if gib > workspace.storage_gib:
        raise Invalid.field(
            "volume_gib",
            f"the workspace has {workspace.storage_gib:,} GiB of storage; request less, or resize it",
        )
    return gib

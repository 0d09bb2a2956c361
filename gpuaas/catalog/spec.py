"""What drivers are told of what is sold."""

import uuid
from collections.abc import Mapping
from typing import TypedDict

from gpuaas.catalog.models import Flavor, StorageClass
from gpuaas.providers.base import FlavorAmount


class StorageSpec(TypedDict):
    """Fields of a WorkspaceSpec."""

    storage_classes: dict[str, int]
    closed_classes: tuple[str, ...]


def storage_spec(*, site_id: uuid.UUID, plain_gib: int, bought: Mapping[uuid.UUID, int]) -> StorageSpec:
    """GiB by the names of the site, `bought` by class; and all its other classes. One query."""
    rows = StorageClass.objects.filter(site=site_id).order_by("name").values_list("pk", "name", "plain")
    held: dict[str, int] = {}
    closed: list[str] = []
    for pk, name, plain in rows:
        if plain or pk in bought:
            held[name] = bought.get(pk, 0) + (plain_gib if plain else 0)
        else:
            closed.append(name)
    return StorageSpec(storage_classes=held, closed_classes=tuple(closed))


def plain_storage_class(site_id: uuid.UUID) -> str:
    """The site's name of the class that plain storage is taken from; "" where there is none. One query."""
    return StorageClass.objects.filter(site=site_id, plain=True).values_list("name", flat=True).first() or ""


def flavor_amount(flavor: Flavor, count: int) -> FlavorAmount:
    """`count` of it, by what one needs and how its site counts it; reads the flavor's pool."""
    pool = flavor.pool
    return FlavorAmount(
        slug=flavor.slug,
        count=count,
        gpus=flavor.gpus,
        vcpus=flavor.vcpus,
        memory_gib=flavor.memory_gib,
        disk_gib=flavor.disk_gib,
        resource_name=pool.resource_name,
        selector=pool.selector,
        device_class=pool.device_class,
        also=tuple(pool.also),
    )

"""What drivers are told of what is sold."""

from gpuaas.catalog.models import Flavor
from gpuaas.providers.base import FlavorAmount


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

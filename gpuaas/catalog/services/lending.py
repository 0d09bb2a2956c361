"""What a spot flavor needs of its site: buyers' consumers must push out borrowers'."""

from gpuaas.catalog.models import Flavor
from gpuaas.catalog.site import kind_of
from gpuaas.catalog.states import PriceClass
from gpuaas.core.errors import Invalid

NOTICE_LEAST, NOTICE_USUAL, NOTICE_MOST = 10, 120, 3600  # seconds


def lending_require(flavor: Flavor) -> None:
    """Raises Invalid at `notice_seconds` or `price_class`."""
    if flavor.price_class != PriceClass.SPOT:
        if flavor.notice_seconds:
            raise Invalid.field("notice_seconds", "only flavors of the price class spot end with notice")
        return
    if not NOTICE_LEAST <= flavor.notice_seconds <= NOTICE_MOST:
        raise Invalid.field(
            "notice_seconds",
            f"spot ends with notice: enter {NOTICE_LEAST} to {NOTICE_MOST:,} seconds",
        )
    site = flavor.pool.site
    if not kind_of(site).lends:
        raise Invalid.field(
            "price_class",
            f"{site.slug} cannot end what borrows GPUs when a buyer needs them, so it lends none: "
            "choose another price class",
        )
    if flavor.pool.device_class:
        raise Invalid.field(
            "price_class",
            f"{site.slug} counts {flavor.pool.gpu_type.name} by a DRA class, and Kubernetes ends nothing to free a claimed "
            "device: choose another price class",
        )

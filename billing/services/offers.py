"""Offering a flavor, with a check of its price: the catalog itself knows no money."""

from django.db import transaction

from billing.selectors import gpu_price, prices_at
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.services import flavor_publish, pool_publish
from gpuaas.core.errors import Invalid
from tenants.actors import Actor


@transaction.atomic
def flavor_offer(*, actor: Actor, flavor: Flavor, without_price: bool = False) -> Flavor:
    """Sells it. Raises Invalid on `without_price` if it has no price on the standard card and this was not confirmed;
    Conflict if the catalog refuses."""
    before = flavor.state
    flavor_publish(actor=actor, flavor=flavor)
    try:
        _price_require(flavor, without_price=without_price)
    except Invalid:
        flavor.state = before
        raise
    return flavor


@transaction.atomic
def pool_offer(*, actor: Actor, pool: GpuPool, without_price: bool = False) -> Flavor:
    """Sells a pool's default flavor, which is created if there is none. Raises as `flavor_offer`."""
    flavor = pool_publish(actor=actor, pool=pool)
    _price_require(flavor, without_price=without_price)
    return flavor


def _price_require(flavor: Flavor, *, without_price: bool) -> None:
    if not without_price and not has_price(flavor):
        raise Invalid.field(
            "without_price",
            f"{flavor.slug} has no price: what is held of it is not charged until it has one, and the "
            "month cannot be closed. Set its price first, or accept that it has none",
        )


def has_price(flavor: Flavor) -> bool:
    """A price of either meter pays for its GPUs (rating.md, section 6)."""
    return gpu_price(prices_at(), flavor.pk)[0] is not None

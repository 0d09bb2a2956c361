"""What the demo's sites sell and lend, and its prices. Every part is skipped where it is there."""

from datetime import datetime
from decimal import Decimal

GPU_PRICES = {
    "h100": "2.40",
    "h200": "3.10",
    "a100-sxm-80gb": "1.45",
    "a100-80gb": "1.45",
    "mig-3g": "0.62",
    "mig": "0.16",
    "shared": "0.24",
    "l40s": "0.95",
    "a100": "1.20",
}
UNIT_PRICES = {"storage_held": "0.00012", "tokens_in": "0.10", "tokens_out": "0.30"}
SPOT_PART = Decimal("0.4")  # of the usual price


def offer(since: datetime) -> None:
    """Sell every pool that has devices and no flavor yet; price what has no price, from `since` on."""
    from billing.selectors import prices_at
    from billing.services import rate_set
    from billing.wares import gpu_meter
    from gpuaas.catalog.models import Flavor, GpuPool
    from gpuaas.catalog.services import pool_publish
    from tenants.actors import SYSTEM

    for pool in GpuPool.objects.filter(capacity__gt=0, flavors=None).select_related("gpu_type", "site"):
        pool_publish(actor=SYSTEM, pool=pool)
    lend()
    priced = {(flavor_id, str(meter)) for flavor_id, meter in prices_at()}
    for flavor in Flavor.objects.select_related("pool__gpu_type"):
        meter = gpu_meter(flavor)
        if (flavor.pk, str(meter)) not in priced:
            price = price_of(flavor.pool.gpu_type.slug)
            if flavor.is_lent:
                price = str(Decimal(price) * SPOT_PART)
            rate_set(actor=SYSTEM, flavor=flavor, meter=meter, price=price, valid_from=since)
    for unit, price in UNIT_PRICES.items():
        if (None, unit) not in priced:
            rate_set(actor=SYSTEM, flavor=None, meter=unit, price=price, valid_from=since)


def lend() -> None:
    """What was sold of the first site's H100s and is idle."""
    from gpuaas.catalog.models import GpuPool
    from gpuaas.catalog.services import flavor_create, flavor_defaults, flavor_publish
    from tenants.actors import SYSTEM

    pool = GpuPool.objects.filter(site__slug="ber-1", gpu_type__slug="h100-sxm-80gb").first()
    if pool is None or pool.flavors.filter(notice_seconds__gt=0).exists():
        return
    made = flavor_defaults(pool)
    made["slug"], made["name"] = "h100.spot", f"{made['name']}, spot"
    flavor_publish(actor=SYSTEM, flavor=flavor_create(actor=SYSTEM, pool=pool, price_class="spot", **made))


def price_of(gpu_type: str) -> str:
    """The first entry whose words are all in the GPU type's slug; shares and slices before whole devices."""
    for part in ("mig-3g", "mig", "shared", *GPU_PRICES):
        if part in gpu_type:
            return GPU_PRICES[part]
    return "1.00"

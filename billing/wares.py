"""What a price is for, besides flavors: storage classes by the name that their usage has, and tokens; and in what it is counted."""

import hashlib
import uuid
from decimal import Decimal

from billing.money import HOUR, round_half_up
from gpuaas.catalog.models import STORAGE_PREFIX, Flavor
from gpuaas.metering.models import TOKEN_METERS, Meter

MILLION_TOKENS = "million tokens"
UNITS = {
    Meter.GPU_HELD: "GPU h",
    Meter.GPU_ALLOCATED: "GPU h allocated",
    Meter.GPU_STOPPED: "GPU h stopped",
    Meter.GPU_SHELVED: "GPU h shelved",
    Meter.GPU_IDLE: "GPU h idle",
    Meter.VCPU_HELD: "vCPU h",
    Meter.MEMORY_HELD: "GiB h",
    Meter.STORAGE_HELD: "GiB h",
    Meter.TOKENS_IN: MILLION_TOKENS,
    Meter.TOKENS_OUT: MILLION_TOKENS,
}


def storage_ware(resource: str) -> uuid.UUID:
    """The key of a resource in a tariff, as `tariff.sql` makes it."""
    return uuid.UUID(hashlib.md5(resource.encode(), usedforsecurity=False).hexdigest())


def storage_slug(resource: str) -> str:
    """The short name of a storage class; "" for plain storage and everything else."""
    return resource.removeprefix(STORAGE_PREFIX) if resource.startswith(STORAGE_PREFIX) else ""


def storage_words(resource: str) -> str:
    """`Storage fast-ber-1`; "" for what is no storage class."""
    slug = storage_slug(resource)
    return f"Storage {slug}" if slug else ""


def storage_label(slug: str) -> str:
    return f"Storage {slug} (GiB)"


def quantity_words(meter: str, unit_seconds: int) -> tuple[Decimal, str]:
    """For files: unit-hours or millions of tokens to six places, half up, and which of them."""
    millionths = round_half_up(unit_seconds * 10**6, HOUR)
    return Decimal(f"{millionths}e-6"), UNITS[Meter(meter)] if meter in Meter.values else ""


def unpriced_words(meter: str) -> str:
    """What usage without a price is called where that costs nothing: tokens are part of no other price (rating.md, section 6)."""
    return "free" if meter in TOKEN_METERS else "included"


def quantity_places(meter: str) -> int:
    """Decimal places in which a quantity is shown: of hours, and of millions of tokens."""
    return 4 if meter in TOKEN_METERS else 2


def gpu_meter(flavor: Flavor | None) -> Meter:
    """By what a flavor's GPUs are charged as usual: while they are held; of lent ones, while they run."""
    return Meter.GPU_ALLOCATED if flavor is not None and flavor.is_lent else Meter.GPU_HELD

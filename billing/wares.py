"""What a price is for, besides flavors: storage classes by the name that their usage has."""

import hashlib
import uuid

from gpuaas.catalog.models import STORAGE_PREFIX, Flavor
from gpuaas.metering.models import Meter


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


def gpu_meter(flavor: Flavor | None) -> Meter:
    """By what a flavor's GPUs are charged as usual: while they are held; of lent ones, while they run."""
    return Meter.GPU_ALLOCATED if flavor is not None and flavor.is_lent else Meter.GPU_HELD

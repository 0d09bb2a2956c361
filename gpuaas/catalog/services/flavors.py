"""GPU types and flavors: an operator moves them from draft to active to retired."""

from collections.abc import Mapping
from typing import Any, TypedDict

from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Flavor, GpuPool, GpuType
from gpuaas.catalog.services.contracts import pools_lock
from gpuaas.catalog.services.lending import NOTICE_USUAL, lending_require
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.services.tuning import pool_require, tuning_require, words_require
from gpuaas.catalog.states import OfferState, PriceClass, RoundKind
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.validation import row_check
from gpuaas.providers.registry import driver_class
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

# A sixteenth of a node's vCPU and memory stays for the site's own agents; the rest is shared among its devices.
SHARE, OF = 15, 16
TUNING = ("whole_node", "hugepages_size", "hugepages_gib", "exclusive_cpus", "sysctls", "profile")


class FlavorDefaults(TypedDict):
    """What `flavor_create` and the form of a new flavor begin with."""

    slug: str
    name: str
    vcpus: int
    memory_gib: int
    disk_gib: int


def flavor_defaults(pool: GpuPool) -> FlavorDefaults:
    """A flavor of one device with its share of the pool's smallest node; its slug contains the site if the short one
    is in use."""
    nodes = [row for row in pool.nodes.all() if row.capacity]
    slug = f"{pool.gpu_type.slug}.1"
    if Flavor.objects.filter(slug=slug).exclude(pool=pool).exists():
        slug = f"{pool.gpu_type.slug}.1.{pool.site.slug}"
    return FlavorDefaults(
        slug=slug[:64],
        name=pool.gpu_type.name,
        vcpus=max(min((row.vcpus * SHARE // OF // row.capacity for row in nodes), default=1), 1),
        memory_gib=max(min((row.memory_gib * SHARE // OF // row.capacity for row in nodes), default=1), 1),
        disk_gib=driver_class(pool.site.driver).disk_gib,
    )


@transaction.atomic
def flavor_create(
    *,
    actor: Actor,
    pool: GpuPool,
    slug: str,
    name: str,
    vcpus: int,
    memory_gib: int,
    gpus: int = 1,
    disk_gib: int = 0,
    price_class: str = PriceClass.ON_DEMAND,
    notice_seconds: int | None = None,
    **tuning: Any,
) -> Flavor:
    """Creates a draft, not sold before it is published. `tuning`: any of TUNING. notice_seconds: of spot; None: as usual."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    flavor = Flavor(
        pool=pool,
        slug=slug,
        name=name.strip(),
        gpus=gpus,
        vcpus=vcpus,
        memory_gib=memory_gib,
        disk_gib=disk_gib,
        price_class=price_class,
        notice_seconds=_notice(price_class, notice_seconds),
        **_known(tuning),
    )
    _fit_require(flavor)
    try:
        with transaction.atomic():
            flavor.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid.field("slug", "a flavor of this name already exists") from error
    after = {"pool": str(pool), "gpus": gpus, "vcpus": vcpus, "memory_gib": memory_gib, **tuning}
    after["notice_seconds"] = flavor.notice_seconds
    audit_record(actor=actor, action="flavor.create", target=flavor, after=after)
    return flavor


def _notice(price_class: str, seconds: int | None) -> int:
    if seconds is not None:
        return seconds
    return NOTICE_USUAL if price_class == PriceClass.SPOT else 0


def _known(tuning: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(tuning.keys() - set(TUNING)):
        raise Invalid.field(unknown[0], "unknown field of a flavor")
    return dict(tuning)


def _fit_require(flavor: Flavor) -> None:
    words_require(flavor)
    lending_require(flavor)
    row_check(flavor)
    _shares_require(vcpus=flavor.vcpus, memory_gib=flavor.memory_gib)
    tuning_require(flavor)


def _shares_require(**shares: int) -> None:
    """Without vCPU or memory the quota would admit no container, and the GPUs could never be used."""
    for name, amount in shares.items():
        if amount < 1:
            raise Invalid.field(name, "a container needs at least 1")


@transaction.atomic
def flavor_publish(*, actor: Actor, flavor: Flavor) -> Flavor:
    """Its GPU type has to be published first, and its pool must meet its requirements."""
    pool_require(flavor)
    tuning_require(flavor)
    lending_require(flavor)
    sold = GpuType.objects.filter(pk=flavor.pool.gpu_type_id, state=OfferState.ACTIVE)
    if not sold.exists():
        raise Conflict(f"the GPU type {flavor.pool.gpu_type} is not sold yet; publish it first")
    _state_set(actor, flavor, OfferState.ACTIVE)
    return flavor


def flavor_retire(*, actor: Actor, flavor: Flavor) -> Flavor:
    """Stops selling it; holders keep it."""
    _state_set(actor, flavor, OfferState.RETIRED)
    return flavor


def gpu_type_publish(*, actor: Actor, gpu_type: GpuType, name: str = "") -> GpuType:
    """Tenants see it from now on; `name` replaces the name made from the site's labels."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if name:
        gpu_type.name = name.strip()
        row_check(gpu_type)
        gpu_type.save(update_fields=["name"])
    _state_set(actor, gpu_type, OfferState.ACTIVE)
    return gpu_type


def gpu_type_retire(*, actor: Actor, gpu_type: GpuType) -> GpuType:
    """Stops selling all its flavors; holders keep them."""
    _state_set(actor, gpu_type, OfferState.RETIRED)
    return gpu_type


@transaction.atomic
def pool_publish(*, actor: Actor, pool: GpuPool) -> Flavor:
    """Sells the pool's default flavor: publishes the GPU type, and creates the flavor if there is none."""
    pools_lock(pool.site_id)
    gpu_type_publish(actor=actor, gpu_type=pool.gpu_type)
    flavor = pool.flavors.filter(gpus=1, price_class=PriceClass.ON_DEMAND).first()
    if flavor is None:
        flavor = flavor_create(actor=actor, pool=pool, **flavor_defaults(pool))
    return flavor_publish(actor=actor, flavor=flavor)


@transaction.atomic
def _state_set(actor: Actor, row: Flavor | GpuType, state: OfferState) -> None:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    model = type(row)
    before = model._default_manager.select_for_update().values_list("state", flat=True).get(pk=row.pk)
    row.state = state
    if before == state:
        return
    model._default_manager.filter(pk=row.pk).update(state=state)
    kind = "flavor" if isinstance(row, Flavor) else "gpu_type"
    verb = {OfferState.ACTIVE: "publish", OfferState.RETIRED: "retire", OfferState.DRAFT: "draft"}[state]
    if isinstance(row, Flavor):
        rounds_wake(row.pool.site, RoundKind.OFFERS)
        if row.is_lent or row.pool.shares_with:
            poke("quotas.capacity_sync", str(row.pool.site_id))
    audit_record(
        actor=actor, action=f"{kind}.{verb}", target=row, before={"state": before}, after={"state": state}
    )

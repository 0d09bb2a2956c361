"""What is sold: GPU types and flavors go from draft to active to retired, by an operator's hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Flavor, GpuPool, GpuType
from gpuaas.catalog.services.checks import row_check
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.services.tuning import pool_require, tuning_require, words_require
from gpuaas.catalog.states import OfferState, PriceClass, RoundKind
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.providers.registry import default_disk_gib
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

# A sixteenth of a node's vCPU and memory stays for the site's own agents; the rest is shared among its devices.
SHARE, OF = 15, 16
TUNING = ("whole_node", "hugepages_size", "hugepages_gib", "exclusive_cpus", "sysctls", "profile")


@dataclass(frozen=True)
class FlavorDefaults:
    slug: str
    name: str
    vcpus: int
    memory_gib: int
    disk_gib: int


def flavor_defaults(pool: GpuPool) -> FlavorDefaults:
    """A flavor of one device with its share of the pool's smallest node; the site is named where the slug is taken."""
    nodes = [row for row in pool.nodes.all() if row.capacity]
    slug = f"{pool.gpu_type.slug}.1"
    if Flavor.objects.filter(slug=slug).exclude(pool=pool).exists():
        slug = f"{pool.gpu_type.slug}.1.{pool.site.slug}"
    return FlavorDefaults(
        slug=slug[:64],
        name=pool.gpu_type.name,
        vcpus=max(min((row.vcpus * SHARE // OF // row.capacity for row in nodes), default=1), 1),
        memory_gib=max(min((row.memory_gib * SHARE // OF // row.capacity for row in nodes), default=1), 1),
        disk_gib=default_disk_gib(pool.site.driver),
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
    **tuning: Any,
) -> Flavor:
    """A draft: it is not sold before it is published. `tuning`: any of TUNING, what it requires of its nodes."""
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
        **_known(tuning),
    )
    words_require(flavor)
    row_check(flavor)
    _shares_require(vcpus=vcpus, memory_gib=memory_gib)
    tuning_require(flavor)
    try:
        with transaction.atomic():
            flavor.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid.field("slug", "a flavor of this name exists") from error
    after = {"pool": str(pool), "gpus": gpus, "vcpus": vcpus, "memory_gib": memory_gib, **tuning}
    audit_record(actor=actor, action="flavor.create", target=flavor, after=after)
    return flavor


def _known(tuning: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(tuning.keys() - set(TUNING)):
        raise Invalid.field(unknown[0], "a flavor has no such field")
    return dict(tuning)


def _shares_require(**shares: int) -> None:
    """Without vCPU or memory the quota would admit no container, and the GPUs could never be used."""
    for name, amount in shares.items():
        if amount < 1:
            raise Invalid.field(name, "a container needs some of it: give 1 or more")


@transaction.atomic
def flavor_publish(*, actor: Actor, flavor: Flavor) -> Flavor:
    """Its GPU type has to be published first, and its pool must be able to give what it promises."""
    pool_require(flavor)
    tuning_require(flavor)
    sold = GpuType.objects.filter(pk=flavor.pool.gpu_type_id, state=OfferState.ACTIVE)
    if not sold.exists():
        raise Conflict(f"the GPU type {flavor.pool.gpu_type} is not published yet")
    _state_set(actor, flavor, OfferState.ACTIVE)
    return flavor


def flavor_retire(*, actor: Actor, flavor: Flavor) -> Flavor:
    """It is sold no more; who has it keeps it."""
    _state_set(actor, flavor, OfferState.RETIRED)
    return flavor


def gpu_type_publish(*, actor: Actor, gpu_type: GpuType, name: str = "") -> GpuType:
    """Tenants see it from now on; `name` replaces the one that was made from the site's labels."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if name:
        gpu_type.name = name.strip()
        row_check(gpu_type)
        gpu_type.save(update_fields=["name"])
    _state_set(actor, gpu_type, OfferState.ACTIVE)
    return gpu_type


def gpu_type_retire(*, actor: Actor, gpu_type: GpuType) -> GpuType:
    """None of its flavors is sold any more; who has them keeps them."""
    _state_set(actor, gpu_type, OfferState.RETIRED)
    return gpu_type


@transaction.atomic
def pool_publish(*, actor: Actor, pool: GpuPool) -> Flavor:
    """Sell the pool's default flavor: publishes the GPU type, and makes the flavor where it has none."""
    gpu_type_publish(actor=actor, gpu_type=pool.gpu_type)
    flavor = pool.flavors.filter(gpus=1, price_class=PriceClass.ON_DEMAND).first()
    if flavor is None:
        default = flavor_defaults(pool)
        flavor = flavor_create(
            actor=actor,
            pool=pool,
            slug=default.slug,
            name=default.name,
            vcpus=default.vcpus,
            memory_gib=default.memory_gib,
            disk_gib=default.disk_gib,
        )
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
    audit_record(
        actor=actor, action=f"{kind}.{verb}", target=row, before={"state": before}, after={"state": state}
    )

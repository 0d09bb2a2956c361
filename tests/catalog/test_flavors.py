"""What is sold, who sees it, and how it is found."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Site
from gpuaas.catalog.selectors import flavor_get_for, flavors_for, gpu_types_for
from gpuaas.catalog.services import (
    flavor_create,
    flavor_defaults,
    flavor_publish,
    flavor_retire,
    gpu_type_publish,
    gpu_type_retire,
    pool_publish,
    site_create,
    site_probe,
    site_update,
)
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.providers.sandbox.fleet import fleet_seed
from tenants.actors import Actor
from tenants.models import AuditEntry


@pytest.fixture
def pool(attached: Site) -> GpuPool:
    site_probe(attached.pk)
    return GpuPool.objects.select_related("gpu_type", "site").get(gpu_type__slug="h100-sxm-80gb")


@pytest.fixture
def sold(pool: GpuPool, as_olga: Actor) -> list[Flavor]:
    pools = GpuPool.objects.select_related("gpu_type", "site")
    return [pool_publish(actor=as_olga, pool=each) for each in pools]


def slugs(actor: Actor, **wanted: Any) -> set[str]:
    return {flavor.slug for flavor in flavors_for(actor=actor, **wanted)}


def test_default_is_a_devices_share_of_its_node(pool: GpuPool) -> None:
    default = flavor_defaults(pool)
    assert (default["slug"], default["name"]) == ("h100-sxm-80gb.1", "H100 SXM 80 GB")
    assert (default["vcpus"], default["memory_gib"]) == (208 * 15 // 16 // 8, 2048 * 15 // 16 // 8)


def test_from_draft_to_sale_to_retirement(pool: GpuPool, as_olga: Actor, as_alice: Actor) -> None:
    flavor = flavor_create(
        actor=as_olga, pool=pool, slug="h100.8", name="Whole node", gpus=8, vcpus=192, memory_gib=1900
    )
    assert not slugs(as_alice)
    with pytest.raises(Conflict, match="not sold yet"):
        flavor_publish(actor=as_olga, flavor=flavor)
    gpu_type_publish(actor=as_olga, gpu_type=pool.gpu_type, name="H100 SXM")
    flavor.refresh_from_db()
    flavor_publish(actor=as_olga, flavor=flavor)
    assert slugs(as_alice) == {"h100.8"}
    assert flavor_get_for(actor=as_alice, slug="h100.8").pool.unallocated == 16
    flavor_retire(actor=as_olga, flavor=flavor)
    assert not slugs(as_alice)
    assert slugs(as_olga, drafts=True) == {"h100.8"}
    actions = list(AuditEntry.objects.filter(action__startswith="flavor").values_list("action", flat=True))
    assert actions == ["flavor.retire", "flavor.publish", "flavor.create"]


def test_retired_type_takes_its_flavors_off_sale(
    sold: list[Flavor], pool: GpuPool, as_olga: Actor, as_alice: Actor
) -> None:
    assert len(slugs(as_alice)) == 4
    gpu_type_retire(actor=as_olga, gpu_type=pool.gpu_type)
    assert "h100-sxm-80gb.1" not in slugs(as_alice)
    assert pool.gpu_type not in gpu_types_for(actor=as_alice)
    assert GpuType.objects.count() == gpu_types_for(actor=as_olga).count()


def test_publishing_twice_is_once(sold: list[Flavor], pool: GpuPool, as_olga: Actor) -> None:
    entries = AuditEntry.objects.count()
    assert pool_publish(actor=as_olga, pool=pool) in sold
    assert AuditEntry.objects.count() == entries


def test_filters_say_at_least(sold: list[Flavor], as_bob: Actor, as_olga: Actor, attached: Site) -> None:
    assert slugs(as_bob, memory_gib_min=80) == {"h100-sxm-80gb.1", "a100-sxm-80gb.1"}
    assert slugs(as_bob, compute_capability_min="8.9") == {"h100-sxm-80gb.1", "l40s-48gb.1"}
    assert slugs(as_bob, compute_capability_min="10.0") == set(), "10.0 is more than 9.0"
    assert slugs(as_bob, interconnect="nvlink", compute_capability_min="9.0") == {"h100-sxm-80gb.1"}
    assert slugs(as_bob, site="elsewhere") == set()
    assert len(slugs(as_bob, site="lab-1", price_class="on_demand")) == 4
    site_update(actor=as_olga, site=attached, enabled=False)
    assert slugs(as_bob) == set()


def test_second_site_gets_names_of_its_own(sold: list[Flavor], as_olga: Actor) -> None:
    other = site_create(actor=as_olga, slug="lab-2", name="Lab 2", driver="sandbox")
    fleet_seed(other.pk)
    site_probe(other.pk)
    pools = GpuPool.objects.filter(site=other).select_related("gpu_type", "site")
    made = {pool_publish(actor=as_olga, pool=each).slug for each in pools}
    assert "h100-sxm-80gb.1.lab-2" in made
    assert len(made) == 4


def test_bad_flavors_are_refused(pool: GpuPool, as_olga: Actor, as_alice: Actor) -> None:
    asked: dict[str, Any] = {"slug": "h100.2", "name": "Two", "gpus": 2, "vcpus": 32, "memory_gib": 300}
    nothing = ({"gpus": 0}, {"vcpus": 0}, {"memory_gib": 0})
    for change in (*nothing, {"vcpus": -1}, {"name": ""}, {"price_class": "gold"}, {"slug": "x" * 65}):
        with pytest.raises(Invalid):
            flavor_create(actor=as_olga, pool=pool, **{**asked, **change})
    flavor_create(actor=as_olga, pool=pool, **asked)
    with pytest.raises(Invalid):
        flavor_create(actor=as_olga, pool=pool, **asked)
    with pytest.raises(NotFound):
        flavor_create(actor=as_alice, pool=pool, **{**asked, "slug": "mine"})
    with pytest.raises(NotFound):
        flavor_get_for(actor=as_alice, slug="h100.2")
    with pytest.raises(NotFound):
        flavors_for(actor=as_alice, drafts=True)

"""What was sold at a site is never rewritten by what is found there; what is otherwise is closed and told."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.services import flavor_retire, pool_publish, site_probe
from gpuaas.catalog.services.contracts import contracts_keep, sold_at
from gpuaas.catalog.services.inventory import inventory_apply
from gpuaas.core import clock
from gpuaas.core.conditions import Condition, conditions_read
from gpuaas.core.errors import Conflict
from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool
from gpuaas.providers.sandbox.fleet import H100, node_set
from gpuaas.providers.sandbox.models import SandboxNode
from tenants.actors import Actor

PRODUCT = "nvidia.com/gpu.product"


def pool_of(site: Site, slug: str = H100.slug) -> GpuPool:
    return GpuPool.objects.select_related("gpu_type", "site").get(site=site, gpu_type__slug=slug)


def as_sold(site: Site) -> Condition:
    site.refresh_from_db()
    return next(row for row in conditions_read(site.conditions) if row.type == "AsSold")


@pytest.fixture
def sold(attached: Site, as_olga: Actor) -> GpuPool:
    """Its H100 are on sale."""
    site_probe(attached.pk)
    pool_publish(actor=as_olga, pool=pool_of(attached))
    site_probe(attached.pk)
    assert (as_sold(attached).status, as_sold(attached).reason) == ("True", "Kept")
    return pool_of(attached)


def contract(pool: GpuPool) -> tuple[str, dict[str, str], str]:
    pool.refresh_from_db()
    return pool.resource_name, pool.selector, pool.device_class


def test_a_renamed_resource_leaves_the_contract_and_is_sold_apart(
    sold: GpuPool, as_alice: Actor, as_olga: Actor
) -> None:
    before = contract(sold)
    SandboxNode.objects.filter(name__startswith="h100").update(resource_name="nvidia.com/gpu.shared")
    assert site_probe(sold.site_id)
    assert contract(sold) == before
    assert (sold.capacity, sold.healthy) == (0, 0)
    told = as_sold(sold.site)
    assert (told.status, told.reason) == ("False", "NotAsSold")
    assert "h100-sxm-80gb: the site has no nvidia.com/gpu" in told.message
    assert told.remedy
    assert not flavors_for(actor=as_alice).filter(pool=sold).exists()
    renamed = pool_of(sold.site, "h100-sxm-80gb-gpu.shared")
    assert (renamed.resource_name, renamed.capacity, renamed.gpu_type.state) == (
        "nvidia.com/gpu.shared",
        16,
        "draft",
    )
    SandboxNode.objects.filter(name__startswith="h100").update(resource_name="nvidia.com/gpu")
    assert site_probe(sold.site_id)
    assert (contract(sold), sold.healthy, sold.trouble) == (before, 16, "")
    assert as_sold(sold.site).status == "True"
    assert flavors_for(actor=as_alice).filter(pool=sold).exists()


def test_a_node_without_the_label_takes_no_work_of_the_contract(sold: GpuPool) -> None:
    before = contract(sold)
    SandboxNode.objects.filter(name="h100-01").update(labels={PRODUCT: "NVIDIA-H100-NVL"})
    assert site_probe(sold.site_id)
    assert (contract(sold), sold.capacity, sold.healthy, sold.trouble) == (before, 16, 8, "")
    assert "to which sold workspaces are pinned" in Node.objects.get(name="h100-01").reason


def test_what_is_gone_is_told_and_drafts_follow_what_is_there(attached: Site, sold: GpuPool) -> None:
    before = contract(sold)
    draft = pool_of(attached, "l40s-48gb")
    SandboxNode.objects.filter(name__startswith="h100").delete()
    SandboxNode.objects.filter(name__startswith="l40s").update(resource_name="nvidia.com/l40s")
    assert site_probe(attached.pk)
    assert (contract(sold), sold.healthy) == (before, 0)
    assert as_sold(attached).status == "False"
    draft.refresh_from_db()
    assert draft.resource_name == "nvidia.com/l40s", "nobody bought it by the old name"


def test_a_flavor_that_is_retired_may_still_be_held(sold: GpuPool, as_olga: Actor) -> None:
    before = contract(sold)
    flavor_retire(actor=as_olga, flavor=Flavor.objects.get(pool=sold))
    SandboxNode.objects.filter(name__startswith="h100").update(resource_name="nvidia.com/other")
    site_probe(sold.site_id)
    assert contract(sold) == before


def test_nothing_new_is_sold_of_a_pool_in_breach(sold: GpuPool, as_olga: Actor) -> None:
    flavor = Flavor.objects.get(pool=sold)
    flavor_retire(actor=as_olga, flavor=flavor)
    SandboxNode.objects.filter(name__startswith="h100").delete()
    site_probe(sold.site_id)
    with pytest.raises(Conflict, match="cannot be sold: the site has no"):
        pool_publish(actor=as_olga, pool=pool_of(sold.site))


def test_a_sick_node_is_no_breach(sold: GpuPool) -> None:
    node_set(sold.site_id, name="h100-01", ready=False, reason="Xid 79")
    site_probe(sold.site_id)
    assert as_sold(sold.site).status == "True"


# -- whatever a driver says ---------------------------------------------------------------------------------------

KINDS = [DeviceKind(f"card-{number}", f"Card {number}", f"CARD-{number}", 80, "whole") for number in range(3)]
found_pools = st.builds(
    ObservedPool,
    kind=st.sampled_from(KINDS),
    resource_name=st.sampled_from(["example.com/a", "example.com/b"]),
    selector=st.sampled_from([{}, {"pool": "a"}, {"pool": "b"}]),
    trouble=st.sampled_from(["", "", "no label tells them apart"]),
    device_class=st.sampled_from(["", "one", "two"]),
    also=st.sampled_from([(), ("example.com/c",)]),
)
found = st.lists(found_pools, max_size=3, unique_by=lambda pool: pool.kind.slug)
histories = st.lists(
    st.tuples(found, st.sets(st.sampled_from([kind.slug for kind in KINDS]))), min_size=2, max_size=7
)


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def observed(pools: list[ObservedPool]) -> Inventory:
    nodes = tuple(ObservedNode(f"n-{pool.kind.slug}", pool.kind.slug, 8, 1, 64, 512) for pool in pools)
    return Inventory("1", tuple(pools), nodes, tuple({pool.resource_name for pool in pools}))


def found_at(site: Site, inventory: Inventory, number: int) -> None:
    kept = contracts_keep(inventory, sold_at(site))
    inventory_apply(
        site=site,
        inventory=kept.inventory,
        breaches=kept.breaches,
        at=clock.now() + timedelta(seconds=number),
    )


def publish(site: Site, slug: str) -> None:
    """Where an operator may."""
    pool = GpuPool.objects.filter(site=site, gpu_type__slug=slug, trouble="").first()
    if pool is not None and not pool.flavors.exists():
        Flavor.objects.create(pool=pool, slug=f"{slug}.1", name=slug, vcpus=1, memory_gib=1, state="active")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories)
def test_no_inventory_rewrites_what_was_sold(
    attached: Site, history: list[tuple[list[ObservedPool], set[str]]]
) -> None:
    with undone():
        contracts: dict[str, tuple[str, dict[str, str], str]] = {}
        for number, (pools, chosen) in enumerate(history):
            inventory = observed(pools)
            found_at(attached, inventory, number)
            there = {pool.kind.slug: pool for pool in pools}
            for slug, (name, selector, device_class) in contracts.items():
                row = GpuPool.objects.get(site=attached, gpu_type__slug=slug)
                assert row.resource_name == name
                assert row.selector == (selector or row.selector), "it may become known, not another"
                assert row.device_class == (device_class or row.device_class)
                pool = there.get(slug)
                same = pool is not None and pool.resource_name == name and not pool.trouble
                same = same and dict(pool.selector if pool else {}) == row.selector
                same = same and (pool.device_class if pool else "") == row.device_class
                assert same or row.trouble
                assert same or not row.healthy or (pool is not None and pool.trouble)
                contracts[slug] = (name, row.selector, row.device_class)
            for slug in sorted(chosen):
                publish(attached, slug)
            for each in sold_at(attached):
                contracts.setdefault(
                    each.kind_slug, (each.resource_name, dict(each.selector), each.device_class)
                )
        assert GpuType.objects.count() <= len(KINDS)


def test_the_size_of_shares_is_that_of_the_first_look(attached: Site) -> None:
    """A site that cuts its cards anew later changes nothing that was sold, nor what is remembered of it."""
    pool = ObservedPool(KINDS[0], "nvidia.com/gpu", {"a": "b"})
    for number, shares in enumerate((4, 10)):
        node = ObservedNode("n", pool.kind.slug, 40, 0, 64, 512, shares=shares)
        found_at(attached, Inventory("1", (pool,), (node,)), number)
        publish(attached, pool.kind.slug)
        assert [each.shares for each in sold_at(attached)] == [4]

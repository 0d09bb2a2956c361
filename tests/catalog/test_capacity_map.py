"""The capacity map: every pool with its nodes, in few queries."""

import pytest
from pytest_django import DjangoAssertNumQueries

from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import capacity_map
from gpuaas.catalog.services import site_probe
from gpuaas.core.errors import NotFound
from gpuaas.providers.sandbox.fleet import node_set
from tenants.actors import Actor


def test_map_in_two_queries(
    attached: Site, as_olga: Actor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    node_set(attached.pk, name="h100-01", cordoned=True)
    node_set(attached.pk, name="a100-01", ready=False, reason="lost")
    site_probe(attached.pk)
    with django_assert_num_queries(2):
        rows = {row.gpu_type.slug: row for row in capacity_map(actor=as_olga)}
        numbers = {
            slug: (
                row.capacity,
                row.unallocated,
                row.cordoned,
                row.unhealthy,
                row.allocated,
                row.largest_block,
            )
            for slug, row in rows.items()
        }
    assert numbers["h100-sxm-80gb"] == (16, 8, 8, 0, 0, 8)
    assert numbers["a100-sxm-80gb"] == (16, 8, 0, 8, 0, 8)
    assert [node.name for node in rows["l40s-48gb"].nodes] == ["l40s-01", "l40s-02"]
    assert rows["h100-sxm-80gb"].site == attached


def test_map_of_one_site_is_for_operators(attached: Site, as_olga: Actor, as_alice: Actor) -> None:
    site_probe(attached.pk)
    assert len(capacity_map(actor=as_olga, site=attached)) == 4
    with pytest.raises(NotFound):
        capacity_map(actor=as_alice)

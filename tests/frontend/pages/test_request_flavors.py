"""The flavors of the request form: filters keep what fits, and the one that is chosen."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node
from gpuaas.core import clock
from tenants.models import Project
from tests.frontend.markup import flat, words
from tests.frontend.pages.test_request import post


def narrowed(client: Client, project: Project, **wanted: str) -> str:
    url = reverse("frontend:workspace_flavors", args=[project.slug])
    return str(client.get(url, wanted).content.decode())


def test_filters_keep_what_fits(alice_at: Client, limited: Project) -> None:
    text = narrowed(alice_at, limited, memory_gib_min="80", flavor="h100.1")
    assert "h100.1" in text
    assert "l40s.1" not in text
    assert "checked" in text
    assert "1 of 2 flavors match." in text
    assert "No flavors match" in narrowed(alice_at, limited, memory_gib_min="900")


def test_a_filter_takes_no_choice_back(alice_at: Client, limited: Project) -> None:
    text = narrowed(alice_at, limited, memory_gib_min="80", flavor="l40s.1")
    assert re.findall(r'value="([^"]+)"\s+checked', text) == ["l40s.1"]
    assert "1 of 2 flavors match; the one you chose stays listed." in flat(text)
    alone = narrowed(alice_at, limited, memory_gib_min="900", flavor="l40s.1")
    assert "0 of 2 flavors match; the one you chose stays listed." in flat(alone)
    assert "No flavors match" in narrowed(alice_at, limited, memory_gib_min="900", flavor="of-nobody")
    refused = post(alice_at, limited, flavor="l40s.1", memory_gib_min="80", name="Not a name")
    assert "the one you chose stays listed" in words(refused)


def test_attributes_of_the_gpu_and_its_nodes_narrow_the_offers(
    alice_at: Client, limited: Project, h100: Flavor, l40s: Flavor
) -> None:
    GpuType.objects.filter(pk=h100.pool.gpu_type_id).update(mig_capable=True, ecc=True)
    GpuType.objects.filter(pk=l40s.pool.gpu_type_id).update(mig_capable=False, ecc=None)
    Flavor.objects.filter(pk=l40s.pk).update(whole_node=True)
    for pool, traits in (
        (h100.pool, {"nvlink_domain": "nvl-1", "rack": "r-1"}),
        (l40s.pool, {"numa": "single-numa-node"}),
    ):
        Node.objects.create(
            site=pool.site, pool=pool, name=f"n-{pool.pk}", capacity=8, observed_at=clock.now(), **traits
        )
    page = words(alice_at.get(reverse("frontend:workspace_new", args=[limited.slug])))
    for name, fits in (
        ("ecc", "h100.1"),
        ("mig_capable", "h100.1"),
        ("nvlink_domain", "h100.1"),
        ("same_rack", "h100.1"),
        ("same_numa", "l40s.1"),
        ("whole_node", "l40s.1"),
    ):
        assert f'type="checkbox" name="{name}"' in page
        text = narrowed(alice_at, limited, **{name: "1"})
        assert fits in text, name
        assert "1 of 2 flavors match." in text, name
    assert "NVLink domain" in narrowed(alice_at, limited)


def test_an_architecture_is_a_filter_where_there_are_two(
    alice_at: Client, limited: Project, h100: Flavor
) -> None:
    assert 'name="arch"' not in words(alice_at.get(reverse("frontend:workspace_new", args=[limited.slug])))
    GpuPool.objects.exclude(pk=h100.pool_id).update(arch="amd64")
    GpuPool.objects.filter(pk=h100.pool_id).update(arch="arm64")
    page = words(alice_at.get(reverse("frontend:workspace_new", args=[limited.slug])))
    assert 'name="arch"' in page
    text = narrowed(alice_at, limited, arch="arm64")
    assert "arm64 processors" in text
    assert "1 of 2 flavors match." in text


@pytest.mark.parametrize(
    "name", ["memory_gib_min", "compute_capability_min", "ecc", "interconnect", "arch", "site"]
)
@pytest.mark.parametrize("value", ["\x00", "-1", "١٢", "9" * 40, "9.0.0.0", "<b>"])
def test_filters_that_cannot_be_read_do_no_harm(
    alice_at: Client, limited: Project, name: str, value: str
) -> None:
    url = reverse("frontend:workspace_flavors", args=[limited.slug])
    assert alice_at.get(url, {name: value}).status_code == 200


def test_a_switch_that_tells_nothing_apart_is_not_shown(alice_at: Client, limited: Project) -> None:
    GpuType.objects.update(ecc=True)
    page = words(alice_at.get(reverse("frontend:workspace_new", args=[limited.slug])))
    assert 'name="ecc"' not in page

"""What a probe found becomes what may be sold."""

import uuid
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.catalog.services import flavor_publish, flavor_retire
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, NoCapacity
from quotas.models import SiteCapacity
from quotas.services import reservation_grow, reservation_release, reservation_reserve, reservation_shrink
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give


def node(site: Site, pool: GpuPool | None, name: str, *, ready: bool = True, cordoned: bool = False) -> None:
    Node.objects.create(
        site=site,
        pool=pool,
        name=name,
        ready=ready,
        cordoned=cordoned,
        vcpus=64,
        memory_gib=512,
        observed_at=now(),
    )


def test_capacity_follows_the_probe(site: Site) -> None:
    h100, l40s = site.pools.order_by("gpu_type__slug")
    h100.healthy = 12
    h100.save()
    node(site, h100, "mixed-1")
    node(site, l40s, "mixed-1")  # the same node, with devices of two pools
    node(site, None, "cpu-1")
    node(site, h100, "broken-1", ready=False)
    node(site, h100, "cordoned-1", cordoned=True)
    Site.objects.filter(pk=site.pk).update(oversubscription_percent=150)

    capacity_sync(str(site.pk))

    sellable = dict(SiteCapacity.objects.filter(site=site).values_list("resource", "hard"))
    assert sellable == {
        "gpu:h100-sxm-80gb": 18,
        "gpu:l40s-48gb": 12,
        "vcpu": 192,
        "memory": 1536,
        "storage": None,
    }


def test_a_site_that_is_gone_is_left_alone(db: None) -> None:
    capacity_sync(str(uuid.uuid4()))
    assert not SiteCapacity.objects.exists()


@pytest.fixture
def cut_alike(site: Site, h100: Flavor, l40s: Flavor) -> None:
    """Both GPU types are cut from the same cards."""
    for flavor, other in ((h100, l40s), (l40s, h100)):
        GpuPool.objects.filter(pk=flavor.pool_id).update(shares_with=[other.pool.gpu_type.slug])
        for each in (flavor, other):
            each.refresh_from_db()


def held(project: Project, site: Site, **amounts: int) -> dict[str, Any]:
    limits_give(project)
    holder: dict[str, Any] = {"holder_kind": "workspace", "holder_id": uuid.uuid4()}
    reservation_reserve(**holder, project=project, site=site, amounts=amounts)
    return holder


@pytest.mark.usefixtures("cut_alike")
def test_cards_that_are_held_in_one_shape_are_not_sold_in_another(
    as_olga: Actor, project: Project, site: Site, h100: Flavor, l40s: Flavor
) -> None:
    holder = held(project, site, **{"gpu:l40s-48gb": 8})
    for flavor in (h100, l40s):
        flavor_retire(actor=as_olga, flavor=flavor)
    with pytest.raises(Conflict, match="8 L40S 48 GB that workspaces or clusters still hold"):
        flavor_publish(actor=as_olga, flavor=h100)
    reservation_release(**holder)
    flavor_publish(actor=as_olga, flavor=h100)


@pytest.mark.usefixtures("cut_alike")
def test_what_was_given_back_cannot_be_had_again_once_its_cards_are_sold_in_another_shape(
    as_olga: Actor, project: Project, site: Site, h100: Flavor, l40s: Flavor
) -> None:
    """As by a workspace that sleeps meanwhile: its flavor is retired, and it keeps that."""
    holder = held(project, site, **{"gpu:l40s-48gb": 8, "storage": 10})
    reservation_shrink(**holder, amounts={"storage": 10})
    for flavor in (h100, l40s):
        flavor_retire(actor=as_olga, flavor=flavor)
    capacity_sync(str(site.pk))
    reservation_grow(**holder, amounts={"gpu:l40s-48gb": 8, "storage": 10})
    reservation_shrink(**holder, amounts={"storage": 10})
    flavor_publish(actor=as_olga, flavor=h100)
    capacity_sync(str(site.pk))
    with pytest.raises(NoCapacity):
        reservation_grow(**holder, amounts={"gpu:l40s-48gb": 8, "storage": 10})
    flavor_retire(actor=as_olga, flavor=h100)
    capacity_sync(str(site.pk))
    reservation_grow(**holder, amounts={"gpu:l40s-48gb": 8, "storage": 10})


@pytest.mark.usefixtures("cut_alike")
def test_what_the_site_does_not_have_any_more_keeps_no_other_shape_from_being_sold(
    as_olga: Actor, project: Project, site: Site, h100: Flavor, l40s: Flavor
) -> None:
    """Its holders are moved to what has come instead of it."""
    held(project, site, **{"gpu:l40s-48gb": 8})
    for flavor in (h100, l40s):
        flavor_retire(actor=as_olga, flavor=flavor)
    GpuPool.objects.filter(pk=l40s.pool_id).update(trouble="the site has no nvidia.com/l40s as it was sold")
    flavor_publish(actor=as_olga, flavor=h100)

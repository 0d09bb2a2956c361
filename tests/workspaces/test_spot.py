"""Workspaces that borrow: what they take of limits and capacity, what they never are, and what is counted of them."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import flavor_create, flavor_publish
from gpuaas.core.errors import Invalid, NoCapacity, QuotaRefused
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    workspace_delete,
    workspace_request,
    workspace_resize,
    workspace_resume,
    workspace_suspend,
)
from quotas.gpus import cards_held, gpus_of_pools
from quotas.models import SiteCapacity
from quotas.observed import capacity_observed
from quotas.selectors import limits_for_project, reservations_held
from quotas.services import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.spotted import NOTICE, SPOT, borrower_ready, borrows, spot_flavor
from tests.workspaces.stage import fast, run_now, settle

pytestmark = pytest.mark.django_db
GPU = "gpu:h100-sxm-80gb"


def test_what_is_borrowed_takes_nothing_of_what_can_be_bought(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    spot = spot_flavor(h100)
    before = gpus_of_pools([h100.pool])[h100.pool_id]
    row = borrower_ready(as_alice, project, site)
    assert (row.is_spot, row.notice_seconds) == (True, NOTICE)
    assert reservations_held(holder_kind="workspace", holder_id=row.pk) == {SPOT: 4, "storage": 100}
    after = gpus_of_pools([h100.pool])[h100.pool_id]
    assert (after.free, after.held) == (before.free, before.held)
    assert (after.free_as(spot), after.lent, after.lendable) == (4, 4, 8)
    assert cards_held(project=project) == 0
    lines = {line.resource: line.used for line in limits_for_project(project=project)}
    assert (lines[SPOT], lines[GPU], lines["vcpu"], lines["memory"]) == (4, 0, 0, 0)
    assert SandboxNamespace.objects.get(owner=row.pk).labels["notice"] == str(NOTICE)
    held = row.holdings.filter(ended_at=None).values_list("meter", flat=True)
    assert list(held) == ["storage_held"]
    workspace_delete(actor=as_alice, workspace=row)
    settle(row)
    assert gpus_of_pools([h100.pool])[h100.pool_id].lent == 0
    counters_must_match()


def test_its_limits_are_hard_like_any_others(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    spot_flavor(h100, lendable=3)
    with pytest.raises(QuotaRefused, match="spot h100-sxm-80gb GPUs") as refused:
        borrows(as_alice, project, h100s=5)
    assert (refused.value.detail["resource"], refused.value.detail["limit"]) == (SPOT, 4)
    with pytest.raises(NoCapacity, match="3 spot h100-sxm-80gb GPUs left"):
        borrows(as_alice, project, h100s=4)
    limits_give(project, {GPU: 0, "vcpu": 0, "memory": 0})
    limits_give(project, {GPU: 0, "vcpu": 0, "memory": 0, SPOT: 4})
    row = workspace_request(actor=as_alice, project=project, name="free", items=[("h100.spot", 3)])
    assert reservations_held(holder_kind="workspace", holder_id=row.pk) == {SPOT: 3}


def test_a_workspace_is_wholly_spot_or_not_at_all(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    spot_flavor(h100)
    FlavorFactory.create(pool=h100.pool, slug="h100.soon", price_class="spot", notice_seconds=30)
    limits_give(project, {SPOT: 8})
    for items, words in (
        ([("h100.1", 1), ("h100.spot", 1)], "h100.spot is spot and h100.1 is not"),
        ([("h100.spot", 1), ("h100.soon", 1)], "end with different notice"),
    ):
        with pytest.raises(Invalid, match=words) as refused:
            workspace_request(actor=as_alice, project=project, name="both", items=items)
        assert list(refused.value.fields) == ["items"]
    assert not Workspace.objects.exists()
    fast(site)
    lent = settle(borrows(as_alice, project))
    bought = settle(workspace_request(actor=as_alice, project=project, name="own", items=[("h100.1", 1)]))
    for row, item, words in (
        (lent, "h100.1", "h100.1 is not spot, and this workspace is"),
        (lent, "h100.soon", "h100.soon ends with another notice than this workspace"),
        (bought, "h100.spot", "h100.spot is spot, and this workspace is not"),
    ):
        with pytest.raises(Invalid, match=words):
            workspace_resize(actor=as_alice, workspace=row, items=[(item, 1)])
    counters_must_match()


def test_it_sleeps_and_wakes_and_changes_its_size(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    spot_flavor(h100)
    row = borrower_ready(as_alice, project, site)
    workspace_resize(actor=as_alice, workspace=row, items=[("h100.spot", 2)])
    row = settle(run_now(row))
    assert reservations_held(holder_kind="workspace", holder_id=row.pk)[SPOT] == 2
    workspace_suspend(actor=as_alice, workspace=row)
    row = settle(row)
    assert SPOT not in reservations_held(holder_kind="workspace", holder_id=row.pk)
    workspace_resume(actor=as_alice, workspace=row)
    row = settle(row)
    assert reservations_held(holder_kind="workspace", holder_id=row.pk)[SPOT] == 2
    counters_must_match()


def test_what_can_be_lent_is_what_is_healthy_and_nothing_more(site: Site, h100: Flavor) -> None:
    GpuPool.objects.filter(pk=h100.pool_id).update(healthy=10, others=3)
    assert SPOT not in capacity_observed(site=site)
    spot_flavor(h100)
    capacity_sync(site=site, healthy=capacity_observed(site=site), oversubscription_percent=200)
    rows = dict(SiteCapacity.objects.values_list("resource", "hard"))
    assert (rows[GPU], rows[SPOT]) == (14, 7)


BASE: dict[str, Any] = {"slug": "h100.lent", "name": "Lent", "vcpus": 4, "memory_gib": 8}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"price_class": "spot", "notice_seconds": 9}, "notice_seconds", "10 to 3,600 seconds"),
        ({"price_class": "spot", "notice_seconds": 3601}, "notice_seconds", "10 to 3,600 seconds"),
        ({"notice_seconds": 60}, "notice_seconds", "only flavors of the price class spot"),
    ],
)
def test_a_notice_is_of_spot_alone(
    as_olga: Actor, h100: Flavor, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        flavor_create(actor=as_olga, pool=h100.pool, **BASE, **changes)
    assert list(refused.value.fields) == [field]


def test_a_spot_flavor_has_a_usual_notice(as_olga: Actor, h100: Flavor) -> None:
    made = flavor_create(actor=as_olga, pool=h100.pool, price_class="spot", **BASE)
    assert (made.notice_seconds, made.is_lent) == (120, True)
    assert flavor_publish(actor=as_olga, flavor=made).state == "active"


@pytest.mark.parametrize("driver", ["openstack", "openshift-bare-metal", "sandbox-cloud"])
def test_a_site_that_ends_nobody_lends_nothing(as_olga: Actor, h100: Flavor, driver: str) -> None:
    Site.objects.filter(pk=h100.pool.site_id).update(driver=driver)
    pool = GpuPool.objects.select_related("site", "gpu_type").get(pk=h100.pool_id)
    with pytest.raises(Invalid, match="ber-1 cannot end what borrows GPUs when a buyer needs them"):
        flavor_create(actor=as_olga, pool=pool, price_class="spot", **BASE)


def test_neither_a_claimed_device_nor_a_flavor_of_before_is_lent(as_olga: Actor, h100: Flavor) -> None:
    old = FlavorFactory.create(pool=h100.pool, slug="h100.old", price_class="spot", state="draft")
    with pytest.raises(Invalid, match="spot ends with notice"):
        flavor_publish(actor=as_olga, flavor=old)
    GpuPool.objects.filter(pk=h100.pool_id).update(device_class="gpu.nvidia.com")
    pool = GpuPool.objects.select_related("site", "gpu_type").get(pk=h100.pool_id)
    with pytest.raises(Invalid, match="counts H100 SXM 80 GB by a DRA class"):
        flavor_create(actor=as_olga, pool=pool, price_class="spot", **BASE)


def test_one_of_before_is_sold_as_it_was(as_alice: Actor, project: Project, site: Site, h100: Flavor) -> None:
    FlavorFactory.create(pool=h100.pool, slug="h100.old", price_class="spot")
    limits_give(project)
    row = workspace_request(
        actor=as_alice, project=project, name="old", items=[("h100.old", 1), ("h100.1", 1)]
    )
    assert (row.is_spot, reservations_held(holder_kind="workspace", holder_id=row.pk)[GPU]) == (False, 2)

"""GPUs in other hands are not sold: by what admission gives, what a preview says, and the parts that every page shows."""

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from frontend.components import Amount
from frontend.presenters.operator.capacity import map_of, pools_shown
from frontend.presenters.operator.nodes import nodes_shown
from gpuaas.catalog.models import GpuPool, Node, Site
from gpuaas.catalog.services import site_probe
from gpuaas.catalog.services.inventory import pool_sums
from gpuaas.core.errors import NoCapacity
from gpuaas.providers.base import ObservedNode
from gpuaas.providers.sandbox.fleet import H100, L40S, Rack, fleet_seed, node_set
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create, pod_delete
from gpuaas.workspaces.services import workspace_request
from quotas.gpus import PoolGpus, gpus_of_pools
from quotas.models import CapacityStretch, SiteCapacity
from quotas.selectors import admission_preview
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.workspaces.stage import fast, ready

TYPE, RESOURCE = "h100-sxm-80gb", "gpu:h100-sxm-80gb"


@pytest.fixture
def shared(site: Site, project: Project) -> Site:
    """`ber-1`, where eight of sixteen H100 and one of eight L40S are in the hands of somebody who was there before."""
    racks = [Rack("h", 2, H100, 8, vcpus=512, memory_gib=4096), Rack("l", 1, L40S, 8)]
    fleet_seed(site.pk, slug=site.slug, racks=racks)
    fast(site)
    limits_give(project, {RESOURCE: 40})
    foreign_namespace(site.pk, "old-lab")
    node_set(site.pk, name="l-01", cordoned=True)
    pod_create(site.pk, "old-lab", "theirs", 8)
    node_set(site.pk, name="l-01")
    node_set(site.pk, name="h-01", cordoned=True)
    node_set(site.pk, name="h-02", cordoned=True)
    pod_create(site.pk, "old-lab", "jupyter-old", 1)
    node_set(site.pk, name="h-01")
    node_set(site.pk, name="h-02")
    look(site)
    return site


def look(site: Site) -> None:
    assert site_probe(site.pk)
    capacity_sync(str(site.pk))


def parts(site: Site, slug: str = TYPE) -> dict[str, int]:
    pool = GpuPool.objects.select_related("gpu_type", "site").get(site=site, gpu_type__slug=slug)
    found = gpus_of_pools([pool])[pool.pk]
    names = ("capacity", "free", "held", "others", "out", "closed", "beyond")
    return {name: count for name in names if (count := getattr(found, name))}


def test_what_others_have_cannot_be_had(shared: Site, as_alice: Actor, project: Project) -> None:
    with pytest.raises(NoCapacity) as refused:
        workspace_request(actor=as_alice, project=project, name="big", items=[("h100.1", 16)])
    detail = refused.value.detail or {}
    told = [detail[key] for key in ("site", "resource", "limit", "used", "asked", "left")]
    assert told == ["ber-1", RESOURCE, 8, 0, 16, 8]
    preview = admission_preview(project=project, site=shared, amounts={RESOURCE: 9})
    assert [check.left for check in preview.refusals] == [8]
    assert parts(shared) == {"capacity": 16, "free": 8, "others": 8}
    assert parts(shared, "l40s-48gb") == {"capacity": 8, "free": 7, "others": 1}
    assert GpuPool.objects.get(site=shared, gpu_type__slug=TYPE).largest_block == 8

    pod_delete(shared.pk, "old-lab", "theirs")
    look(shared)
    made = ready(as_alice, project, shared, h100s=16)
    assert made.state == "ready"
    assert parts(shared) == {"capacity": 16, "held": 16}


def test_our_own_pods_are_not_others(shared: Site, as_alice: Actor, project: Project) -> None:
    workspace = ready(as_alice, project, shared, h100s=4)
    pod_create(shared.pk, workspace.external_name, "mine", 3)
    look(shared)
    assert parts(shared) == {"capacity": 16, "free": 4, "held": 4, "others": 8}
    rows = dict(
        Node.objects.filter(site=shared, pool__gpu_type__slug=TYPE).values_list("allocated", "others")
    )
    assert rows == {8: 8, 3: 0}


def test_others_who_take_what_was_sold_are_told_and_nobody_loses(
    shared: Site, as_alice: Actor, project: Project
) -> None:
    ready(as_alice, project, shared, h100s=8)
    node_set(shared.pk, name="l-01", cordoned=True)
    pod_create(shared.pk, "old-lab", "more", 4, resource_name="nvidia.com/gpu")
    look(shared)
    assert parts(shared) == {"capacity": 16, "held": 8, "others": 12, "beyond": 4}
    row = SiteCapacity.objects.get(site=shared, resource=RESOURCE)
    assert (row.hard, row.used) == (4, 8)


def test_oversubscription_multiplies_what_is_ours(shared: Site) -> None:
    Site.objects.filter(pk=shared.pk).update(oversubscription_percent=150)
    look(shared)
    assert parts(shared) == {"capacity": 16, "free": 12, "others": 8, "beyond": 4}


def test_a_site_that_is_disabled_has_them_for_nobody(shared: Site) -> None:
    Site.objects.filter(pk=shared.pk).update(enabled=False)
    assert parts(shared) == {"capacity": 16, "closed": 8, "others": 8}


def test_what_others_have_is_no_idle_capacity(shared: Site) -> None:
    found = CapacityStretch.objects.filter(site=shared, ends_at=None)
    assert dict(found.values_list("gpu_type__slug", "devices")) == {TYPE: 8, "l40s-48gb": 7}


def test_the_site_says_so(shared: Site, as_alice: Actor) -> None:
    shared.refresh_from_db()
    told = shared.conditions["Counted"]
    assert (told["status"], told["reason"]) == ("True", "InOtherHands")
    assert "8 of 16 H100 SXM 80 GB, 1 of 8 L40S 48 GB" in told["message"]


def test_the_pages_and_the_api_show_the_same_parts(shared: Site, olga: object, client: Client) -> None:
    client.force_login(olga)  # type: ignore[arg-type]
    rows = client.get("/api/v1/platform/capacity").json()["results"]
    row = next(each for each in rows if each["gpu_type"] == "l40s-48gb")
    assert [row[key] for key in ("free", "others", "held", "out")] == [7, 1, 0, 0]
    five = sum(row[key] for key in ("free", "held", "closed", "others", "out"))
    assert five == row["capacity"] + row["beyond"]
    assert "9 in other hands" in client.get("/operator/").content.decode()
    page = client.get("/operator/capacity/").content.decode()
    assert "9 in other hands" in page
    assert 'data-kind="others"' in page


@pytest.mark.parametrize("cordoned", [False, True])
def test_what_others_use_is_allocated_in_no_sum_of_ours(
    shared: Site, as_alice: Actor, project: Project, as_olga: Actor, cordoned: bool
) -> None:
    workspace = ready(as_alice, project, shared, h100s=4)
    pod_create(shared.pk, workspace.external_name, "mine", 3)
    if cordoned:
        node_set(shared.pk, name="l-01", cordoned=True)
    look(shared)
    shown = pools_shown(actor=as_olga)
    sums = {pool.pool.gpu_type.slug: (pool.sums.allocated, pool.nodes.others) for pool in shown}
    assert sums == {TYPE: (3, 8), "l40s-48gb": (0, 1)}
    rows = map_of(shown)
    assert [row.allocated for row in rows] == [3, 0]
    kinds = [[cell.kind for node in row.nodes for cell in node.cells] for row in rows]
    drawn = [(row.count(Amount.USED), row.count(Amount.OTHERS)) for row in kinds]
    assert drawn == [(3, 8), (0, 1)]


def test_a_node_shows_what_others_use_of_it(shared: Site) -> None:
    rows = shared.nodes.filter(pool__isnull=False).select_related("pool__gpu_type").order_by("name")
    parts = [(part.allocated, part.others) for node in nodes_shown(shared, rows) for part in node.parts]
    assert sorted(parts) == [(0, 0), (0, 1), (0, 8)]


nodes = st.builds(
    lambda capacity, unhealthy, ours, others, ready, cordoned: ObservedNode(
        "n",
        "k",
        capacity,
        min(ours + others, capacity),
        0,
        0,
        ready=ready,
        cordoned=cordoned,
        unhealthy=min(unhealthy, capacity),
        others=min(others, capacity),
    ),
    *(st.integers(0, 16),) * 4,
    st.booleans(),
    st.booleans(),
)


@settings(deadline=None)
@given(
    rows=st.lists(nodes, max_size=5),
    held=st.integers(0, 80),
    percent=st.integers(1, 300),
    selling=st.booleans(),
)
def test_the_parts_add_up(rows: list[ObservedNode], held: int, percent: int, selling: bool) -> None:
    sums = pool_sums(rows)
    found = PoolGpus(
        healthy=sums["healthy"],
        sellable=(sums["healthy"] - sums["others"]) * percent // 100,
        held=held,
        owner=None,
        selling=selling,
        capacity=sums["capacity"],
        others=sums["others"],
    )
    five = (found.free, found.held, found.closed, found.others, found.out)
    assert min(*five, found.beyond) >= 0
    assert sum(five) == found.capacity + found.beyond
    if percent <= 100 and held <= found.ours:
        assert found.beyond == 0
    assert sums["allocated"] >= sums["others"]

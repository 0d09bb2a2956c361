"""A site leaves the portal once nothing of it is left; what was used there keeps its name."""

from datetime import date

import pytest
from django.test import Client

from billing.models import Invoice
from billing.services import rate_set
from billing.services.site_removal import site_leftovers, site_remove
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.selectors import capacity_map, flavors_for, sites_for
from gpuaas.catalog.services import site_create, site_probe, site_update
from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTemplate
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.selectors import intervals_for, sites_metered
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import cluster_make, interval_make, pool_stage, utc, workspace_make
from tests.factories.catalog import FlavorFactory
from tests.frontend.markup import asks_again
from tests.lasting import lasting

OCTOBER = date(2026, 10, 1)


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def site(workspace: Workspace, as_olga: Actor) -> Site:
    return site_update(actor=as_olga, site=workspace.site, enabled=False)


def test_what_still_is_there_is_said(
    site: Site, workspace: Workspace, h100: Flavor, project: Project, alice: User, as_olga: Actor
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter="gpu_held", price="2", valid_from=utc("2026-01-01"))
    row = interval_make(workspace, h100, utc("2026-10-02 10:00:00"), None)
    cluster_make(project, h100, alice)
    reserved = pool_stage(project, h100)
    with pytest.raises(Conflict) as refused:
        site_remove(actor=as_olga, site=site, name=site.slug)
    said = " ".join(refused.value.detail["left"])
    for words in (
        "1 workspace (train)",
        "1 cluster (sim)",
        "1 cluster template",
        "1 reserved pool",
        "whose end",
    ):
        assert words in said, words
    Workspace.objects.update(state="deleted")
    Cluster.objects.update(state="deleted")
    ClusterTemplate.objects.update(state="retired")
    type(reserved).objects.filter(pk=reserved.pk).delete()
    UsageInterval.objects.filter(pk=row.pk).update(ended_at=utc("2026-10-02 11:00:00"))
    assert site_leftovers(site=site) == [
        "usage of October 2026 that is not invoiced yet: close that month first"
    ]
    month_close(as_olga, OCTOBER)
    assert not site_leftovers(site=site)
    site_remove(actor=as_olga, site=site, name=site.slug)
    assert Invoice.objects.get().subtotal_minor == 200
    assert [each.site.slug for each in intervals_for(actor=as_olga)] == ["ber-1"]


def test_a_cluster_of_another_site_has_a_pool_there(
    site: Site, h100: Flavor, project: Project, alice: User, as_olga: Actor
) -> None:
    """It sleeps, so nothing of it is used there; without the site it could neither be woken nor deleted."""
    Workspace.objects.update(state="deleted")
    home = FlavorFactory.create(pool__site__slug="fra-1")
    cluster = cluster_make(project, home, alice)
    Cluster.objects.update(state="suspended")
    ClusterPool.objects.create(cluster=cluster, name="burst", flavor=h100, count=2, release="1.35.6")
    ClusterPool.objects.create(cluster=cluster, name="more", flavor=h100, count=0, release="1.35.6")
    assert site_leftovers(site=site) == ["1 cluster (sim): delete them, or wait until they are gone"]
    with pytest.raises(Conflict, match=r"1 cluster \(sim\)"):
        site_remove(actor=as_olga, site=site, name=site.slug)
    Cluster.objects.update(state="deleted")
    site_remove(actor=as_olga, site=site, name=site.slug)


def test_nothing_is_asked_of_it_any_more(site: Site, as_olga: Actor) -> None:
    Workspace.objects.update(state="deleted")
    Site.objects.update(credentials="sealed")
    site_remove(actor=as_olga, site=site, name="ber-1")
    gone = Site.objects.get(pk=site.pk)
    assert (gone.credentials, gone.enabled, gone.due_at) == ("", False, None)
    assert gone.removed_at is not None
    assert not site_probe(site.pk)
    for rows in (sites_for(actor=as_olga), sites_metered(), flavors_for(actor=as_olga, drafts=True)):
        assert not rows.exists()
    assert not capacity_map(actor=as_olga)
    assert set(Flavor.objects.values_list("state", flat=True)) == {"retired"}
    assert not GpuPool.objects.filter(healthy__gt=0).exists()
    assert AuditEntry.objects.filter(action="site.remove", target_name="ber-1").exists()
    with pytest.raises(Conflict, match="belongs to a removed site"):
        site_update(actor=as_olga, site=gone, enabled=True)
    with pytest.raises(Conflict, match="already removed"):
        site_remove(actor=as_olga, site=gone, name="ber-1")
    with pytest.raises(Invalid, match="already exists"):
        site_create(actor=as_olga, slug="ber-1", name="Again", driver="sandbox")


def test_it_is_meant(site: Site, as_olga: Actor, as_alice: Actor) -> None:
    Workspace.objects.update(state="deleted")
    with pytest.raises(Invalid, match="type ber-1"):
        site_remove(actor=as_olga, site=site, name="ber")
    with pytest.raises((NotFound, Forbidden)):
        site_remove(actor=as_alice, site=site, name="ber-1")
    Site.objects.update(enabled=True)
    with pytest.raises(Conflict, match="disable it first"):
        site_remove(actor=as_olga, site=site, name="ber-1")


def test_on_its_page(site: Site, client: Client, olga: User) -> None:
    client.force_login(olga)
    page = client.get("/operator/sites/at/ber-1/").content.decode()
    assert "ber-1 cannot be removed yet" in page
    assert "1 workspace (train)" in page
    Workspace.objects.update(state="deleted")
    page = client.get("/operator/sites/at/ber-1/").content.decode()
    assert 'data-confirm-name="ber-1"' in page
    remove = "/operator/sites/at/ber-1/remove/"
    assert asks_again(client.post(remove, {"confirm_name": "b"}), "remove", "b")
    assert client.post(remove, {"confirm_name": "ber-1"})["Location"] == "/operator/sites/"
    assert client.get("/operator/sites/at/ber-1/").status_code == 404

"""The whole way on the real cloud: attached, its GPUs found, a flavor sold, a workspace asked for, entered, put to sleep, deleted."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import (
    flavor_retire,
    pool_publish,
    rounds_fill,
    site_create,
    site_offers,
    site_preflight,
    site_probe,
)
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.errors import Conflict, QuotaRefused
from gpuaas.providers.base import AccessKind
from gpuaas.providers.openstack.client import Cloud
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    credential_issue,
    workspace_delete,
    workspace_request,
    workspace_resume,
    workspace_suspend,
)
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now

pytestmark = [pytest.mark.openstack, pytest.mark.django_db]

H100 = "h100-sxm-80gb"
NAME = "CUSTOM_PCI_10DE_2330"


@pytest.fixture
def admin(openstack_lab: Lab) -> Iterator[Cloud]:
    with closing(Cloud({"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"})) as cloud:
        yield cloud


@pytest.fixture
def cloud_site(openstack_lab: Lab, as_olga: Actor) -> Site:
    site = site_create(
        actor=as_olga,
        slug="cloud-1",
        name="Cloud",
        driver="openstack",
        credentials={"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"},
        options={"external_network": "public", "aliases": {NAME: "h100"}},
    )
    until(lambda: site_probe(site.pk), "the site answers")
    return site


@pytest.fixture
def sold(cloud_site: Site, as_olga: Actor, admin: Cloud) -> Iterator[Flavor]:
    flavor = pool_publish(actor=as_olga, pool=GpuPool.objects.get(site=cloud_site, gpu_type__slug=H100))
    flavors_delete(admin, flavor)  # of a run that was killed
    capacity_sync(str(cloud_site.pk))
    yield flavor
    flavors_delete(admin, flavor)


def flavors_delete(admin: Cloud, flavor: Flavor) -> None:
    for row in rows_of(admin, flavor):
        admin.delete("compute", f"/flavors/{row['id']}")


def rows_of(admin: Cloud, flavor: Flavor) -> list[dict[str, object]]:
    rows = admin.items("compute", "/flavors/detail", "flavors", is_public="None")
    return [row for row in rows if row["name"] == f"gpuaas-{flavor.slug}"]


def offered(site: Site) -> str:
    site.refresh_from_db()
    return next(row.status for row in conditions_read(site.conditions) if row.type == "FlavorsOffered")


def settled(workspace: Workspace, state: str) -> Workspace:
    until(lambda: run_now(workspace).state == state, state, seconds=180)
    return Workspace.objects.select_related("project__organization", "site").get(pk=workspace.pk)


def boot(tenant: Cloud, name: str) -> str:
    (flavor,) = tenant.items("compute", "/flavors/detail", "flavors")
    image = tenant.items("image", "/images", "images", name="tiny")[0]["id"]
    body = {"name": name, "flavorRef": flavor["id"], "imageRef": image, "networks": "none"}
    return str(tenant.post("compute", "/servers", {"server": body})["server"]["id"])


def status(tenant: Cloud, server: str) -> str:
    return str(tenant.get("compute", f"/servers/{server}")["server"]["status"])


def test_gpus_are_found_as_drafts_and_the_checks_say_that_it_is_fit(cloud_site: Site) -> None:
    pools = {pool.resource_name: pool for pool in GpuPool.objects.filter(site=cloud_site)}
    assert {pool.gpu_type.state for pool in pools.values()} == {"draft"}
    assert pools[NAME].selector == {"pci_passthrough:alias": "h100"}
    assert (pools[NAME].capacity, pools[NAME].healthy, pools[NAME].largest_block <= 8) == (8, 8, True)
    assert site_preflight(cloud_site.pk)
    cloud_site.refresh_from_db()
    blocking = [row for row in conditions_read(cloud_site.checks) if row.status == Status.FALSE]
    assert cloud_site.fit
    assert "BlockStorage" not in {row.type for row in blocking}
    assert all(row.remedy for row in blocking)


def test_a_flavor_is_there_while_it_is_sold_or_held(
    cloud_site: Site, sold: Flavor, project: Project, as_olga: Actor, as_alice: Actor, admin: Cloud
) -> None:
    rounds_fill()
    assert site_offers(cloud_site.pk)
    assert offered(cloud_site) == Status.TRUE
    (made,) = rows_of(admin, sold)
    assert made["os-flavor-access:is_public"] is False
    assert sold.disk_gib > 0
    limits_give(project)
    workspace = settled(
        workspace_request(actor=as_alice, project=project, name="hold", items=[(sold.slug, 1)]), "ready"
    )

    flavor_retire(actor=as_olga, flavor=sold)
    assert site_offers(cloud_site.pk)
    assert rows_of(admin, sold), "somebody holds it"

    workspace_delete(actor=as_alice, workspace=workspace)
    settled(workspace, "deleted")
    flavor_retire(actor=as_olga, flavor=sold)
    cloud_site.rounds.filter(kind="offers").update(due_at=cloud_site.created_at)
    assert site_offers(cloud_site.pk)
    assert rows_of(admin, sold) == []


def test_what_cannot_be_made_is_told_with_what_to_do(cloud_site: Site, sold: Flavor, admin: Cloud) -> None:
    body = {"name": f"gpuaas-{sold.slug}", "vcpus": 1, "ram": 64, "disk": 1}
    foreign = admin.post("compute", "/flavors", {"flavor": body})["flavor"]["id"]  # all tenants see it
    try:
        rounds_fill()
        assert not site_offers(cloud_site.pk)
    finally:
        admin.delete("compute", f"/flavors/{foreign}")
    cloud_site.refresh_from_db()
    (told,) = [row for row in conditions_read(cloud_site.conditions) if row.type == "FlavorsOffered"]
    assert told.status == Status.FALSE
    assert "not the portal's" in told.message
    assert told.remedy


def test_asked_for_entered_put_to_sleep_and_deleted(
    sold: Flavor, project: Project, as_alice: Actor, admin: Cloud
) -> None:
    limits_give(project)
    asked = workspace_request(actor=as_alice, project=project, name="train", items=[(sold.slug, 1)])
    workspace = settled(asked, "ready")

    with pytest.raises(Conflict, match=r"is by clouds\.yaml"):
        credential_issue(actor=as_alice, workspace=workspace, kind=AccessKind.KUBECONFIG)
    access = credential_issue(actor=as_alice, workspace=workspace, lifetime=timedelta(hours=1))
    assert access.kind is AccessKind.CLOUDS_YAML
    with closing(Cloud({"clouds_yaml": access.document})) as tenant:
        server = boot(tenant, "train")
        with pytest.raises(QuotaRefused):
            boot(tenant, "more")
        until(lambda: status(tenant, server) == "ACTIVE", "it runs")
        with pytest.raises(QuotaRefused, match=NAME):
            boot(tenant, "more, when Placement counts the first")

        workspace_suspend(actor=as_alice, workspace=workspace)
        settled(workspace, "suspended")
        assert status(tenant, server) == "SHELVED_OFFLOADED"
        with pytest.raises(QuotaRefused):
            tenant.post("compute", f"/servers/{server}/action", {"unshelve": None})

        workspace_resume(actor=as_alice, workspace=workspace)
        settled(workspace, "ready")
        assert status(tenant, server) == "ACTIVE"

    workspace_delete(actor=as_alice, workspace=workspace)
    settled(workspace, "deleted")
    assert admin.items("identity", "/projects", "projects", name=workspace.external_name) == []

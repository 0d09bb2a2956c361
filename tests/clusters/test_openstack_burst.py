"""A cluster with pools at two clouds, as the portal orders, mends and ends it: two domains of the real one are its sites."""

import uuid
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import (
    cluster_delete,
    cluster_order,
    cluster_scale,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.services.reports import node_report
from gpuaas.clusters.services.rows import driver_of
from gpuaas.clusters.spec import parts_of
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change, Stage
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.projects import DOMAIN
from quotas.models import Limit
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.burst_stage import by_site, in_ledger_at
from tests.clusters.stage import RESTING, run_now
from tests.contracts.clusters import mesh
from tests.contracts.clusters.openstack_rig import Guests
from tests.contracts.clusters.rigs import carry_out
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import until

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
]
H100, NAME, RELEASE = "h100-sxm-80gb", "CUSTOM_PCI_10DE_2330", "1.35.6"


@pytest.fixture
def admin(openstack_lab: Lab) -> Iterator[Cloud]:
    with closing(Cloud({"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"})) as cloud:
        yield cloud


@pytest.fixture
def domain(admin: Cloud) -> Iterator[str]:
    body = {"domain": {"name": f"burst-{uuid.uuid4().hex[:8]}"}}
    made = admin.post("identity", "/domains", body)["domain"]["id"]
    yield made
    admin.patch("identity", f"/domains/{made}", {"domain": {"enabled": False}})
    admin.delete("identity", f"/domains/{made}")


def sold_at(lab: Lab, olga: Actor, slug: str, domain: str) -> Flavor:
    site = site_create(
        actor=olga,
        slug=slug,
        name=slug,
        driver="openstack",
        credentials={"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"},
        options={"external_network": "public", "aliases": {NAME: "h100"}, "domain": domain},
    )
    until(lambda: site_probe(site.pk), f"{slug} answers")
    flavor = pool_publish(actor=olga, pool=GpuPool.objects.get(site=site, gpu_type__slug=H100))
    capacity_sync(str(site.pk))
    return flavor


@pytest.fixture
def cluster(
    openstack_lab: Lab, as_olga: Actor, as_alice: Actor, project: Project, domain: str
) -> Iterator[Cluster]:
    """Ordered, of one worker at `ber-1` and one at `cloud-2`."""
    near = sold_at(openstack_lab, as_olga, "ber-1", DOMAIN)
    far = sold_at(openstack_lab, as_olga, "cloud-2", domain)
    limits_give(project, {f"gpu:{H100}": None})
    template = template_create(
        actor=as_olga, slug="k3s", name="k3s", kind="kubernetes", site=near.pool.site, driver="openstack"
    )
    pools = [
        {"name": name, "flavors": [flavor.slug], "min": 0, "max": 2, "default": 1}
        for name, flavor in (("gpu", near), ("far", far))
    ]
    words = {
        "releases": [RELEASE],
        "control_plane": {"vcpus": 1, "memory_gib": 1, "disk_gib": 1},
        "pools": pools,
        "settings": {"image": "tiny"},
        "burst": ["cloud-2"],
    }
    template_version_add(actor=as_olga, template=template, document=words)
    template_update(actor=as_olga, template=template, state="active", public=True)
    made = cluster_order(
        actor=as_alice, project=project, template="k3s", name="train", document={"release": RELEASE}
    )
    yield made
    row = Cluster.objects.get(pk=made.pk)
    for part in parts_of(row):
        carry_out(driver_of(row, part.site), Change.DELETE, part.spec)


def report(token: str, stage: Stage, message: str) -> None:
    with suppress(GpuaasError):  # its cluster has moved on meanwhile
        node_report(token=token, stage=stage, message=message)


def projects(admin: Cloud, row: Cluster) -> list[Object]:
    return admin.items("identity", "/projects", "projects", name=row.external_name)


def rested(admin: Cloud, cluster: Cluster) -> Cluster:
    """After as many looks as it takes, while whatever boots tells the portal so."""
    guests = Guests(admin, report)

    def look() -> bool:
        for row in projects(admin, cluster):
            guests.live(row["id"])
        return run_now(cluster).state in RESTING

    until(look, f"{cluster.external_name} rests", seconds=600)
    return Cluster.objects.get(pk=cluster.pk)


def whole(admin: Cloud, row: Cluster, far: int, domain: str) -> None:
    assert row.state == "ready", row.trouble
    for part, at in zip(parts_of(row), (DOMAIN, domain), strict=True):
        planned = driver_of(row, part.site).plan(Change.CREATE, part.spec).objects
        assert in_ledger_at(row, part.site) == {(one.kind, one.name) for one in planned}
        mesh.holds(admin, part.spec, at)
    assert (by_site(row, None), by_site(row, Site.objects.get(slug="cloud-2"))) == (1, far)
    counters_must_match()


def test_it_is_ordered_at_both_grows_there_and_is_proved_gone_from_each(
    as_alice: Actor, project: Project, cluster: Cluster, admin: Cloud, domain: str
) -> None:
    row = rested(admin, cluster)
    whole(admin, row, 1, domain)
    row = rested(admin, cluster_scale(actor=as_alice, cluster=row, counts={"far": 2}))
    whole(admin, row, 2, domain)

    row = rested(admin, cluster_delete(actor=as_alice, cluster=row))
    assert row.state == "deleted"
    assert projects(admin, row) == []
    assert not row.ledger.filter(gone_at=None).exists()
    assert not row.holdings.filter(ended_at=None).exists()
    assert Limit.objects.get(project=project, resource=f"gpu:{H100}").used == 0

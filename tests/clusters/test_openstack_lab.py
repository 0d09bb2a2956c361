"""A cluster's whole way on the real cloud, its worker killed before and after every call and guarded write of create, scale, upgrade and
delete."""

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
    cluster_upgrade,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.services.reports import node_report
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import spec_of
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change, Stage
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.openstack.clusters.driver import OpenStackClusterDriver
from quotas.models import Limit
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.named_worker import killed_at_each
from tests.contracts.clusters.openstack_rig import Guests
from tests.contracts.clusters.rigs import carry_out
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import until

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
]
H100, NAME = "h100-sxm-80gb", "CUSTOM_PCI_10DE_2330"
OLD, NEW = "1.35.6", "1.35.7"


@pytest.fixture
def admin(openstack_lab: Lab) -> Iterator[Cloud]:
    with closing(Cloud({"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"})) as cloud:
        yield cloud


@pytest.fixture
def sold(openstack_lab: Lab, as_olga: Actor) -> Flavor:
    site = site_create(
        actor=as_olga,
        slug="cloud-1",
        name="Cloud",
        driver="openstack",
        credentials={"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"},
        options={"external_network": "public", "aliases": {NAME: "h100"}},
    )
    until(lambda: site_probe(site.pk), "the site answers")
    flavor = pool_publish(actor=as_olga, pool=GpuPool.objects.get(site=site, gpu_type__slug=H100))
    capacity_sync(str(site.pk))
    return flavor


@pytest.fixture
def cluster(as_olga: Actor, as_alice: Actor, project: Project, sold: Flavor) -> Iterator[Cluster]:
    """Of one worker; ordered."""
    limits_give(project, {f"gpu:{H100}": None})
    site = Site.objects.get(pk=sold.pool.site_id)
    template = template_create(
        actor=as_olga, slug="k3s", name="k3s", kind="kubernetes", site=site, driver="openstack"
    )
    words = {
        "releases": [OLD, NEW],
        "control_plane": {"vcpus": 1, "memory_gib": 1, "disk_gib": 1},
        "pools": [{"name": "gpu", "flavors": [sold.slug], "min": 1, "max": 2}],
        "settings": {"image": "tiny"},
    }
    template_version_add(actor=as_olga, template=template, document=words)
    template_update(actor=as_olga, template=template, state="active", public=True)
    made = cluster_order(
        actor=as_alice, project=project, template="k3s", name="train", document={"release": OLD}
    )
    yield made
    row = Cluster.objects.get(pk=made.pk)
    driver = cluster_driver_of(row.template_version.template, row.site)
    carry_out(driver, Change.DELETE, spec_of(row))


class Machines:
    """Whatever boots tells the portal so, with the token that it was given."""

    def __init__(self, admin: Cloud, cluster: Cluster) -> None:
        self._admin = admin
        self._name = cluster.external_name
        self._guests = Guests(admin, self._report)

    def _report(self, token: str, stage: Stage, message: str) -> None:
        with suppress(GpuaasError):  # its cluster has moved on meanwhile
            node_report(token=token, stage=stage, message=message)

    def live(self) -> None:
        for row in self._admin.items("identity", "/projects", "projects", name=self._name):
            self._guests.live(row["id"])


def killed(row: Cluster, machines: Machines, verb: str, *steps: str) -> Cluster:
    """At every boundary of the change, which has these calls at least. What comes of it."""
    at = killed_at_each(OpenStackClusterDriver, row, meanwhile=machines.live)
    for call in ("claim", *(f"{verb} {step}" for step in steps), "inventory", "apply"):
        assert {f"before {call}", f"after {call}"} <= set(at), call
    counters_must_match()
    return Cluster.objects.get(pk=row.pk)


def whole(row: Cluster, *, workers: int, release: str) -> None:
    assert row.state == "ready", row.trouble
    spec = spec_of(row)
    driver = cluster_driver_of(row.template_version.template, row.site)
    planned = {(one.kind, one.name) for one in driver.plan(Change.CREATE, spec).objects}
    found = [(one.kind, one.name) for one in driver.inventory(spec.ref)]
    assert sorted(found) == sorted(planned), "each once"
    assert set(row.ledger.filter(gone_at=None).values_list("kind", "name")) == planned
    assert row.holdings.get(meter="gpu_held", ended_at=None).quantity == workers
    nodes = driver.observe(spec.ref).nodes
    assert sorted(node.pool for node in nodes) == ["", *["gpu"] * workers]
    assert {node.release for node in nodes} == {release}


def test_kills_everywhere_leave_one_cluster_and_nothing_after_it(
    as_alice: Actor, project: Project, cluster: Cluster, admin: Cloud
) -> None:
    machines = Machines(admin, cluster)
    row = killed(cluster, machines, "create", "control-plane", "pool:gpu", "checks")
    whole(row, workers=1, release=OLD)
    asked = cluster_scale(actor=as_alice, cluster=row, counts={"gpu": 2})
    row = killed(asked, machines, "scale", "pool:gpu", "checks")
    whole(row, workers=2, release=OLD)
    asked = cluster_upgrade(actor=as_alice, cluster=row, release=NEW)
    row = killed(asked, machines, "upgrade", "control-plane", "pool:gpu", "checks")
    whole(row, workers=2, release=NEW)
    row = killed(cluster_delete(actor=as_alice, cluster=row), machines, "delete", "servers", "gone")
    assert row.state == "deleted"
    driver = cluster_driver_of(row.template_version.template, row.site)
    assert driver.inventory(spec_of(row).ref) == ()
    assert not row.ledger.filter(gone_at=None).exists()
    assert not row.holdings.filter(ended_at=None).exists()
    assert row.transitions.filter(new="deleted").count() == 1
    assert Limit.objects.get(project=project, resource=f"gpu:{H100}").used == 0

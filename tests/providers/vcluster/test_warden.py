"""A quota that is outrun in a virtual cluster, at the real API server: the meter's warden takes the newest pods
within seconds, as in workspaces.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from django.db import connections

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTemplate, TemplateVersion
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.metering.meter import SiteMeterRunner
from gpuaas.metering.models import SiteMeter, UsageInterval
from gpuaas.metering.warden import Warden
from gpuaas.providers.kubeapi.warden import REASON
from gpuaas.providers.vcluster import names, site
from gpuaas.providers.vcluster.tenancy import gpus_in
from tenants.models import AuditEntry, Project, User
from tests.contracts.clusters.vcluster_rig import H100
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.lab.fixtures import LabSite, until
from tests.metering.stage import utc
from tests.providers.vcluster.conftest import Virtual
from tests.providers.vcluster.test_bounds import pod

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]
LOG = structlog.get_logger("test")


@pytest.fixture
def cluster(virtual: Virtual, lab: LabSite, project: Project, alice: User) -> Cluster:
    """The rig's cluster, of 2 × 2 H100, as the database knows it: alice's."""
    there: Site = SiteFactory.create(
        driver="kubernetes", credentials=encrypt_json({"kubeconfig": lab.kubeconfig})
    )
    flavor = FlavorFactory.create(pool=GpuPoolFactory.create(site=there, resource_name=H100), gpus=2)
    template = ClusterTemplate.objects.create(
        slug="vc", name="V", kind="kubernetes", site=there, driver="vcluster"
    )
    version = TemplateVersion.objects.create(template=template, number=1, document={}, created_by="olga")
    row: Cluster = Cluster.objects.create(
        id=virtual.spec.id,
        project=project,
        site=there,
        template_version=version,
        name="train",
        state="ready",
        release=virtual.spec.release,
        control_count=1,
        lease_ends_at=utc("2030-01-01"),
        created_by=alice,
        created_at=utc("2026-01-01"),
    )
    ClusterPool.objects.create(
        cluster=row, name="gpu", flavor=flavor, count=2, confirmed=2, release=row.release
    )
    assert row.external_name == virtual.spec.external_name
    return row


def quota_set(virtual: Virtual, gpus: int) -> None:
    """As a site's administrator would, behind our back."""
    path = f"{virtual.space}/resourcequotas/gpuaas"
    virtual.host.merge(path, {"spec": {"hard": {f"requests.{H100}": str(gpus)}}})
    name = virtual.spec.external_name
    until(lambda: gpus_in(site.enforced(virtual.host, name), H100) == gpus, "the quota is taken up")


def started(virtual: Virtual, *wanted: str) -> None:
    """By the cluster's syncer, one after the other: the site tells times in whole seconds, and the last is to be the newest."""
    for name in wanted:
        asked(virtual, name)
        until(lambda name=name: _bound_before_now(virtual, name), f"{name} is bound")  # type: ignore[misc]


def asked(virtual: Virtual, name: str) -> None:
    virtual.syncer.create(f"{virtual.space}/pods", {**pod(H100, 1), "metadata": {"name": name}})


def _bound_before_now(virtual: Virtual, name: str) -> bool:
    found = virtual.host.get(f"{virtual.space}/pods/{name}")["status"].get("conditions") or []
    bound = [
        one["lastTransitionTime"] for one in found if (one["type"], one["status"]) == ("PodScheduled", "True")
    ]
    return bool(bound) and utc(bound[0].removesuffix("Z")) < clock.now().replace(microsecond=0)


def pods(virtual: Virtual) -> list[str]:
    found = virtual.host.items(f"{virtual.space}/pods", labelSelector=f"!{names.CONTROL}")
    return sorted(one["metadata"]["name"] for one in found)


def condition(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = Cluster.objects.get(pk=cluster.pk).conditions.get("WithinQuota", {})
    return found


def evicted(cluster: Cluster) -> list[str]:
    rows = AuditEntry.objects.filter(action="cluster.evict", target_id=str(cluster.pk)).order_by("pk")
    return list(rows.values_list("after__consumer_name", flat=True))


@contextmanager
def meter(cluster: Cluster) -> Iterator[None]:
    """The site's, as its process runs it."""
    stop = threading.Event()

    def run() -> None:
        try:
            SiteMeterRunner(cluster.site, stop=stop, holder="test").run()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        until(lambda: SiteMeter.objects.filter(last_proof_at__isnull=False).exists(), "the meter runs")
        yield
    finally:
        stop.set()
        thread.join(60)


def test_the_newest_pods_beyond_the_pools_are_taken_and_asleep_all(
    virtual: Virtual, cluster: Cluster, lab: LabSite
) -> None:
    kept = ["p-1", "p-2", "p-3", "p-4"]
    driver = lab.driver()
    quota_set(virtual, 8)
    started(virtual, *kept, "too-many")
    warden = Warden(cluster.site, driver, driver)
    warden.look(LOG)
    assert pods(virtual) == kept, "what was there before it began, of which its stream tells nothing"
    assert evicted(cluster) == ["too-many"]
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("False", "Surplus")
    told = virtual.host.items(f"{virtual.space}/events", fieldSelector=f"reason={REASON}")
    assert all("the cluster held 5" in one["message"] for one in told)
    assert told

    with meter(cluster):
        until(lambda: condition(cluster)["status"] == "True", "it is said that it is within its quota again")
        asked(virtual, "late")
        until(lambda: evicted(cluster) == ["too-many", "late"], "who came past the quota is written down")
        until(lambda: pods(virtual) == kept, "and gone")
        Cluster.objects.filter(pk=cluster.pk).update(state="suspended", suspended_at=clock.now())
        until(lambda: pods(virtual) == [], "asleep it holds nothing")
        until(lambda: condition(cluster)["status"] == "True", "and is within its quota")
    assert sorted(evicted(cluster)) == sorted(["too-many", "late", *kept])
    assert not UsageInterval.objects.exists(), "held GPUs are what clusters are metered by"

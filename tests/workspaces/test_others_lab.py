"""GPUs in other hands at a real API server: what pods and claims of other namespaces hold is not sold while they hold it."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services import site_create, site_probe
from gpuaas.core.errors import NoCapacity
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.services import workspace_request
from quotas.gpus import gpus_of_pools
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import pod
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now
from tests.workspaces.test_new_model import H100, healthy, sell, tenant

pytestmark = pytest.mark.lab

THEIRS, PORTAL = "others", "gpu-0badcafe-of-another-portal"  # they stay between tests
H200 = "h200-141gb-dra"
DRA = "/apis/resource.k8s.io/v1"


@pytest.fixture
def api(own_lab: Lab) -> Iterator[Api]:
    made = Api(own_lab.kubeconfig.read_text())
    label = {"gpuaas.io/workspace": "01900000-0000-7000-8000-00000badcafe"}
    bought = {
        "gpuaas.io/pins": f"nvidia.com/gpu@gpuaas.io/pool={H100}",
        "gpuaas.io/pools": f"gpuaas.io/pool={H100}",
    }
    for facts in ({"name": THEIRS}, {"name": PORTAL, "labels": label, "annotations": bought}):
        if made.find(f"/api/v1/namespaces/{facts['name']}") is None:
            made.create("/api/v1/namespaces", {"metadata": facts})
    yield made
    for name in (each["metadata"]["name"] for each in made.items("/api/v1/namespaces")):
        if name in (THEIRS, PORTAL):
            made.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
        elif name.startswith("gpu-"):
            made.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
            made.delete(f"/api/v1/namespaces/{name}")
    made.close()


@pytest.fixture
def site(own_lab: Lab, as_olga: Actor, project: Project) -> Site:
    credentials = {"kubeconfig": own_lab.kubeconfig.read_text()}
    made = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    until(lambda: site_probe(made.pk) and healthy(made, H100) == 16, "the site's H100 take work")
    limits_give(project, {f"gpu:{H100}": 40, f"gpu:{H200}": 8})
    return made


def look(site: Site) -> None:
    assert site_probe(site.pk)
    capacity_sync(str(site.pk))


def parts(site: Site, slug: str = H100) -> tuple[int, int, int]:
    found = GpuPool.objects.select_related("gpu_type", "site").get(site=site, gpu_type__slug=slug)
    gpus = gpus_of_pools([found])[found.pk]
    return gpus.free, gpus.held, gpus.others


def theirs(limits: dict[str, str], **spec: Any) -> Object:
    """A pod that names its node's taint itself, as nobody does it for them."""
    return pod("theirs", limits, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}], **spec)


def running(api: Api, space: str, name: str) -> bool:
    found: Object = api.get(f"/api/v1/namespaces/{space}/pods/{name}")
    return bool(found["status"]["phase"] == "Running")


@pytest.mark.parametrize("space", [THEIRS, PORTAL])
def test_pods_of_others_are_not_sold_until_they_go(
    api: Api, site: Site, project: Project, as_alice: Actor, as_olga: Actor, space: str
) -> None:
    flavor = sell(as_olga, site, H100).slug
    api.create(
        f"/api/v1/namespaces/{space}/pods",
        theirs({"nvidia.com/gpu": "8"}, nodeSelector={"kubernetes.io/hostname": "h100-1"}),
    )
    until(lambda: running(api, space, "theirs"), "their pod runs")
    look(site)
    assert parts(site) == (8, 0, 8)
    site.refresh_from_db()
    assert "8 of 16 H100 SXM 80 GB" in site.conditions["Counted"]["message"]
    with pytest.raises(NoCapacity) as refused:
        workspace_request(actor=as_alice, project=project, name="case03", items=[(flavor, 16)])
    assert (refused.value.detail or {})["left"] == 8

    small = workspace_request(actor=as_alice, project=project, name="eight", items=[(flavor, 8)])
    until(lambda: run_now(small).state == "ready", "what is left can be had")
    mine = f"/api/v1/namespaces/{small.external_name}/pods"
    alice = tenant(as_alice, small)
    alice.create(mine, pod("mine", {"nvidia.com/gpu": "8"}))
    until(lambda: running(alice, small.external_name, "mine"), "her pod has all eight")
    look(site)
    assert parts(site) == (0, 8, 8), "what is ours is not in other hands"

    api.delete(f"/api/v1/namespaces/{space}/pods/theirs", gracePeriodSeconds="0")
    until(lambda: api.find(f"/api/v1/namespaces/{space}/pods/theirs") is None, "their pod is gone")
    look(site)
    assert parts(site) == (8, 8, 0)
    workspace_request(actor=as_alice, project=project, name="more", items=[(flavor, 8)])


def test_claims_of_others_are_not_sold(api: Api, site: Site, as_olga: Actor) -> None:
    sell(as_olga, site, H200)
    look(site)
    before, held, others = parts(site, H200)
    assert (held, others) == (0, 0)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "h200", "count": 2}}]
    api.create(
        f"{DRA}/namespaces/{THEIRS}/resourceclaims",
        {"metadata": {"name": "theirs"}, "spec": {"devices": {"requests": requests}}},
    )
    body = theirs({}, resourceClaims=[{"name": "gpu", "resourceClaimName": "theirs"}])
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    api.create(f"/api/v1/namespaces/{THEIRS}/pods", body)
    until(lambda: running(api, THEIRS, "theirs"), "their pod runs")
    look(site)
    assert parts(site, H200) == (before - 2, 0, 2)

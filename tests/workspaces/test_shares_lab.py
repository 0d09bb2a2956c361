"""Cards that are cut into shares, and cards beside another processor, at a real API server: from the node to a pod on it."""

from collections.abc import Iterator

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services import site_create, site_probe
from gpuaas.core.errors import Invalid
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from quotas.gpus import gpus_of_pools
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import pod
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now
from tests.workspaces.test_new_model import H100, hard, healthy, sell, tenant

pytestmark = pytest.mark.lab

GPU, POOL, ARCH = "nvidia.com/gpu", "gpuaas.io/pool", "kubernetes.io/arch"
TENTH, TWENTIETH = "a10-24gb-shared-1of10", "a10-24gb-shared-1of20"


def node(name: str, amounts: dict[str, str], product: str, pool: str, **labels: str) -> Object:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", **amounts}
    found = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product, POOL: pool, **labels}
    return {
        "metadata": {"name": name, "labels": found},
        "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


@pytest.fixture
def api(own_lab: Lab) -> Iterator[Api]:
    made = Api(own_lab.kubeconfig.read_text())
    yield made
    for name in (each["metadata"]["name"] for each in made.items("/api/v1/namespaces")):
        if name.startswith("gpu-"):
            made.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
            made.delete(f"/api/v1/namespaces/{name}")
    for name in ("hami-1", "grace-1", "xeon-1"):
        made.delete(f"/api/v1/nodes/{name}")
    made.close()


@pytest.fixture
def site(own_lab: Lab, api: Api, as_olga: Actor) -> Site:
    credentials = {"kubeconfig": own_lab.kubeconfig.read_text()}
    made = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    until(lambda: site_probe(made.pk) and healthy(made, H100) == 16, "the site's H100 take work")
    return made


def join(api: Api, site: Site, slug: str, count: int, body: Object) -> None:
    api.create("/api/v1/nodes", body)
    found = GpuPool.objects.filter(site=site, gpu_type__slug=slug, healthy=count)
    until(lambda: site_probe(site.pk) and found.exists(), f"{count} {slug} take work")


def ordered(actor: Actor, project: Project, flavor: str, count: int) -> Workspace:
    made = workspace_request(
        actor=actor, project=project, name=flavor.split(".")[0][:20], items=[(flavor, count)]
    )
    until(lambda: run_now(made).state == "ready", "it is ready")
    return Workspace.objects.get(pk=made.pk)


def runs_on(alices: Api, workspace: Workspace, name: str, limits: dict[str, str]) -> str:
    path = f"/api/v1/namespaces/{workspace.external_name}/pods"
    alices.create(path, pod(name, limits))
    until(lambda: alices.get(f"{path}/{name}")["status"].get("phase") == "Running", "the pod runs")
    return str(alices.get(f"{path}/{name}")["spec"]["nodeName"])


def test_eighty_shares_of_eight_cards(
    api: Api, site: Site, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    """As HAMi registers them; then the node is cut anew, and what was sold stays what it was."""
    count = {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "23028"}
    amounts = {GPU: "80", "nvidia.com/gpumem": "184224", "nvidia.com/gpucores": "800"}
    join(api, site, TENTH, 80, node("hami-1", amounts, "NVIDIA-A10", "a10", **count))
    assert not GpuPool.objects.filter(
        site=site, resource_name__in=["nvidia.com/gpumem", "nvidia.com/gpucores"]
    )
    assert not GpuPool.objects.filter(site=site, gpu_type__slug="a10-24gb").exists()

    limits_give(project, {f"gpu:{TENTH}": 20})
    flavor = sell(as_olga, site, TENTH).slug
    workspace = ordered(as_alice, project, flavor, 2)
    alices = tenant(as_alice, workspace)
    assert runs_on(alices, workspace, "train", {GPU: "2"}) == "hami-1"
    assert hard(api, workspace)["requests.nvidia.com/gpu"] == "2"
    path = f"/api/v1/namespaces/{workspace.external_name}"
    pins = api.get(path)["metadata"]["annotations"]["gpuaas.io/pins"]

    cut = {"capacity": {GPU: "160"}, "allocatable": {GPU: "160"}}
    api.merge("/api/v1/nodes/hami-1/status", {"status": cut})
    new = GpuPool.objects.filter(site=site, gpu_type__slug=TWENTIETH, capacity=160)
    until(lambda: site_probe(site.pk) and new.exists(), "the node is cut anew")
    site.refresh_from_db()
    told = site.conditions["AsSold"]
    assert (told["status"], told["reason"]) == ("False", "NotAsSold")
    assert TENTH in told["message"]
    assert new.get().trouble
    old = GpuPool.objects.select_related("site", "gpu_type").get(site=site, gpu_type__slug=TENTH)
    assert (old.capacity, gpus_of_pools([old])[old.pk].free) == (0, 0)
    run_now(workspace)
    assert api.get(path)["metadata"]["annotations"]["gpuaas.io/pins"] == pins
    assert hard(api, workspace)["requests.nvidia.com/gpu"] == "2"
    with pytest.raises(Invalid):
        workspace_request(actor=as_alice, project=project, name="more", items=[(flavor, 1)])


def test_a_pod_of_one_architecture_never_lands_on_the_other(
    api: Api, site: Site, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    """Two nodes of one model in one pool, of which nothing but the architecture differs."""
    memory = {"nvidia.com/gpu.memory": "15360"}
    join(api, site, "t4-16gb", 4, node("xeon-1", {GPU: "4"}, "Tesla-T4", "t4", **{ARCH: "amd64"}, **memory))
    join(
        api,
        site,
        "t4-16gb-arm64",
        4,
        node("grace-1", {GPU: "4"}, "Tesla-T4", "t4", **{ARCH: "arm64"}, **memory),
    )
    pools = {
        each.gpu_type.slug: each
        for each in GpuPool.objects.filter(site=site, gpu_type__slug__startswith="t4-16gb")
    }
    assert {slug: (each.arch, each.selector) for slug, each in pools.items()} == {
        "t4-16gb": ("amd64", {POOL: "t4", ARCH: "amd64"}),
        "t4-16gb-arm64": ("arm64", {POOL: "t4", ARCH: "arm64"}),
    }
    limits_give(project, {"gpu:t4-16gb": 4, "gpu:t4-16gb-arm64": 4})
    for slug, host in (("t4-16gb-arm64", "grace-1"), ("t4-16gb", "xeon-1")):
        workspace = ordered(as_alice, project, sell(as_olga, site, slug).slug, 2)
        alices = tenant(as_alice, workspace)
        assert [runs_on(alices, workspace, f"train-{number}", {GPU: "1"}) for number in range(2)] == [
            host
        ] * 2

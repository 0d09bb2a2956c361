"""A GPU model that was never seen: from the node that brings it to a pod that runs on it, all the way."""

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from pytest_django import DjangoCaptureOnCommitCallbacks

from billing.services import rate_set
from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.core import queue
from gpuaas.core.errors import GpuaasError, Invalid
from gpuaas.metering.models import Meter
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import credential_issue, workspace_request
from gpuaas.workspaces.tasks import site_changed
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import pod
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now

pytestmark = pytest.mark.lab

NAME = "nvidia.com/mig-1g.34gb"
KEY = f"requests.{NAME}"
SLUG = "b300-mig-1g.34gb"
H100 = "h100-sxm-80gb"


def node(name: str) -> Object:
    """As it joins with its device plugin and feature discovery already there."""
    resources = {"cpu": "224", "memory": "2Ti", "pods": "110", NAME: "7"}
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-B300-SXM6-AC",
        "nvidia.com/gpu.memory": "275040",
        "nvidia.com/gpu.compute.major": "10",
        "nvidia.com/gpu.compute.minor": "3",
        f"{NAME}.product": "NVIDIA-B300-SXM6-AC-MIG-1g.34gb",
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def is_open(found: Object) -> bool:
    ready = any(each["type"] == "Ready" for each in found["status"].get("conditions") or [])
    return ready and {taint["key"] for taint in found["spec"]["taints"]} == {"nvidia.com/gpu"}


@pytest.fixture
def api(own_lab: Lab) -> Iterator[Api]:
    made = Api(own_lab.kubeconfig.read_text())
    yield made
    for name in (each["metadata"]["name"] for each in made.items("/api/v1/namespaces")):
        if name.startswith("gpu-"):
            made.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
            made.delete(f"/api/v1/namespaces/{name}")
    made.close()


@pytest.fixture
def lab_site(own_lab: Lab, as_olga: Actor) -> Site:
    """With the H100 that are there from the beginning on sale."""
    credentials = {"kubeconfig": own_lab.kubeconfig.read_text()}
    site = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    # nodes that have just joined are closed by a taint for a moment
    until(lambda: site_probe(site.pk) and healthy(site, H100) == 16, "the site's H100 take work")
    sell(as_olga, site, H100)
    return site


def pool(site: Site, slug: str) -> GpuPool:
    return GpuPool.objects.get(site=site, gpu_type__slug=slug)


def healthy(site: Site, slug: str) -> int:
    return pool(site, slug).healthy


def sell(olga: Actor, site: Site, slug: str) -> Flavor:
    """What an operator does: publish it, and price it."""
    found = GpuPool.objects.select_related("site", "gpu_type").get(site=site, gpu_type__slug=slug)
    flavor = pool_publish(actor=olga, pool=found)
    rate_set(actor=olga, flavor=flavor, meter=Meter.GPU_HELD, price="0.40")
    capacity_sync(str(site.pk))
    return flavor


def make(actor: Actor, project: Project, name: str, flavor: str) -> Workspace:
    made = workspace_request(actor=actor, project=project, name=name, items=[(flavor, 1)])
    until(lambda: run_now(made).state == "ready", f"{name} is ready")
    return Workspace.objects.get(pk=made.pk)


def hard(api: Api, workspace: Workspace) -> dict[str, str]:
    found = api.get(f"/api/v1/namespaces/{workspace.external_name}/resourcequotas/gpuaas")
    return dict((found.get("status") or {}).get("hard") or {})


def tenant(actor: Actor, workspace: Workspace) -> Api:
    issued = credential_issue(actor=actor, workspace=workspace, lifetime=timedelta(hours=1))
    return Api(issued.document)


def broker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tasks that are poked run at once, by their names; returns those that were."""
    tasks: dict[str, Callable[..., object]] = {
        "workspaces.site_changed": site_changed,
        "workspaces.reconcile": lambda key: run(uuid.UUID(key)),
        "quotas.capacity_sync": capacity_sync,
    }
    done: list[str] = []

    def send(task: str, ids: tuple[str, ...]) -> None:
        done.append(task)
        if task in tasks:
            tasks[task](*ids)

    monkeypatch.setattr(settings, "QUEUE_ENABLED", True)
    monkeypatch.setattr(queue, "send", send)
    return done


def refused_while_draft(alice: Actor, project: Project, gpu_type: GpuType) -> None:
    assert not flavors_for(actor=alice).filter(pool__gpu_type=gpu_type).exists()
    with pytest.raises(Invalid, match="no flavor"):
        workspace_request(actor=alice, project=project, name="slices", items=[(f"{SLUG}.1", 1)])


def run_on_it(api: Api, alices: Api, workspace: Workspace) -> None:
    assert (hard(api, workspace)[KEY], hard(api, workspace)["requests.nvidia.com/gpu"]) == ("1", "0")
    pods = f"/api/v1/namespaces/{workspace.external_name}/pods"
    alices.create(pods, pod("train", {NAME: "1"}))
    until(lambda: api.get(f"{pods}/train")["status"].get("phase") == "Running", "the pod runs")
    assert api.get(f"{pods}/train")["spec"]["nodeName"] == "b300-1"
    with pytest.raises(GpuaasError, match="exceeded quota"):
        alices.create(pods, pod("more", {NAME: "1"}))


def test_from_the_node_to_a_pod_on_it(
    api: Api,
    lab_site: Site,
    project: Project,
    as_alice: Actor,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    limits_give(project, {f"gpu:{SLUG}": 4})
    before = make(as_alice, project, "before", f"{H100}.1")
    alices = tenant(as_alice, before)
    assert KEY not in hard(api, before)

    api.create("/api/v1/nodes", node("b300-1"))
    until(lambda: is_open(api.get("/api/v1/nodes/b300-1")), "the node takes work")
    # the plugin ExtendedResourceToleration would have it tolerate its own name, which the whitelist does not know yet
    with pytest.raises(GpuaasError, match=r"did not buy|toleration"):
        alices.create(f"/api/v1/namespaces/{before.external_name}/pods", pod("early", {NAME: "1"}))

    poked = broker(monkeypatch)
    with django_capture_on_commit_callbacks(execute=True):
        assert site_probe(lab_site.pk)
    found = GpuType.objects.get(slug=SLUG)
    assert (found.state, found.memory_gib, found.compute_capability) == ("draft", 34, "10.3")
    assert Node.objects.get(name="b300-1", pool__gpu_type=found).capacity == 7
    assert "workspaces.site_changed" in poked
    until(lambda: hard(api, before).get(KEY) == "0", "closed in the namespace that was there before")
    with pytest.raises(GpuaasError, match="did not buy"):
        alices.create(f"/api/v1/namespaces/{before.external_name}/pods", pod("late", {NAME: "1"}))

    refused_while_draft(as_alice, project, found)
    after = make(as_alice, project, "slices", sell(as_olga, lab_site, SLUG).slug)
    run_on_it(api, tenant(as_alice, after), after)
    assert hard(api, before)[KEY] == "0"


def test_probing_again_wakes_nobody(
    api: Api,
    lab_site: Site,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    """Only a new name does, or a contract that the site breaks; and a name that is gone stays closed."""
    poked = broker(monkeypatch)
    with django_capture_on_commit_callbacks(execute=True):
        assert site_probe(lab_site.pk)
    assert "workspaces.site_changed" not in poked
    names = Site.objects.get(pk=lab_site.pk).gpu_names
    api.delete("/api/v1/nodes/b300-1")
    with django_capture_on_commit_callbacks(execute=True):
        assert site_probe(lab_site.pk)
    assert Site.objects.get(pk=lab_site.pk).gpu_names == names
    for name in ("h100-1", "h100-2"):
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"gpuaas.io/pool": None}}})
    with django_capture_on_commit_callbacks(execute=True):
        assert site_probe(lab_site.pk)
    assert "workspaces.site_changed" in poked, "nothing there has the label that the H100 were sold with"
    assert (healthy(lab_site, H100), bool(pool(lab_site, H100).trouble)) == (0, True)

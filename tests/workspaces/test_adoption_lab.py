"""The whole way on the real control plane: a team's namespace becomes a workspace while its training goes on."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.core.errors import GpuaasError
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import usage_apply
from gpuaas.providers.base import UsageCapability
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Adoption, AdoptionScan, Workspace
from gpuaas.workspaces.reconcile import adoption
from gpuaas.workspaces.selectors import adoptables_of
from gpuaas.workspaces.services import (
    adoption_confirm,
    adoption_plan_request,
    adoption_scan_request,
    credential_issue,
    workspace_delete,
)
from gpuaas.workspaces.site import driver_of
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import pod, workload
from tests.factories.quotas import limits_give
from tests.lab.fixtures import LabSite, until
from tests.workspaces.stage import run_now

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

H100 = "h100-sxm-80gb"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def lab_site(lab: LabSite, as_olga: Actor) -> Site:
    credentials = {"kubeconfig": lab.kubeconfig}
    site = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    h100 = GpuPool.objects.filter(site=site, gpu_type__slug=H100, healthy__gt=0)
    until(lambda: site_probe(site.pk) and h100.exists(), "the site's H100 take work")
    pool_publish(actor=as_olga, pool=h100.get())
    capacity_sync(str(site.pk))
    return site


@pytest.fixture
def old(lab: LabSite) -> Iterator[str]:
    """With a Deployment on 2 H100, a quota and a binding of its own."""
    api, name = lab.api(), f"team-{uuid4().hex[:8]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    path, body = workload(name, "Deployment", "train", {"nvidia.com/gpu": "1", "cpu": "1"}, replicas=2)
    body["spec"]["template"]["spec"] |= {
        "nodeSelector": {"gpuaas.io/pool": H100},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    api.create(path, body)
    hard = {"spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
    api.create(f"/api/v1/namespaces/{name}/resourcequotas", {"metadata": {"name": "team"}, **hard})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    erin = {"kind": "User", "name": "erin", "apiGroup": "rbac.authorization.k8s.io"}
    given = {"metadata": {"name": "erin"}, "roleRef": role, "subjects": [erin]}
    api.create(f"{RBAC}/namespaces/{name}/rolebindings", given)
    until(lambda: len(running(api, name)) == 2, "the team trains")
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


def running(api: Api, namespace: str) -> set[str]:
    pods = api.items(f"/api/v1/namespaces/{namespace}/pods", fieldSelector="status.phase=Running")
    return {each["metadata"]["uid"] for each in pods}


def planned(olga: Actor, site: Site, project: Project, name: str) -> Adoption:
    adoption_scan_request(actor=olga, site=site)
    assert adoption.scan(site.pk)
    found = adoptables_of(actor=olga, scan=AdoptionScan.objects.select_related("site").get(site=site))
    one = next(each for each in found if each.found.external_name == name)
    assert one.found.gpus == {"nvidia.com/gpu": 2}
    flavor = next(iter(one.proposal.items))
    row = adoption_plan_request(
        actor=olga, site=site, external_name=name, project=project, items=[(flavor, 2)], name="train"
    )
    assert adoption.plan(row.pk)
    row.refresh_from_db()
    return row


def settled(workspace: Workspace, state: str) -> Workspace:
    until(lambda: run_now(workspace).state == state, state, seconds=120)
    return Workspace.objects.select_related("project", "site").get(pk=workspace.pk)


def metered(site: Site, workspace: Workspace) -> list[UsageInterval]:
    driver = driver_of(site)
    assert isinstance(driver, UsageCapability)
    events = list(driver.watch_usage("", seconds=1))
    usage_apply(site_id=site.pk, events=events)
    return list(UsageInterval.objects.filter(workspace=workspace, meter="gpu_allocated"))


def test_a_team_moves_in(
    lab: LabSite, lab_site: Site, old: str, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    api = lab.api()
    limits_give(project)
    before = running(api, old)

    told = {step["object"] for step in planned(as_olga, lab_site, project, old).steps if step["blocking"]}
    assert told == {"ResourceQuota/team", "RoleBinding/erin"}
    api.delete(f"/api/v1/namespaces/{old}/resourcequotas/team")
    api.delete(f"{RBAC}/namespaces/{old}/rolebindings/erin")
    plan = planned(as_olga, lab_site, project, old)
    assert [step for step in plan.steps if step["blocking"]] == []

    workspace = settled(adoption_confirm(actor=as_olga, adoption=plan), "ready")
    assert workspace.external_name == old
    assert running(api, old) == before
    quota = api.get(f"/api/v1/namespaces/{old}/resourcequotas/gpuaas")["status"]
    assert (quota["hard"]["requests.nvidia.com/gpu"], quota["used"]["requests.nvidia.com/gpu"]) == ("2", "2")

    access = credential_issue(actor=as_alice, workspace=workspace, lifetime=timedelta(hours=1))
    tenant, pods = Api(access.document), f"/api/v1/namespaces/{old}/pods"
    with pytest.raises(GpuaasError, match="exceeded quota"):
        tenant.create(pods, pod("third", {"nvidia.com/gpu": "1"}))
    with pytest.raises(GpuaasError, match="nodeName"):
        tenant.create(pods, pod("sly", {"cpu": "1"}, nodeName="h100-1"))

    rows = metered(lab_site, workspace)
    plan.refresh_from_db()
    assert plan.adopted_at is not None
    assert {row.consumer_uid for row in rows} == before
    assert {row.started_at for row in rows} == {plan.adopted_at.replace(microsecond=0)}

    workspace_delete(actor=as_alice, workspace=workspace)
    settled(workspace, "deleted")
    assert api.find(f"/api/v1/namespaces/{old}") is None

"""The portal keeps its workspaces on a real cloud as they were bought, or says that they are not, and shows what goes."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Site
from gpuaas.catalog.states import DriftPolicy
from gpuaas.providers.openstack import dry_run, flavors, limits, people, projects
from gpuaas.providers.openstack.client import Cloud
from gpuaas.workspaces.models import Drift, Step, Workspace
from gpuaas.workspaces.services import credential_issue, workspace_delete, workspace_request
from gpuaas.workspaces.spec import spec_of
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import take_away
from tests.providers.openstack.portal import H100, driver_at, flavor_of, reach, site_make, visit
from tests.providers.openstack.test_drift import delete_network, grant_flavor, let_stranger_in, raise_limit
from tests.providers.openstack.test_workspace import boot

pytestmark = [pytest.mark.openstack, pytest.mark.django_db]


@pytest.fixture
def site(openstack_lab: Lab, db: None) -> Site:
    return site_make(openstack_lab)


@pytest.fixture(autouse=True)
def _all_is_in_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the whole site's is read once for two seconds. However slow the machine is: all changes here fall within them."""
    monkeypatch.setattr(dry_run, "COMMON_SECONDS", 300.0)


@pytest.fixture
def admin(openstack_lab: Lab) -> Cloud:
    return Cloud({"clouds_yaml": openstack_lab.clouds.read_text(), "cloud": "lab"})


@pytest.fixture
def workspace(as_alice: Actor, project: Project, site: Site, openstack_lab: Lab) -> Iterator[Workspace]:
    limits_give(project)
    made = workspace_request(actor=as_alice, project=project, name="train", items=[(flavor_of(site).slug, 2)])
    yield reach(made, "ready")
    take_away(driver_at(site, openstack_lab), spec_of(made))


def repaired(workspace: Workspace) -> list[tuple[str, str, str]]:
    """(object, path, found) of what was set right, over all drifts."""
    rows = Drift.objects.filter(workspace=workspace, state="repaired").order_by("pk")
    return [(one["object"], one["path"], one["found"]) for row in rows for one in row.differences]


def in_sync(workspace: Workspace) -> str:
    return str(Workspace.objects.get(pk=workspace.pk).conditions["InSync"]["status"])


def test_what_is_changed_behind_its_back_comes_back_and_is_written_down(
    workspace: Workspace, admin: Cloud, cloud: LabCloud
) -> None:
    spec = spec_of(workspace)
    told = set().union(
        *(
            change(admin, spec, cloud)
            for change in (raise_limit, grant_flavor, let_stranger_in, delete_network)
        )
    )
    wanted = {one[1:] for one in told}
    until(
        lambda: in_sync(visit(workspace)) == "True" and set(repaired(workspace)) >= wanted, "it is set right"
    )
    assert set(repaired(workspace)) == wanted
    project = projects.project_find(admin, workspace.external_name)
    assert project is not None
    assert limits.project_limits(admin, project["id"])[f"class:{H100}"]["resource_limit"] == 2
    assert {holder for holder, _ in people.roles_held(admin, project["id"])} == {"users"}
    private = [row for row in flavors.all_flavors(admin) if flavors.is_withheld(row)]
    assert sum(project["id"] in flavors.granted(admin, row["id"]) for row in private) == 1


def test_where_drift_is_only_observed_the_limits_come_back_all_the_same(
    workspace: Workspace, site: Site, admin: Cloud, cloud: LabCloud
) -> None:
    Site.objects.filter(pk=site.pk).update(drift_policy=DriftPolicy.OBSERVE)
    spec = spec_of(workspace)
    raise_limit(admin, spec, cloud)
    delete_network(admin, spec, cloud)
    network = ("Network/workspace", "", "missing")
    until(
        lambda: any(one[0].startswith("Limit/") for one in repaired(visit(workspace))),
        "the limit is set right",
    )

    def open_drifts() -> list[tuple[str, str, str]]:
        visit(workspace)
        rows = Drift.objects.filter(workspace=workspace, state="open")
        return [(one["object"], one["path"], one["found"]) for row in rows for one in row.differences]

    until(lambda: open_drifts() == [network], "the rest is told")
    condition = Workspace.objects.get(pk=workspace.pk).conditions["InSync"]
    assert condition["status"] == "False"
    assert "Network/workspace" in condition["message"]


def test_a_deletion_says_what_is_still_there_until_nothing_is(
    workspace: Workspace, as_alice: Actor, admin: Cloud
) -> None:
    issued = credential_issue(actor=as_alice, workspace=workspace, lifetime=timedelta(hours=1))
    tenant = Cloud({"clouds_yaml": issued.document})
    boot(tenant)
    network = tenant.post("network", "/networks", {"network": {"name": "own"}})["network"]
    tenant.post("network", "/ports", {"port": {"network_id": network["id"], "name": "own"}})
    before = projects.project_find(admin, workspace.external_name)
    assert before is not None
    workspace_delete(actor=as_alice, workspace=workspace)
    said: list[str] = []

    def gone() -> bool:
        row = visit(workspace)
        said.extend(Step.objects.filter(operation__workspace=workspace).values_list("detail", flat=True))
        return row.state == "deleted"

    until(gone, "it is deleted", seconds=120)
    assert any("machine train" in words for words in said), said
    assert projects.project_find(admin, workspace.external_name) is None
    assert admin.items("compute", "/servers", "servers", all_tenants="1", project_id=before["id"]) == []
    assert admin.items("network", "/ports", "ports", project_id=before["id"]) == []

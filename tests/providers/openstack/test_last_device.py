"""The last free device of a kind goes to exactly one of two tenants whose limits both allow it; the other reads why."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Site
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.services import MachineOrder, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.spec import spec_of
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud
from tests.providers.openstack.conftest import take_away
from tests.providers.openstack.portal import A16, driver_at, flavor_of, reach, site_make

pytestmark = [pytest.mark.openstack, pytest.mark.django_db(transaction=True)]
WHY = f"no host has 1 free {A16}, along with the vCPUs and memory: delete it and try again later"
WHY_ON_THE_HOST = (
    "no host with room could create it, for example because others were faster: delete it and try again later"
)


@dataclass(frozen=True)
class Tenant:
    user: User
    actor: Actor
    project: Project


@pytest.fixture
def tenants(
    alice: User, as_alice: Actor, project: Project, charlie: User, as_charlie: Actor, other_project: Project
) -> list[Tenant]:
    return [Tenant(alice, as_alice, project), Tenant(charlie, as_charlie, other_project)]


@pytest.fixture
def site(openstack_lab: Lab, db: None) -> Site:
    return site_make(openstack_lab, slug="last", kind="a16", resource=A16, alias="a16vf")


@pytest.fixture
def workspaces(site: Site, tenants: list[Tenant], openstack_lab: Lab) -> Iterator[list[Workspace]]:
    """One device each, and both have looked at the site's images."""
    made: list[Workspace] = []
    driver = driver_at(site, openstack_lab)
    try:
        for each in tenants:
            limits_give(each.project, {"gpu:a16": 1})
            items = [(flavor_of(site).slug, 1)]
            asked = workspace_request(actor=each.actor, project=each.project, name="train", items=items)
            made.append(asked)
            made[-1] = reach(asked, "ready")
            assert visit(asked.pk)
        yield made
    finally:
        for row in made:
            take_away(driver, spec_of(row))


@pytest.fixture
def all_but_one_taken(cloud: Cloud) -> Iterator[None]:
    """By a machine of somebody else. A bare claim in Placement would not do: Nova counts the devices of its hosts anew."""
    free, holder = free_of(cloud, A16).total(), cloud.project()
    cloud.limit(holder, f"class:{A16}", free - 1)
    flavor = cloud.gpu_flavor("a16vf", free - 1)
    cloud.grant(flavor, holder)
    answer = cloud.boot(holder, flavor)
    assert answer.ok, answer.text
    server = answer.json()["server"]["id"]
    until(lambda: cloud.server_status(holder, server) == "ACTIVE", "the others' machine runs", seconds=180)
    assert free_of(cloud, A16).total() == 1
    yield
    cloud.call("DELETE", "compute", f"/servers/{server}")
    until(lambda: cloud.server_status(holder, server) == "", "the others' machine is gone", seconds=180)


def free_of(cloud: Cloud, resource: str) -> Counter[str]:
    """Devices that nobody has claimed, by resource provider."""
    rows = cloud.call("GET", "placement", f"/resource_providers?resources={resource}:1").json()
    found: Counter[str] = Counter()
    for name in (row["uuid"] for row in rows["resource_providers"]):
        has = cloud.call("GET", "placement", f"/resource_providers/{name}/inventories").json()["inventories"]
        used = cloud.call("GET", "placement", f"/resource_providers/{name}/usages").json()["usages"]
        found[name] = has[resource]["total"] - has[resource]["reserved"] - used[resource]
    return found


def together(*calls: Callable[[], object]) -> None:
    def one(call: Callable[[], object]) -> None:
        try:
            call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(one, calls))


def test_one_of_two_tenants_has_it_and_the_other_reads_why(
    workspaces: list[Workspace], tenants: list[Tenant], all_but_one_taken: None
) -> None:
    for row, each in zip(workspaces, tenants, strict=True):
        order = MachineOrder(name="last", flavor=row.flavors.get().flavor.slug, image="tiny")
        machine_order(actor=each.actor, workspace=row, order=order)
    together(*(lambda row=row: visit(row.pk) for row in workspaces))

    def settled() -> bool:
        for row in workspaces:
            visit(row.pk)
        return set(Machine.objects.values_list("state", flat=True)) <= {"running", "failed"}

    until(settled, "nobody is being built any more", seconds=180)
    assert sorted(Machine.objects.values_list("state", flat=True)) == ["failed", "running"]
    lost = Machine.objects.select_related("workspace").get(state="failed")
    assert lost.failure in {WHY, WHY_ON_THE_HOST}, "whether Placement or the host decided"
    loser = next(each for each in tenants if each.project.pk == lost.workspace.project_id)
    page = Client()
    page.force_login(loser.user)
    slug = loser.project.slug
    for name, more in (("machines", []), ("machine", [lost.pk])):
        shown = page.get(reverse(f"frontend:{name}", args=[slug, lost.workspace_id, *more]))
        assert escape(lost.failure) in shown.content.decode(), name
    token = token_for(loser.user, loser.project)
    found = Caller(token=token).get(f"/projects/{slug}/workspaces/{lost.workspace_id}/machines/{lost.pk}")
    assert (found.json["state"], found.json["failure"]) == ("failed", lost.failure)

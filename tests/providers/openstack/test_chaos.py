"""Services of a cloud are killed and come back while workspaces are made, resized and deleted: the conditions tell, everything
converges, and nothing is there twice.

`two` are one that the portal speaks to, and the one behind all others that loses answers.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter

import pytest

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Site
from gpuaas.core.errors import GpuaasError
from gpuaas.lifecycle.visits import REACHABLE
from gpuaas.providers.openstack import client, names
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile.compared import IN_SYNC
from gpuaas.workspaces.services import (
    credential_issue,
    workspace_delete,
    workspace_request,
    workspace_resize,
)
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.providers.openstack.portal import flavor_of, reach, site_make, visit
from tests.providers.openstack.test_workspace import order, status

# what the portal itself speaks to, or what stands behind all of that; the others only make and end machines
SPOKEN_TO = ("keystone", "placement", "nova", "neutron", "glance", "mariadb")
BEHIND = ("conductor", "scheduler", "compute-gpu-h100-1", "rabbitmq")
EVERY = (*SPOKEN_TO, *BEHIND)
BACK_SECONDS, PLACED_SECONDS = 120.0, 60.0

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.xdist_group("own-lab"),
    pytest.mark.django_db(transaction=True),
    # a cloud of its own begins, and each wait in it has its own bound
    pytest.mark.timeout(900 + 900 * len(EVERY)),
]


@dataclass
class Load:
    """One workspace stays and is resized to and fro; with every service one more is requested, and the one before it goes,
    a machine in it."""

    actor: Actor
    project: Project
    site: Site
    kept: Workspace = field(init=False)
    going: Workspace = field(init=False)
    made: int = 0

    def __post_init__(self) -> None:
        limits_give(self.project)
        self.kept, self.going = self.request("kept"), self.request("first")
        for each in (self.kept, self.going):
            reach(each, "ready")

    def request(self, name: str) -> Workspace:
        items = [(flavor_of(self.site).slug, 1)]
        return workspace_request(actor=self.actor, project=self.project, name=name, items=items)

    def begin(self) -> list[Workspace]:
        """What is under way at the same time: one comes, one changes, one goes."""
        self.made += 1
        coming = self.request(f"load-{self.made}")
        row = Workspace.objects.get(pk=self.kept.pk)
        items = [(flavor_of(self.site).slug, 1 + self.made % 2)]
        changing = workspace_resize(actor=self.actor, workspace=row, items=items)
        going = workspace_delete(actor=self.actor, workspace=Workspace.objects.get(pk=self.going.pk))
        self.going = coming
        return [coming, changing, going]


@pytest.fixture
def admin(own_openstack_lab: Lab) -> Iterator[Cloud]:
    made = Cloud({"clouds_yaml": own_openstack_lab.clouds.read_text(), "cloud": "lab"})
    yield made
    made.close()


@pytest.mark.parametrize(
    "programs", [pytest.param(("placement", "rabbitmq"), id="two"), pytest.param(EVERY, id="all")]
)
def test_services_go_and_come_back_under_load(
    own_openstack_lab: Lab,
    admin: Cloud,
    as_alice: Actor,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 10)
    site = site_make(own_openstack_lab)
    load = Load(as_alice, project, site)
    for program in programs:
        if program in BEHIND:
            machine_in(load.going, as_alice)
        own_openstack_lab.stop_program(program, kill=True)
        try:
            under_way = load.begin()
            told = [visit(each) for each in under_way]
            if program in SPOKEN_TO:
                assert any(says_unreachable(row) for row in told), f"nobody misses {program}"
        finally:
            own_openstack_lab.start_program(program)
        for workspace, state in zip(under_way, ("ready", "ready", "deleted"), strict=True):
            row = reach(workspace, state, seconds=BACK_SECONDS)
            assert state == "deleted" or row.conditions[REACHABLE]["status"] == "True", program
    settle(admin)
    assert_as_wanted(admin)
    machine_in(load.kept, as_alice, stays=False)
    for each in Workspace.objects.exclude(state="deleted"):
        workspace_delete(actor=as_alice, workspace=each)
        reach(each, "deleted", seconds=BACK_SECONDS)
    assert ours(admin) == [], "who comes next finds nothing of it"


def settle(admin: Cloud) -> None:
    """A failure says what has not settled."""
    everyone, left = list(Workspace.objects.all()), ["not looked at"]

    def settled() -> bool:
        left[:] = unsettled(admin, everyone)
        return not left

    try:
        until(settled, "nothing differs and nothing is there twice", seconds=BACK_SECONDS)
    finally:
        assert left == []


def machine_in(workspace: Workspace, actor: Actor, *, stays: bool = True) -> None:
    """Begun and running; one that stays goes with its workspace."""
    issued = credential_issue(actor=actor, workspace=workspace, lifetime=timedelta(hours=1))
    with closing(Cloud({"clouds_yaml": issued.document})) as tenant:
        made = until(lambda: runs(tenant), "a machine runs", seconds=BACK_SECONDS)
        if not stays:
            tenant.delete("compute", f"/servers/{made}")


def runs(tenant: Cloud) -> str:
    """A machine that runs, or "": what is asked of a cloud that has just come back may be refused, lost, or find no host."""
    try:
        made = order(tenant)
        deadline = time.monotonic() + PLACED_SECONDS
        while (found := status(tenant, made)) == "BUILD" and time.monotonic() < deadline:
            time.sleep(0.5)
        if found == "ACTIVE":
            return made
        tenant.delete("compute", f"/servers/{made}")
    except GpuaasError:
        pass
    return ""


def unsettled(admin: Cloud, everyone: list[Workspace]) -> list[str]:
    """A call whose answer was lost may make its thing much later: that goes when the portal looks next, at what is deleted too."""
    seen = [visit(each) for each in everyone]
    live = {row.external_name: row for row in seen if row.state != "deleted"}
    there = {row["name"] for row in ours(admin)}
    differ = [f"{name}: {row.state}, {row.conditions}" for name, row in live.items() if not in_sync(row)]
    return [*sorted(live.keys() ^ there), *differ, *twins(admin)]


def ours(admin: Cloud) -> list[Object]:
    """Projects of this test's workspaces: others may use the cloud before it."""
    known = set(map(attrgetter("external_name"), Workspace.objects.all()))
    rows = admin.items("identity", "/projects", "projects", tags=names.MANAGED)
    return [row for row in rows if row["name"] in known]


def in_sync(row: Workspace) -> bool:
    return bool(row.conditions[IN_SYNC]["status"] == "True")


def says_unreachable(row: Workspace) -> bool:
    return bool(row.conditions.get(REACHABLE, {}).get("status") == "False") and row.state != "failed"


def twins(admin: Cloud) -> list[str]:
    """What is there more than once."""
    found = []
    for row in ours(admin):
        counted = in_network(admin, row["id"])
        found += [
            f"{path} of {row['name']}"
            for path, named in counted.items()
            if max(named.values(), default=0) > 1
        ]
    return found


def in_network(admin: Cloud, project_id: str) -> dict[str, Counter[str]]:
    """Names of what is in Neutron, without the default security group."""
    found = {}
    for path in ("networks", "subnets", "routers", "security-groups"):
        rows = admin.items("network", f"/{path}", path.replace("-", "_"), project_id=project_id)
        found[path] = Counter(each["name"] for each in rows if each["name"] != "default")
    return found


def assert_as_wanted(admin: Cloud) -> None:
    live = list(Workspace.objects.exclude(state="deleted"))
    rows = ours(admin)
    assert sorted(row["name"] for row in rows) == sorted(each.external_name for each in live)
    for row in rows:
        for path, counted in in_network(admin, row["id"]).items():
            assert counted == {names.NETWORK: 1}, f"{path} of {row['name']}"
        limits = admin.items("identity", "/limits", "limits", project_id=row["id"])
        assert max(Counter(each["resource_name"] for each in limits).values()) == 1
        users = admin.items("identity", "/users", "users", name__startswith=f"{row['name']}.")
        assert len(users) == 1, [each["name"] for each in users]
    assert admin.items("compute", "/servers", "servers", all_tenants="1") == []
    flavors = admin.items("compute", "/flavors", "flavors", is_public="None")
    assert max(Counter(each["name"] for each in flavors).values()) == 1

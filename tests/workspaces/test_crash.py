"""kill -9 of the worker at every boundary: the next worker comes to the same end, with one namespace and no orphan."""

import itertools
from collections.abc import Callable

import pytest

from gpuaas.catalog.models import Site
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    workspace_delete,
    workspace_request,
    workspace_resize,
    workspace_resume,
    workspace_suspend,
)
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.crashing_worker import killed_at
from tests.workspaces.stage import fast, namespaces, ready, settle

pytestmark = pytest.mark.django_db(transaction=True)
BOUNDARIES_MAX = 200
GPUS = "gpu:h100-sxm-80gb"


def until_it_survives(prepare: Callable[[int], Workspace], check: Callable[[Workspace], None]) -> int:
    """`prepare` a workspace, kill its worker at boundary 1, 2, 3 …; `check` what the next worker makes of it."""
    for number in itertools.count(1):
        assert number < BOUNDARIES_MAX
        workspace = prepare(number)
        killed = killed_at(SandboxDriver, workspace, number)
        check(settle(workspace))
        counters_must_match()
        if not killed:
            return number
    raise AssertionError


def used(project: Project) -> int:
    return Limit.objects.get(project=project, resource=GPUS).used


def whole(workspace: Workspace, gpus: int) -> None:
    """Exactly what an undisturbed worker leaves."""
    assert workspace.state == "ready"
    room = SandboxNamespace.objects.get(owner=workspace.pk)
    assert room.name == workspace.external_name
    assert room.quotas.get(resource="nvidia.com/gpu").hard == gpus
    assert room.members.count() == 1
    assert workspace.holdings.filter(ended_at=None, meter="gpu_held").get().quantity == gpus
    assert [item.confirmed for item in workspace.flavors.all()] == [gpus]
    operation = workspace.operations.first()
    assert operation is not None
    assert operation.succeeded
    assert {step.state for step in operation.steps.all()} == {"done"}


def test_creation_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    fast(site)
    SiteCapacity.objects.update(hard=None)

    def prepare(number: int) -> Workspace:
        limits_give(project, {GPUS: None})
        return workspace_request(actor=as_alice, project=project, name=f"n-{number}", items=[("h100.1", 2)])

    def check(workspace: Workspace) -> None:
        whole(workspace, 2)
        transitions = list(workspace.transitions.values_list("new", flat=True))
        assert transitions == ["requested", "provisioning", "ready"]
        assert workspace.holdings.filter(meter="gpu_held").count() == 1

    crossed = until_it_survives(prepare, check)

    assert crossed > 20
    assert used(project) == 2 * crossed
    assert len(namespaces(site)) == crossed


def test_a_resize_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    sizes = itertools.cycle([5, 1])
    workspace = ready(as_alice, project, site)
    asked = 0

    def prepare(number: int) -> Workspace:
        nonlocal asked
        asked = next(sizes)
        workspace.refresh_from_db()
        return workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", asked)])

    def check(row: Workspace) -> None:
        whole(row, asked)
        assert used(project) == asked
        assert row.holdings.filter(meter="gpu_held", ended_at=None).count() == 1

    assert until_it_survives(prepare, check) > 30


def test_sleep_and_waking_survive_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    """One workspace, killed at each boundary of its suspension and of its resumption in turn."""
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    turn = itertools.cycle([workspace_suspend, workspace_resume])

    def check(row: Workspace) -> None:
        assert not row.operations.filter(finished_at=None).exists()
        room = SandboxNamespace.objects.get(owner=row.pk)
        if row.state == "ready":
            whole(row, 2)
            assert list(room.pods.values_list("name", "finished_at")) == [("train", None)]
            assert used(project) == 2
            return
        assert (row.state, room.suspended, used(project)) == ("suspended", True, 0)
        assert not room.pods.exists()
        assert not row.holdings.filter(ended_at=None).exclude(meter="storage_held").exists()

    for number in itertools.count(1):
        survived = 0
        for change in (next(turn), next(turn)):
            workspace.refresh_from_db()
            killed = killed_at(SandboxDriver, change(actor=as_alice, workspace=workspace), number)
            check(settle(workspace))
            counters_must_match()
            survived += not killed
        if survived == 2:
            break
    assert number > 15


def test_deletion_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    def prepare(number: int) -> Workspace:
        workspace = ready(as_alice, project, site, name=f"n-{number}")
        return workspace_delete(actor=as_alice, workspace=workspace)

    def check(workspace: Workspace) -> None:
        assert workspace.state == "deleted"
        assert namespaces(site) == []
        assert used(project) == 0
        assert not workspace.holdings.filter(ended_at=None).exists()
        assert workspace.transitions.filter(new="deleted").count() == 1

    assert until_it_survives(prepare, check) > 12

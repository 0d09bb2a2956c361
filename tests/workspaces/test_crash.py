"""kill -9 of the worker at every boundary: the next worker comes to the same end, with one namespace and no orphan."""

import itertools
from collections.abc import Callable, Sequence

import pytest

from gpuaas.catalog.models import Site
from gpuaas.providers.base import Change
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
from gpuaas.workspaces.site import driver_of
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.crashing_worker import Life, life_of
from tests.workspaces.stage import fast, namespaces, ready, settle

pytestmark = pytest.mark.django_db(transaction=True)
BOUNDARIES_MAX = 200
GPUS = "gpu:h100-sxm-80gb"
MAKE = ("namespace", "quota", "confirmed", "limits", "network", "access")
CREATE, RESIZE = (tuple(f"{verb} {key}" for key in MAKE) for verb in ("create", "resize"))
DELETE = tuple(f"delete {key}" for key in ("access", "pods", "namespace", "gone"))


def until_it_survives(
    prepare: Callable[[int], Workspace], check: Callable[[Workspace], None], *, calls: Sequence[str]
) -> int:
    """`prepare` a workspace, kill its worker at boundary 1, 2, 3 …; `check` what the next worker makes of it.

    Answers how many workspaces it took; `calls` are those to the site that the change consists of.
    """
    lives: list[Life] = []
    while not lives or lives[-1].killed:
        assert len(lives) < BOUNDARIES_MAX
        workspace = prepare(len(lives) + 1)
        lives.append(life_of(SandboxDriver, workspace, len(lives) + 1))
        check(settle(workspace))
        counters_must_match()
    killed_everywhere(lives, calls=calls)
    return len(lives)


def killed_everywhere(lives: Sequence[Life], *, calls: Sequence[str]) -> None:
    """Every boundary that the last, undisturbed worker crossed has killed one before it; none of the change is missing."""
    *killed, survivor = lives
    assert [life.crossed[-1] for life in killed] == list(survivor.crossed)
    for verb in ("claim", *calls, "apply"):
        assert {f"before {verb}", f"after {verb}"} <= set(survivor.crossed)


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

    made = until_it_survives(prepare, check, calls=(*CREATE, "observe"))

    assert used(project) == 2 * made
    assert len(namespaces(site)) == made


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

    until_it_survives(prepare, check, calls=(*RESIZE, "observe"))


def test_sleep_and_waking_survive_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    """One workspace, killed at each boundary of its suspension and of its resumption in turn."""
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    turns: dict[str, list[Life]] = {"suspend": [], "resume": []}
    change = {"suspend": workspace_suspend, "resume": workspace_resume}
    driver = driver_of(site)
    steps = {"suspend": driver.steps(Change.SUSPEND), "resume": driver.steps(Change.RESUME)}

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
        for verb, lives in turns.items():
            workspace.refresh_from_db()
            row = change[verb](actor=as_alice, workspace=workspace)
            life = life_of(SandboxDriver, row, number)
            if not lives or lives[-1].killed:
                lives.append(life)
            check(settle(workspace))
            counters_must_match()
        assert number < BOUNDARIES_MAX
        if not any(lives[-1].killed for lives in turns.values()):
            break
    for verb, lives in turns.items():
        killed_everywhere(lives, calls=[*(f"{verb} {step.key}" for step in steps[verb]), "observe"])


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

    until_it_survives(prepare, check, calls=DELETE)

"""The lives of a workspace whose worker is killed: each comes to the same end as an undisturbed one, with one namespace and no
orphan. `kill` chooses at which boundaries."""

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from django.conf import settings

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.providers.base import Change as Steps
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.lease import leases_enforce
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    workspace_delete,
    workspace_extend,
    workspace_request,
    workspace_resize,
    workspace_resume,
    workspace_suspend,
)
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.site import driver_of
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.kills import Change, Kill
from tests.workspaces.crashing_worker import life_of
from tests.workspaces.stage import fast, namespaces, ready, settle

GPUS = "gpu:h100-sxm-80gb"
MAKE = ("namespace", "quota", "confirmed", "limits", "network", "access")
CREATE, RESIZE = (tuple(f"{verb} {key}" for key in MAKE) for verb in ("create", "resize"))
DELETE = tuple(f"delete {key}" for key in ("access", "pods", "namespace", "gone"))


class Asked(Protocol):
    def __call__(self, *, actor: Actor, workspace: Workspace) -> Workspace: ...


def change_of(
    ask: Callable[[int], Workspace], check: Callable[[Workspace], object], *calls: str
) -> Change[Workspace]:
    return Change(
        ask=ask,
        life=lambda workspace, boundary: life_of(SandboxDriver, workspace, boundary),
        settle=settle,
        check=check,
        calls=calls,
    )


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


def creation(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    fast(site)
    SiteCapacity.objects.update(hard=None)

    def ask(number: int) -> Workspace:
        limits_give(project, {GPUS: None})
        return workspace_request(actor=actor, project=project, name=f"n-{number}", items=[("h100.1", 2)])

    def check(workspace: Workspace) -> None:
        whole(workspace, 2)
        transitions = list(workspace.transitions.values_list("new", flat=True))
        assert transitions == ["requested", "provisioning", "ready"]
        assert workspace.holdings.filter(meter="gpu_held").count() == 1

    made = kill(change_of(ask, check, *CREATE, "observe"))

    assert used(project) == 2 * made
    assert len(namespaces(site)) == made


def resize(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    sizes = itertools.cycle([5, 1])
    workspace = ready(actor, project, site)
    asked = 0

    def ask(number: int) -> Workspace:
        nonlocal asked
        asked = next(sizes)
        workspace.refresh_from_db()
        return workspace_resize(actor=actor, workspace=workspace, items=[("h100.1", asked)])

    def check(row: Workspace) -> None:
        whole(row, asked)
        assert used(project) == asked
        assert row.holdings.filter(meter="gpu_held", ended_at=None).count() == 1

    kill(change_of(ask, check, *RESIZE, "observe"))


def sleep_and_waking(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    """One workspace, killed in its suspension and in its resumption in turn."""
    workspace = ready(actor, project, site)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    driver = driver_of(site)

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

    def turn(asked: Asked, steps: Steps) -> Change[Workspace]:
        def ask(number: int) -> Workspace:
            workspace.refresh_from_db()
            return asked(actor=actor, workspace=workspace)

        calls = (f"{steps} {step.key}" for step in driver.steps(steps))
        return change_of(ask, check, *calls, "observe")

    kill(turn(workspace_suspend, Steps.SUSPEND), turn(workspace_resume, Steps.RESUME))


def end_of_lease(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    """Put to sleep by its lease, extended and woken each time: its grace period begins once, with the sleep that happened."""
    workspace, driver = ready(actor, project, site), driver_of(site)

    def ask(number: int) -> Workspace:
        Workspace.objects.filter(pk=workspace.pk).update(lease_ends_at=now() - timedelta(days=30))
        leases_enforce(now=now())
        workspace.refresh_from_db()
        assert (workspace.state, workspace.deleted_after) == ("suspending", None)
        return workspace

    def check(row: Workspace) -> None:
        operation = row.operations.first()
        assert operation is not None
        assert operation.finished_at is not None
        assert (row.state, used(project)) == ("suspended", 0)
        assert row.deleted_after == operation.finished_at + timedelta(days=settings.LEASE_GRACE_DAYS)
        leases_enforce(now=now())
        assert WORKSPACE.rows.get(pk=row.pk).deleted_after == row.deleted_after
        workspace_extend(actor=actor, workspace=row, lease_ends_at=now() + timedelta(days=1))
        settle(workspace_resume(actor=actor, workspace=row))

    calls = (f"suspend {step.key}" for step in driver.steps(Steps.SUSPEND))
    kill(change_of(ask, check, *calls, "observe"))


def deletion(kill: Kill, *, actor: Actor, project: Project, site: Site) -> None:
    def ask(number: int) -> Workspace:
        workspace = ready(actor, project, site, name=f"n-{number}")
        return workspace_delete(actor=actor, workspace=workspace)

    def check(workspace: Workspace) -> None:
        assert workspace.state == "deleted"
        assert namespaces(site) == []
        assert used(project) == 0
        assert not workspace.holdings.filter(ended_at=None).exists()
        assert workspace.transitions.filter(new="deleted").count() == 1

    kill(change_of(ask, check, *DELETE))

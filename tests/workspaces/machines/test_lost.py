"""A machine that could not be placed, since another order was faster, is created again under the same order."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import QuotaRefused, Unavailable
from gpuaas.providers.base import MachineOrder as SiteOrder
from gpuaas.providers.base import MachineStatus, MachineVerb, ObservedMachine, WorkspaceRef
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.machines import SandboxCloudDriver
from gpuaas.providers.sandbox.models import SandboxMachine
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.record import FASTER
from gpuaas.workspaces.machines.services import machine_delete
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.workspaces.machines.test_life import SECRET, order, visited

pytestmark = pytest.mark.django_db
Lose = Callable[[int], None]
WHY = "no host has 1 free H100"


@pytest.fixture
def lose(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Lose:
    """The next so many machines of the site find no host; what is told of them is what a cloud tells."""
    dials_set(workspace.site_id, machine_ms=3_600_000)
    lost: set[str] = set()
    left = [0]
    launch, machines = SandboxCloudDriver.launch, SandboxCloudDriver.machines

    def launched(self: SandboxCloudDriver, ref: WorkspaceRef, wanted: SiteOrder) -> ObservedMachine:
        for row in SandboxMachine.objects.filter(order=wanted.id, uid__in=lost):
            self.act(ref, str(row.uid), MachineVerb.DELETE, action=uuid.uuid4())
        made = launch(self, ref, wanted)
        if left[0]:
            left[0] -= 1
            lost.add(made.uid)
        return made

    def told(self: SandboxCloudDriver, ref: WorkspaceRef) -> tuple[ObservedMachine, ...]:
        return tuple(
            replace(each, status=MachineStatus.FAILED, fault=WHY, lost=True) if each.uid in lost else each
            for each in machines(self, ref)
        )

    monkeypatch.setattr(SandboxCloudDriver, "launch", launched)
    monkeypatch.setattr(SandboxCloudDriver, "machines", told)
    return lambda number: left.__setitem__(0, number)


def test_it_is_created_again_until_it_runs(as_bob: Actor, workspace: Workspace, lose: Lose) -> None:
    lose(2)
    made = visited(order(as_bob, workspace, cloud_init=SECRET))
    for _ in range(2):
        assert (made.state, made.uid, made.failure) == ("building", "", FASTER)
        assert decrypt_json(made.cloud_init) == {"text": SECRET.strip()}, "whatever replaces it needs it"
        soon = MachineLook.objects.get(workspace=workspace).due_at
        assert soon is not None
        assert soon < clock.now() + timedelta(seconds=3)
        made = visited(made)
    assert (made.state, made.failure) == ("building", FASTER), "the words stay until it is known how it ends"
    assert made.uid == str(SandboxMachine.objects.get().uid)
    SandboxMachine.objects.update(moves_until=clock.now())
    made = visited(made)
    assert (made.state, made.failure, made.cloud_init) == ("running", "", "")
    assert Machine.objects.count() == 1


def test_it_keeps_its_cloud_init_where_the_site_fails_in_between(
    as_bob: Actor, workspace: Workspace, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost machine, which had a copy, is gone by then."""
    lose(1)
    made = visited(order(as_bob, workspace, cloud_init=SECRET))
    asked: list[str] = []
    launch = SandboxCloudDriver.launch

    def failing(self: SandboxCloudDriver, ref: WorkspaceRef, wanted: SiteOrder) -> ObservedMachine:
        asked.append(wanted.cloud_init)
        if len(asked) > 1:
            return launch(self, ref, wanted)
        for row in SandboxMachine.objects.filter(order=wanted.id):
            self.act(ref, str(row.uid), MachineVerb.DELETE, action=uuid.uuid4())
        raise Unavailable("the site does not answer", retry_after=1)

    monkeypatch.setattr(SandboxCloudDriver, "launch", failing)
    assert not visit(workspace.pk)
    made = visited(made)
    assert made.uid == str(SandboxMachine.objects.get().uid)
    assert asked == [SECRET.strip()] * 2


def test_two_that_lost_are_created_again_one_after_the_other(
    as_bob: Actor, workspace: Workspace, lose: Lose
) -> None:
    lose(2)
    order(as_bob, workspace, name="one")
    order(as_bob, workspace, name="two")
    counts = []
    for _ in range(3):
        assert visit(workspace.pk)
        counts.append(Machine.objects.exclude(uid="").count())
    assert counts == [0, 1, 2]


def test_where_there_is_no_room_it_has_failed(
    as_bob: Actor, workspace: Workspace, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(1)
    made = visited(order(as_bob, workspace))
    assert made.failure == FASTER
    told = SandboxCloudDriver.machines
    monkeypatch.setattr(
        SandboxCloudDriver,
        "machines",
        lambda self, ref: tuple(
            replace(each, status=MachineStatus.FAILED, fault=WHY, lost=False) for each in told(self, ref)
        ),
    )
    made = visited(made)
    assert (made.state, made.failure) == ("failed", WHY)
    made = visited(made)
    assert (made.state, made.failure) == ("failed", WHY)


def test_who_deletes_it_meanwhile_gets_nothing_any_more(
    as_bob: Actor, workspace: Workspace, lose: Lose
) -> None:
    lose(1)
    made = visited(order(as_bob, workspace))
    machine_delete(actor=as_bob, machine=made)
    for _ in range(3):
        assert visit(workspace.pk)
    assert SandboxMachine.objects.count() == 0
    assert not Machine.objects.exclude(state="deleted").exists()


def test_what_the_site_refuses_the_second_time_has_failed(
    as_bob: Actor, workspace: Workspace, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(1)
    made = visited(order(as_bob, workspace))

    def refuse(self: SandboxCloudDriver, ref: WorkspaceRef, wanted: SiteOrder) -> ObservedMachine:
        for row in SandboxMachine.objects.all():
            self.act(ref, str(row.uid), MachineVerb.DELETE, action=uuid.uuid4())
        raise QuotaRefused("the workspace may hold 1 of it, 1 are held")

    monkeypatch.setattr(SandboxCloudDriver, "launch", refuse)
    made = visited(made)
    assert (made.state, made.failure) == ("failed", "the workspace may hold 1 of it, 1 are held")

"""Transitions are compare-and-swap: of two that race, one wins and the other is told."""

import threading
from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.core.statemachine import Machine, TransitionLost
from gpuaas.workspaces.models import Workspace, WorkspaceTransition
from gpuaas.workspaces.states import MACHINE, WorkspaceState
from tenants.models import Project, User
from tests.lasting import lasting

S = WorkspaceState
Make = Callable[[], Workspace]


@pytest.fixture
@lasting
def workspace(project: Project, site: Site, alice: User) -> Workspace:
    now = clock.now()
    return Workspace.objects.create(
        project=project, site=site, name="train", created_by=alice, created_at=now, lease_ends_at=now
    )


def move(row: Workspace, to: WorkspaceState) -> None:
    MACHINE.transition(row, to=to, history=WorkspaceTransition, actor="alice", reason="because")


def test_move_writes_state_version_and_history(workspace: Workspace) -> None:
    version = workspace.version
    MACHINE.transition(
        workspace, to=S.PROVISIONING, history=WorkspaceTransition, actor="portal", failure="none"
    )
    assert (workspace.state, workspace.version, workspace.failure) == (
        S.PROVISIONING,
        version + 1,
        "none",
    )
    row = WorkspaceTransition.objects.get(subject=workspace)
    assert (row.old, row.new, row.actor) == ("requested", "provisioning", "portal")


def test_no_such_edge(workspace: Workspace) -> None:
    with pytest.raises(Conflict, match="while it is requested"):
        move(workspace, S.READY)
    assert not WorkspaceTransition.objects.exists()


def test_stale_row_loses(workspace: Workspace) -> None:
    stale = Workspace.objects.get(pk=workspace.pk)
    move(workspace, S.PROVISIONING)
    with pytest.raises(TransitionLost):
        move(stale, S.DELETING)
    assert WorkspaceTransition.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_that_race_one_wins(workspace: Workspace) -> None:
    start = threading.Barrier(2)
    lost: list[Exception] = []

    def race(to: WorkspaceState) -> None:
        row = Workspace.objects.get(pk=workspace.pk)
        start.wait()
        try:
            move(row, to)
        except TransitionLost as error:
            lost.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=race, args=(to,)) for to in (S.PROVISIONING, S.DELETING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lost) == 1
    assert WorkspaceTransition.objects.count() == 1
    workspace.refresh_from_db()
    assert workspace.version == 2


def test_the_database_knows_the_states_too(workspace: Workspace) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(state="somewhere")


def test_every_state_has_a_look_and_edges() -> None:
    assert MACHINE.is_final(S.DELETED)
    assert not MACHINE.is_final(S.READY)
    with pytest.raises(ValueError, match="every state"):
        Machine(looks={S.READY: MACHINE.looks[S.READY]}, edges={})

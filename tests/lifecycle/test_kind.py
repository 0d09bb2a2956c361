"""What every service does to a row of whatever is provisioned, shown on a workspace."""

import uuid

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, NotFound, StaleVersion
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.lasting import lasting
from tests.metering.stage import workspace_make

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def test_a_row_is_locked_in_the_version_that_was_seen(workspace: Workspace) -> None:
    seen = workspace.version
    Workspace.objects.filter(pk=workspace.pk).update(version=seen + 1, state="deleting")

    assert WORKSPACE.lock(workspace.pk).version == seen + 1
    with pytest.raises(StaleVersion, match="the workspace has changed since you read it"):
        WORKSPACE.lock(workspace.pk, expected_version=seen)
    assert WORKSPACE.lock(workspace.pk, expected_version=seen, unless={"deleting"}).state == "deleting"
    with pytest.raises(NotFound, match="no such workspace"):
        WORKSPACE.lock(uuid.uuid4())


@pytest.mark.parametrize(("state", "then"), [("suspended", "; resume it first"), ("resuming", "")])
def test_a_refusal_says_what_it_is_doing(workspace: Workspace, state: str, then: str) -> None:
    workspace.state = state
    WORKSPACE.require(workspace, Verb.HALT)
    with pytest.raises(Conflict) as refused:
        WORKSPACE.require(workspace, Verb.RUN)
    assert refused.value.message == f"this cannot be done while the workspace is {state}{then}"
    assert refused.value.detail == {"state": state}


def test_a_move_has_its_history_and_only_along_the_edges(workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    row = WORKSPACE.lock(workspace.pk)
    WORKSPACE.move(row, "suspending", reason="nobody is here", failure="")

    row.refresh_from_db()
    last = row.transitions.last()
    assert last is not None
    assert (row.state, last.actor, last.reason) == ("suspending", "portal", "nobody is here")
    with pytest.raises(Conflict, match="while it is suspending"):
        WORKSPACE.move(row, "resizing")


def test_a_change_ends_what_was_under_way_and_is_audited(workspace: Workspace, as_alice: Actor) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="resizing")
    row = WORKSPACE.lock(workspace.pk)
    moment = row.created_at
    open_one = row.operations.create(kind="resize", requested_by="alice", requested_at=moment)

    with WORKSPACE.changing(row, as_alice, "delete", ended="ended by the deletion"):
        WORKSPACE.move(row, "deleting", actor=as_alice.name)

    open_one.refresh_from_db()
    assert (open_one.succeeded, open_one.summary) == (None, "ended by the deletion")
    assert open_one.finished_at is not None
    entry = AuditEntry.objects.get(action="workspace.delete")
    assert (entry.before, entry.project_id) == ({"state": "resizing"}, workspace.project_id)


def test_what_is_asked_is_permitted_first_then_fresh_then_allowed(
    workspace: Workspace, as_alice: Actor, as_charlie: Actor
) -> None:
    seen = workspace.version
    with pytest.raises(NotFound):
        WORKSPACE.asked(as_charlie, workspace, Verb.SUSPEND, seen)
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    assert WORKSPACE.asked(as_alice, workspace, Verb.SUSPEND, seen).state == "ready"
    with pytest.raises(StaleVersion):
        WORKSPACE.asked(as_alice, workspace, Verb.SUSPEND, seen + 1)
    with pytest.raises(Conflict, match="while the workspace is ready"):
        WORKSPACE.asked(as_alice, workspace, Verb.RETRY, seen)


@pytest.mark.parametrize(
    ("verb", "state"), [(Verb.SUSPEND, "suspending"), (Verb.RESUME, "resuming"), (Verb.DELETE, "deleting")]
)
def test_to_ask_for_what_is_so_already_is_no_conflict(
    workspace: Workspace, as_alice: Actor, verb: Verb, state: str
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state=state)
    row = WORKSPACE.asked(as_alice, workspace, verb, workspace.version + 7)
    assert WORKSPACE.is_already(row, verb)
    assert not WORKSPACE.is_already(row, Verb.EXTEND)

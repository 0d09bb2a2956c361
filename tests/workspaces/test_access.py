"""Credentials: written down when issued, ended on demand, dead with the right that they stood on."""

from datetime import timedelta

import pytest
import time_machine
from pytest_django import Settings

from gpuaas.catalog.models import Site
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import Access, AccessCapability, Member, WorkspaceRef
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.models import SandboxToken
from gpuaas.workspaces.models import AccessGrant, Robot, Workspace
from gpuaas.workspaces.reconcile.revoke import revoke
from gpuaas.workspaces.selectors import grants_of, robots_of
from gpuaas.workspaces.services import (
    access_revoke,
    credential_issue,
    member_remove,
    member_set,
    robot_access_issue,
    robot_create,
    robot_delete,
    sign_in_kubeconfig,
    workspace_delete,
)
from gpuaas.workspaces.tasks import sweep
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.factories.catalog import SiteFactory
from tests.lasting import lasting
from tests.workspaces.stage import members_at_site, ready, run_now, settle

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def standings(workspace: Workspace) -> list[str]:
    return [str(row.standing) for row in grants_of(workspace=workspace)]


@pytest.fixture
@lasting
def workspace(as_alice: Actor, bob: User, project: Project, site: Site) -> Workspace:
    """bob may edit in it."""
    made = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=made, username="bob", role="edit")
    return run_now(made)


def test_what_is_issued_is_written_down_but_not_what_it_is(as_bob: Actor, workspace: Workspace) -> None:
    access = credential_issue(actor=as_bob, workspace=workspace, lifetime=HOUR)
    grant = grants_of(workspace=workspace).get()
    assert (grant.user_id, grant.issued_by, grant.expires_at) == (as_bob.user_id, "bob", access.expires_at)
    token = access.document.split("token: ")[1].split()[0]
    rows = [AccessGrant.objects.values().get(), *AuditEntry.objects.values()]
    assert token not in str(rows)
    assert standings(workspace) == ["valid"]
    with time_machine.travel(now() + 2 * HOUR):
        assert standings(workspace) == ["expired"]


def test_the_lifetime_is_a_policy(as_bob: Actor, workspace: Workspace, settings: Settings) -> None:
    for wrong in (timedelta(minutes=9), timedelta(hours=25)):
        with pytest.raises(Invalid, match="24 hours"):
            credential_issue(actor=as_bob, workspace=workspace, lifetime=wrong)
    settings.ACCESS_HOURS_MAX = 1
    with pytest.raises(Invalid, match="1 hour"):
        credential_issue(actor=as_bob, workspace=workspace, lifetime=2 * HOUR)
    credential_issue(actor=as_bob, workspace=workspace)
    grant = grants_of(workspace=workspace).get()
    assert grant.expires_at - grant.issued_at <= HOUR + timedelta(seconds=1)


def test_one_may_end_ones_own_and_the_site_confirms(
    as_bob: Actor, bob: User, as_alice: Actor, workspace: Workspace
) -> None:
    for actor in (as_bob, as_bob, as_alice):
        credential_issue(actor=actor, workspace=workspace)
    assert access_revoke(actor=as_bob, workspace=workspace, user=bob) == 2
    workspace.refresh_from_db()
    assert workspace.conditions["CredentialsRevoked"]["reason"] == "Pending"
    assert standings(workspace) == ["valid", "ending", "ending"]
    assert SandboxToken.objects.count() == 3

    revoke(workspace.pk)

    workspace.refresh_from_db()
    assert "CredentialsRevoked" not in workspace.conditions
    assert standings(workspace) == ["valid", "revoked", "revoked"]
    assert SandboxToken.objects.count() == 1
    assert AuditEntry.objects.get(action="workspace.access_revoke").after == {"of": "bob", "credentials": 2}
    credential_issue(actor=as_bob, workspace=workspace)
    assert access_revoke(actor=as_bob, workspace=run_now(workspace), user=bob) == 1


def test_only_admins_end_those_of_others(
    as_alice: Actor, alice: User, as_bob: Actor, bob: User, as_charlie: Actor, workspace: Workspace
) -> None:
    credential_issue(actor=as_bob, workspace=workspace)
    with pytest.raises(Forbidden):
        access_revoke(actor=as_bob, workspace=workspace, user=alice)
    with pytest.raises(NotFound):
        access_revoke(actor=as_charlie, workspace=workspace, user=bob)
    assert access_revoke(actor=as_alice, workspace=workspace, user=bob) == 1
    assert access_revoke(actor=as_alice, workspace=workspace, user=alice) == 0


def test_a_site_that_does_not_answer_is_asked_again(
    as_bob: Actor, bob: User, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential_issue(actor=as_bob, workspace=workspace)
    access_revoke(actor=as_bob, workspace=workspace, user=bob)
    failure_plan(workspace.site_id, verb="access", error="unavailable")
    revoke(workspace.pk)
    workspace.refresh_from_db()
    assert workspace.conditions["CredentialsRevoked"]["reason"] == "SiteRefused"
    assert standings(workspace) == ["ending"]
    with pytest.raises(Conflict, match="being ended"):
        credential_issue(actor=as_bob, workspace=workspace)
    revoke(workspace.pk)
    assert standings(workspace) == ["ending"]  # not due yet

    poked: list[tuple[str, str]] = []
    monkeypatch.setattr("gpuaas.workspaces.tasks.poke", lambda *args: poked.append(args))
    with time_machine.travel(now() + timedelta(seconds=16)):
        sweep()
        assert ("workspaces.revoke", str(workspace.pk)) in poked
        revoke(workspace.pk)
    assert standings(workspace) == ["revoked"]


def test_a_site_with_many_revocations_keeps_no_other_from_its_own(
    as_bob: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "SWEEP_LIMIT", 2)
    credential_issue(actor=as_bob, workspace=workspace)
    grant = workspace.grants.get()
    healthy = SiteFactory.create(slug="healthy")
    for number, site in enumerate((workspace.site, workspace.site, workspace.site, healthy)):
        other = Workspace.objects.get(pk=workspace.pk)
        other.pk, other.site, other.name, other._state.adding = uuid7(), site, f"w-{number}", True
        other.save()
        due = now() - timedelta(minutes=10 - number)
        AccessGrant.objects.create(
            workspace=other,
            user=grant.user,
            issued_at=grant.issued_at,
            expires_at=grant.expires_at,
            revoke_due_at=due,
        )
    poked: list[tuple[str, ...]] = []
    monkeypatch.setattr("gpuaas.workspaces.tasks.poke", lambda *args: poked.append(args))
    sweep()
    asked = [Workspace.objects.get(pk=pk).name for task, pk in poked if task == "workspaces.revoke"]
    assert asked == ["w-0", "w-3"], "the oldest of each site"


def test_one_that_is_issued_while_it_is_revoked_is_not_shown(
    as_bob: Actor, bob: User, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revoked and confirmed between our asking the site and its answer."""
    issue = SandboxDriver.issue_access

    def revoked_first(
        self: SandboxDriver, ref: WorkspaceRef, member: Member, *, lifetime: timedelta
    ) -> Access:
        access_revoke(actor=as_bob, workspace=workspace, user=bob)
        revoke(workspace.pk)
        return issue(self, ref, member, lifetime=lifetime)

    monkeypatch.setattr(SandboxDriver, "issue_access", revoked_first)
    with pytest.raises(Conflict, match="revoked"):
        credential_issue(actor=as_bob, workspace=workspace)
    assert SandboxToken.objects.count() == 1
    revoke(workspace.pk)
    assert SandboxToken.objects.count() == 0
    assert standings(workspace) == ["revoked"]


def test_a_lost_answer_leaves_a_trace_and_a_refusal_none(as_bob: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="access", error="lost")
    with pytest.raises(Unavailable):
        credential_issue(actor=as_bob, workspace=workspace)
    assert (SandboxToken.objects.count(), standings(workspace)) == (1, ["valid"])
    AccessGrant.objects.all().delete()
    failure_plan(workspace.site_id, verb="access", error="unauthorized")
    with pytest.raises(Exception, match="credentials"):
        credential_issue(actor=as_bob, workspace=workspace)
    assert standings(workspace) == []


def test_who_leaves_has_nothing_that_works(as_alice: Actor, as_bob: Actor, workspace: Workspace) -> None:
    credential_issue(actor=as_bob, workspace=workspace)
    member_remove(actor=as_alice, workspace=workspace, username="bob")
    assert standings(workspace) == ["ending"]
    revoke(workspace.pk)
    assert standings(workspace) == ["revoked"]
    run_now(workspace)
    assert set(members_at_site(workspace.site)) == {"alice"}


def test_who_loses_the_role_in_the_project_has_nothing_that_works(
    as_bob: Actor, bob: User, workspace: Workspace
) -> None:
    credential_issue(actor=as_bob, workspace=workspace)
    bob.project_memberships.all().delete()
    run_now(workspace)
    assert standings(workspace) == ["revoked"]
    assert SandboxToken.objects.count() == 0


def test_with_the_workspace_everything_ends(as_alice: Actor, as_bob: Actor, workspace: Workspace) -> None:
    credential_issue(actor=as_bob, workspace=workspace)
    robot = robot_create(actor=as_alice, workspace=workspace, name="ci", role="edit")
    run_now(workspace)
    robot_access_issue(actor=as_alice, robot=robot)
    settle(workspace_delete(actor=as_alice, workspace=workspace))
    assert standings(workspace) == ["revoked", "revoked"]


def test_a_robot_has_a_role_at_the_site_and_a_credential(as_alice: Actor, workspace: Workspace) -> None:
    robot = robot_create(actor=as_alice, workspace=workspace, name="ci", role="edit")
    with pytest.raises(Conflict, match="a few seconds"):
        robot_access_issue(actor=as_alice, robot=robot)
    run_now(workspace)
    assert members_at_site(workspace.site)["ci"] == "edit"

    access = robot_access_issue(actor=as_alice, robot=robot, lifetime=HOUR)

    assert access.document
    grant = grants_of(workspace=workspace).get()
    assert (grant.robot, grant.user, grant.issued_by) == (robot, None, "alice")
    assert access_revoke(actor=as_alice, workspace=workspace, robot=robot) == 1
    revoke(workspace.pk)
    assert SandboxToken.objects.count() == 0
    entry = AuditEntry.objects.get(action="workspace.robot_access")
    assert entry.after is not None
    assert (entry.after["of"], entry.after["role"]) == ("ci", "edit")


def test_a_robot_that_is_deleted_is_out(as_alice: Actor, workspace: Workspace) -> None:
    robot = robot_create(actor=as_alice, workspace=workspace, name="ci", role="edit")
    run_now(workspace)
    robot_access_issue(actor=as_alice, robot=robot)
    robot_delete(actor=as_alice, robot=robot)
    robot_delete(actor=as_alice, robot=robot)
    revoke(workspace.pk)
    row = run_now(workspace)
    assert "ci" not in members_at_site(workspace.site)
    assert standings(row) == ["revoked"]
    assert list(robots_of(workspace=row)) == []
    with pytest.raises(NotFound):
        robot_access_issue(actor=as_alice, robot=robot)
    assert robot_create(actor=as_alice, workspace=row, name="ci", role="view").pk != robot.pk
    assert AuditEntry.objects.filter(action="workspace.robot_delete").count() == 1


def test_who_makes_robots_and_what_they_are_called(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, workspace: Workspace
) -> None:
    with pytest.raises(NotFound):
        robot_create(actor=as_charlie, workspace=workspace, name="ci", role="edit")
    with pytest.raises(Forbidden):
        robot_create(actor=as_bob, workspace=workspace, name="ci", role="edit")
    for name in ("", "CI", "a b", "-ci", "x" * 41, "ci\n"):
        with pytest.raises(Invalid, match="lower-case"):
            robot_create(actor=as_alice, workspace=workspace, name=name, role="edit")
    with pytest.raises(Invalid, match="role"):
        robot_create(actor=as_alice, workspace=workspace, name="ci", role="root")
    robot_create(actor=as_alice, workspace=workspace, name="ci", role="edit")
    with pytest.raises(Conflict, match="already"):
        robot_create(actor=as_alice, workspace=workspace, name="ci", role="edit")
    moment = now()
    Robot.objects.bulk_create(
        Robot(workspace=workspace, name=f"n-{number}", role="view", created_by="alice", created_at=moment)
        for number in range(19)
    )
    with pytest.raises(Conflict, match="at most 20"):
        robot_create(actor=as_alice, workspace=workspace, name="more", role="edit")


def test_nobody_hands_out_more_than_they_have(
    as_alice: Actor, as_bob: Actor, bob: User, as_charlie: Actor, workspace: Workspace
) -> None:
    strong = robot_create(actor=as_alice, workspace=workspace, name="strong", role="admin")
    equal = robot_create(actor=as_alice, workspace=workspace, name="equal", role="edit")
    run_now(workspace)
    assert robot_access_issue(actor=as_bob, robot=equal).document
    with pytest.raises(Forbidden, match="strong"):
        robot_access_issue(actor=as_bob, robot=strong)
    with pytest.raises(NotFound):
        robot_access_issue(actor=as_charlie, robot=equal)
    workspace.project.memberships.update(role="viewer")
    with pytest.raises(Forbidden):
        robot_access_issue(actor=actor_for(user=bob), robot=equal)


def test_a_simulated_site_has_no_sign_in_of_its_own(as_bob: Actor, workspace: Workspace) -> None:
    assert issubclass(SandboxDriver, AccessCapability)
    with pytest.raises(Conflict, match="no sign-in of its own"):
        sign_in_kubeconfig(actor=as_bob, workspace=workspace)

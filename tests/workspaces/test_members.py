"""Who may enter: members, roles lost elsewhere, kubeconfigs."""

from datetime import timedelta

import pytest
import yaml
from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.sandbox.models import SandboxMember
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import credential_issue, member_remove, member_set
from gpuaas.workspaces.tasks import members_sync, person_sync
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, ProjectMembership, User
from tenants.selectors import actor_for
from tenants.services import project_member_remove, user_deactivate, user_platform_role_set, users
from tests.factories.tenants import OrganizationMembershipFactory, ProjectMembershipFactory, UserFactory
from tests.workspaces.stage import members_at_site, ready, request, run_now

pytestmark = pytest.mark.django_db


def test_the_requester_and_the_projects_admins_are_let_in(
    as_alice: Actor, as_bob: Actor, project: Project, site: Site
) -> None:
    ready(as_bob, project, site)

    assert members_at_site(site) == {"bob": "admin", "alice": "admin"}


def test_a_member_is_added_changed_and_cut(as_alice: Actor, bob: User, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="view")
    run_now(workspace)
    assert members_at_site(site) == {"alice": "admin", "bob": "view"}

    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    run_now(workspace)
    assert members_at_site(site)["bob"] == "edit"

    member_remove(actor=as_alice, workspace=workspace, username="bob")
    workspace = run_now(workspace)
    assert members_at_site(site) == {"alice": "admin"}
    assert workspace.state == "ready"
    assert AuditEntry.objects.filter(action__startswith="workspace.member").count() == 3


def test_who_leaves_the_project_leaves_its_workspaces(
    as_alice: Actor, bob: User, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    run_now(workspace)
    ProjectMembership.objects.filter(user=bob).delete()

    run_now(workspace)

    assert members_at_site(site) == {"alice": "admin"}
    assert workspace.members.filter(user=bob).exists()


@pytest.mark.parametrize("state", ["ready", "failed"])
def test_a_role_lost_in_the_project_is_lost_at_the_site_at_once(
    as_alice: Actor, bob: User, project: Project, site: Site, state: str
) -> None:
    """Not at the next periodic look: the membership's change makes every workspace of the project due that people can enter,
    such as one that failed to grow."""
    workspace = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    run_now(workspace)
    run(workspace.pk)
    Workspace.objects.filter(pk=workspace.pk).update(state=state)
    project_member_remove(actor=as_alice, project=project, user=bob)

    assert members_sync(str(project.pk)) == 1
    run(workspace.pk)

    assert members_at_site(site) == {"alice": "admin"}


@pytest.mark.parametrize("how", ["role", "disabled"])
def test_an_operator_who_is_none_any_more_is_gone_from_the_site(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is a member by the role on the platform alone, and of no project."""
    other = UserFactory.create(username="otto", platform_role="operator")
    workspace = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="otto", role="edit")
    run_now(workspace)
    run(workspace.pk)
    assert members_at_site(site) == {"alice": "admin", "otto": "edit"}
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(users, "poke", lambda *words: sent.append(words))
    if how == "role":
        user_platform_role_set(actor=as_olga, user=other, platform_role="")
    else:
        user_deactivate(actor=as_olga, user=other)

    assert ("workspaces.person_sync", str(other.pk)) in sent
    assert person_sync(str(other.pk)) == 1
    run(workspace.pk)

    assert members_at_site(site) == {"alice": "admin"}


@pytest.mark.parametrize("place", ["project", "organization"])
def test_an_admin_who_is_disabled_is_gone_from_the_site_at_once(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, place: str
) -> None:
    """Who enters by the role in the project or the organization, and is no member of the workspace."""
    dora = UserFactory.create(username="dora")
    if place == "project":
        ProjectMembershipFactory.create(project=project, user=dora, role="admin")
    else:
        OrganizationMembershipFactory.create(organization=project.organization, user=dora, role="owner")
    workspace = ready(as_alice, project, site)
    run(workspace.pk)
    assert members_at_site(site) == {"alice": "admin", "dora": "admin"}
    user_deactivate(actor=as_olga, user=dora)

    assert person_sync(str(dora.pk)) == 1
    run(workspace.pk)

    assert members_at_site(site) == {"alice": "admin"}


def test_a_member_added_while_it_is_made_is_let_in(
    as_alice: Actor, bob: User, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)
    run_now(workspace)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    for _ in range(400):
        workspace = run_now(workspace)
        if workspace.state == "ready" and "bob" in members_at_site(site):
            break

    assert members_at_site(site) == {"alice": "admin", "bob": "edit"}


def test_only_people_of_the_project_are_added(
    as_alice: Actor, as_charlie: Actor, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)
    viewer = UserFactory.create()
    ProjectMembershipFactory.create(project=project, user=viewer, role="viewer")

    for name in ("charlie", "nobody", "x" * 300, "\x00", viewer.username):
        with pytest.raises(Invalid):
            member_set(actor=as_alice, workspace=workspace, username=name, role="edit")
    with pytest.raises(NotFound):
        member_remove(actor=as_alice, workspace=workspace, username="charlie")
    with pytest.raises(NotFound):
        member_set(actor=as_charlie, workspace=workspace, username="charlie", role="admin")


def test_a_plain_member_does_not_promote_themselves(
    as_alice: Actor, as_bob: Actor, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="view")

    with pytest.raises(Forbidden):
        member_set(actor=as_bob, workspace=workspace, username="bob", role="admin")


def test_a_kubeconfig_is_personal_short_lived_and_audited(
    as_alice: Actor, as_bob: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_bob, project, site)

    access = credential_issue(actor=as_bob, workspace=workspace, lifetime=timedelta(hours=1))

    document = yaml.safe_load(access.document)
    assert document["contexts"][0]["context"]["namespace"] == workspace.external_name
    entry = AuditEntry.objects.get(action="workspace.kubeconfig")
    assert entry.after == {"role": "admin", "expires_at": access.expires_at.isoformat()}
    assert "token" not in str(entry.after)
    assert credential_issue(actor=as_alice, workspace=workspace).expires_at > access.expires_at


def test_kubeconfigs_are_refused(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, as_olga: Actor, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)
    with pytest.raises(Conflict):
        credential_issue(actor=as_alice, workspace=workspace)
    Workspace.objects.filter(pk=workspace.pk).delete()
    workspace = ready(as_alice, project, site, name="other")
    viewer = UserFactory.create()
    ProjectMembershipFactory.create(project=project, user=viewer, role="viewer")

    with pytest.raises(NotFound):
        credential_issue(actor=as_charlie, workspace=workspace)
    for actor in (as_bob, as_olga, actor_for(user=viewer)):
        with pytest.raises(Forbidden):
            credential_issue(actor=actor, workspace=workspace)
    for lifetime in (timedelta(0), timedelta(minutes=9), timedelta(days=2)):
        with pytest.raises(Invalid):
            credential_issue(actor=as_alice, workspace=workspace, lifetime=lifetime)
    SandboxMember.objects.all().delete()
    with pytest.raises(Conflict, match="being set up"):
        credential_issue(actor=as_alice, workspace=workspace)


@pytest.mark.django_db(transaction=True)
def test_no_site_is_called_inside_a_transaction(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        credential_issue(actor=as_alice, workspace=workspace)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        run_now(workspace)

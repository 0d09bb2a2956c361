"""Every address below a project or an organization, asked by somebody who does not belong there: 404, always."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse

from frontend import urls
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import AccessGrant, Workspace
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import actor_for
from tests.apart import each_apart
from tests.api.cluster_stage import cluster_stage
from tests.billing.stage import budget_stage
from tests.environments.stage import kind, row_in
from tests.factories.billing import invoice_make
from tests.frontend.disabled import sentences_of
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.scene import grant_of_cluster, robot_of
from tests.jobs import stage as jobs

POSTED = frozenset(
    {
        "workspace_effect",
        "workspace_extend",
        "workspace_extend_effect",
        "workspace_suspend_effect",
        "workspace_retry_effect",
        "workspace_resume_effect",
        "workspace_delete_effect",
        "cluster_suspend_effect",
        "cluster_retry_effect",
        "cluster_resume_effect",
        "cluster_delete_effect",
        "workspace_delete",
        "workspace_retry",
        "workspace_credential",
        "workspace_suspend",
        "workspace_resume",
        "workspace_drift_check",
        "workspace_lend",
        "workspace_access_revoke",
        "workspace_robots",
        "workspace_robot_issue",
        "workspace_robot_revoke",
        "workspace_robot_delete",
        "workspace_members",
        "workspace_member_remove",
        "cluster_answer",
        "cluster_policy_effect",
        "cluster_scale_effect",
        "cluster_upgrade",
        "cluster_extend",
        "cluster_extend_effect",
        "cluster_delete",
        "cluster_retry",
        "cluster_suspend",
        "cluster_resume",
        "cluster_credential",
        "cluster_job_cancel",
        "cluster_job_retry",
        "cluster_policy_switch",
        "cluster_policy_delete",
        "environment_start",
        "environment_stop",
        "environment_restart",
        "environment_keep",
        "environment_idle",
        "environment_clone",
        "environment_access_set",
        "environment_keys",
        "environment_key_revoke",
        "environment_file_upload",
        "environment_folder_new",
        "environment_file_move",
        "environment_file_remove",
        "environment_delete",
        "environment_log",
        "job_cancel",
        "job_delete",
        "job_follow",
        "job_prioritize",
        "job_retry",
        "job_template_delete",
        "data_credential_delete",
        "machine_act",
        "machine_delete",
        "machine_console",
        "workspace_answer",
        "member_role",
        "member_remove",
        "token_revoke",
        "project_new",
        "organization_member_set",
        "organization_member_remove",
        "budget_remove",
        "organization_budget_remove",
    }
)


def names(patterns: list[URLPattern | URLResolver]) -> list[str]:
    found = []
    for pattern in patterns:
        found += names(pattern.url_patterns) if isinstance(pattern, URLResolver) else [str(pattern.name)]
    return found


SCOPED = sorted(names(urls.project_patterns) + names(urls.organization_patterns))


def parameters(
    patterns: list[URLPattern | URLResolver], above: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    for pattern in patterns:
        needed = above | pattern.pattern.converters.keys()
        if isinstance(pattern, URLResolver):
            yield from parameters(pattern.url_patterns, needed)
        else:
            yield str(pattern.name), needed


# what each address names
NAMED = {
    **dict(parameters(urls.project_patterns, frozenset({"project"}))),
    **dict(parameters(urls.organization_patterns, frozenset({"organization"}))),
}


# what an address has to be asked with
ASKED = {"environment_file": "?path=notes.txt"}


def row_of(workspace: Workspace) -> Environment:
    return Environment.objects.filter(name="lab").first() or row_in(workspace, state="requested")


def known_of(workspace: Workspace, user: User) -> dict[str, object]:
    """What addresses name, made once for all of them; `user` has an account in what may be entered."""
    project, alice, row = workspace.project, actor_for(user=workspace.created_by), row_of(workspace)
    machine = Machine.objects.create(workspace=workspace, name="train", created_at=clock.now())
    known = {
        "machine": machine.pk,
        "project": project.slug,
        "organization": project.organization.slug,
        "workspace": workspace.pk,
        "user": user.pk,
        "robot": robot_of(workspace).pk,
        "token": uuid.uuid4(),
        "month": "2026-11",
        "number": invoice_make(project).number,
        "budget": budget_stage(project).pk,
        "kind": kind().slug,
        "environment": row.pk,
        "door_key": row.keys.get().pk,
        **jobs.named(workspace),
        **cluster_stage(olga=SYSTEM, alice=alice, project=project, site=workspace.site),
    }
    grant_of_cluster(Cluster.objects.get(), user)
    return known


def address(name: str, workspace: Workspace, known: Mapping[str, object]) -> str:
    """The real address, with ids that exist: only belonging may decide."""
    if name.startswith("machine"):
        Site.objects.filter(pk=workspace.site_id).update(driver="sandbox-cloud")
    return reverse(f"frontend:{name}", kwargs={key: known[key] for key in NAMED[name]}) + ASKED.get(name, "")


def ask(client: Client, name: str, url: str) -> int:
    """What it answers; whatever page it is, each button that cannot be pressed says why."""
    response = client.post(url) if name in POSTED else client.get(url)
    if response["Content-Type"].startswith("text/html") and not response.streaming:
        sentences_of(response.content.decode())
    return response.status_code


def test_there_is_something_to_ask() -> None:
    assert len(SCOPED) > 25
    assert set(SCOPED) >= POSTED


def each(subtests: pytest.Subtests, check: Callable[[str], None]) -> None:
    each_apart(subtests, ((name, (name,)) for name in SCOPED), check)


def test_an_outsider_finds_nothing(
    subtests: pytest.Subtests, charlie_at: Client, workspace: Workspace, alice: User
) -> None:
    known = known_of(workspace, alice)

    def check(name: str) -> None:
        assert ask(charlie_at, name, address(name, workspace, known)) == 404

    each(subtests, check)


def test_nobody_signed_out_sees_anything(
    subtests: pytest.Subtests, workspace: Workspace, alice: User
) -> None:
    known = known_of(workspace, alice)

    def check(name: str) -> None:
        assert ask(Client(), name, address(name, workspace, known)) == 302

    each(subtests, check)


def test_an_owner_is_answered(
    subtests: pytest.Subtests, alice_at: Client, workspace: Workspace, bob: User
) -> None:
    """The same addresses lead somewhere for who belongs there, so that the 404s above mean something."""
    now = clock.now()
    AccessGrant.objects.create(
        workspace=workspace, user=bob, issued_by="bob", issued_at=now, expires_at=now + timedelta(hours=1)
    )

    known = known_of(workspace, bob)

    def check(name: str) -> None:
        if name == "token_revoke":
            return  # needs a token that exists; it has a test of its own
        code = ask(alice_at, name, address(name, workspace, known))
        assert code in {200, 204, 302, 409, 422} or (code == 404 and name == "organization_member_remove")

    each(subtests, check)


def test_another_projects_workspace_is_not_found_below_ones_own(
    charlie_at: Client, workspace: Workspace, other_project: Project
) -> None:
    url = reverse("frontend:workspace", args=[other_project.slug, workspace.pk])
    assert charlie_at.get(url).status_code == 404


def test_a_viewer_may_look_and_nothing_else(dora: User, workspace: Workspace) -> None:
    client = signed_in(dora)
    page = client.get(reverse("frontend:workspace", args=[workspace.project.slug, workspace.pk]))
    text = page.content.decode()
    assert page.status_code == 200
    assert "Delete" not in text
    assert "Get kubeconfig" not in text
    assert "New workspace" not in text
    for name in ("workspace_delete", "workspace_extend", "workspace_credential", "workspace_members"):
        url = reverse(f"frontend:{name}", args=[workspace.project.slug, workspace.pk])
        assert client.post(url, {"confirm_name": workspace.name}).status_code == 403
    workspace.refresh_from_db()
    assert workspace.state == "requested"


def test_a_member_works_but_does_not_manage(bob: User, workspace: Workspace) -> None:
    client = signed_in(bob)
    slug = workspace.project.slug
    assert client.get(reverse("frontend:workspace_new", args=[slug])).status_code == 200
    members = client.get(reverse("frontend:members", args=[slug]))
    assert "Add a member" not in members.content.decode()
    assert client.get(reverse("frontend:audit", args=[slug])).status_code == 403
    assert "Audit log" not in members.content.decode()


def test_a_token_is_shown_once_and_revoked(alice_at: Client, project: Project) -> None:
    url = reverse("frontend:tokens", args=[project.slug])
    form = {"name": "ci", "expires_at": "2027-01-31T12:00", "scopes": [Permission.WORKSPACE_VIEW.value]}
    made = alice_at.post(url, form)
    assert "gpa_" in made.content.decode()
    assert "no-store" in made["Cache-Control"]
    again = alice_at.get(url).content.decode()
    assert "gpa_" not in again
    token = project.tokens.get()
    revoke = reverse("frontend:token_revoke", args=[project.slug, token.pk])
    assert again.count(f'action="{revoke}"') == 1, "only the dialog does it"
    assert "Revoke token ci?" in again
    alice_at.post(revoke)
    assert "Revoke token ci?" not in alice_at.get(url).content.decode()
    token.refresh_from_db()
    assert token.revoked_at is not None

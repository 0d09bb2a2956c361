"""The frame around every page: the ways in, where one stands, and what the palette finds for whom."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.clusters.models import Cluster
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_role
from gpuaas.workspaces.spec import members_of, subject_of
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tenants.selectors import actor_for, people_seen
from tests.api.cluster_stage import cluster_stage
from tests.environments.stage import row_in
from tests.factories.billing import invoice_make
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs import stage as jobs
from tests.lasting import lasting


def text_of(client: Client, url: str) -> str:
    return words(client.get(url))


def found(client: Client, text: str) -> list[tuple[str, str, str]]:
    rows: list[dict[str, Any]] = client.get("/search/", {"q": text}).json()
    return [(row["group"], row["label"], row["url"]) for row in rows]


@pytest.fixture
@lasting
def cluster(as_alice: Actor, workspace: Workspace) -> Cluster:
    """`lab` of weather-lm."""
    cluster_stage(olga=SYSTEM, alice=as_alice, project=workspace.project, site=workspace.site)
    return Cluster.objects.get()


def test_the_account_and_its_keys_are_in_the_menu_of_every_page(alice_at: Client, project: Project) -> None:
    for url in (
        reverse("frontend:home", args=[project.slug]),
        reverse("frontend:account"),
        reverse("frontend:keys"),
    ):
        text = text_of(alice_at, url)
        menu = text.partition('id="account"')[2].partition("</form>")[0]
        assert f'href="{reverse("frontend:account")}"' in menu
        assert f'href="{reverse("frontend:keys")}"' in menu
        assert 'class="g-side"' in text
        assert "Notifications" not in text


def test_the_palette_finds_what_the_reader_may_see(
    alice_at: Client, bob: User, workspace: Workspace, cluster: Cluster
) -> None:
    slug = workspace.project.slug
    assert found(alice_at, "era5") == [
        ("Workspaces", "era5-finetune", reverse("frontend:workspace", args=[slug, workspace.pk]))
    ]
    assert ("Clusters", "lab", reverse("frontend:cluster", args=[slug, cluster.pk])) in found(alice_at, "lab")
    assert found(alice_at, "bob") == [("People", "bob", reverse("frontend:members", args=[slug]))]
    assert found(alice_at, "alice") == [("People", "alice", reverse("frontend:members", args=[slug]))]
    assert found(alice_at, "weather")[0][:2] == ("Projects", slug)
    for nonsense in ("", "a", "\x00\x00", "%", "nobody-here", "x" * 500, "//[", "https://[::1", "/%00"):
        assert found(alice_at, nonsense) == []


def test_the_palette_finds_an_outsider_nothing(
    charlie_at: Client, bob: User, workspace: Workspace, cluster: Cluster
) -> None:
    for text in ("era5", "lab", "bob", "alice", "weather"):
        assert found(charlie_at, text) == []
    assert found(charlie_at, "charlie")[0][:2] == ("People", "charlie")


def test_the_palette_finds_by_id_address_and_number(
    alice_at: Client, charlie_at: Client, olga_at: Client, workspace: Workspace, cluster: Cluster
) -> None:
    project = workspace.project
    machine = Machine.objects.create(
        workspace=workspace,
        name="node-a",
        state="running",
        uid="0c3d9c0e-site",
        created_at=workspace.created_at,
        observed={"addresses": ["10.0.0.17", "2001:db8::17"]},
    )
    invoice = invoice_make(project)
    Workspace.objects.filter(pk=workspace.pk).update(adopted_name="tenant-7")
    room = ("Workspaces", workspace.name, reverse("frontend:workspace", args=[project.slug, workspace.pk]))
    group = ("Clusters", cluster.name, reverse("frontend:cluster", args=[project.slug, cluster.pk]))
    box = ("Machines", "node-a", reverse("frontend:machine", args=[project.slug, workspace.pk, machine.pk]))
    paper = ("Invoices", invoice.number, reverse("frontend:invoice", args=["climate", invoice.number]))
    texts = {
        str(workspace.pk): room,
        workspace.pk.hex: room,
        str(workspace.pk)[:28]: room,
        workspace.external_name: room,
        workspace.external_name[:12]: room,
        room[2]: room,
        "tenant-7": room,
        "tenant-": room,
        str(cluster.pk): group,
        cluster.external_name: group,
        "node-a": box,
        "10.0.0.17": box,
        "2001:db8::17": box,
        machine.uid: box,
        str(machine.pk): box,
        invoice.number: paper,
    }
    for text, entry in texts.items():
        assert found(alice_at, text) == [entry], text
        assert found(olga_at, text) == [entry], text
        assert found(charlie_at, text) == [], text


def test_the_palette_finds_environments_and_jobs(
    alice_at: Client, charlie_at: Client, olga: User, workspace: Workspace
) -> None:
    environment, job = row_in(workspace, "explore"), jobs.row_in(workspace, "sweep")
    slug = workspace.project.slug
    room = ("Environments", "explore", reverse("frontend:environment", args=[slug, environment.pk]))
    run = ("Jobs", "sweep", reverse("frontend:job", args=[slug, job.pk]))
    for row, name, entry in ((environment, "explo", room), (job, "swee", run)):
        for text in (name, str(row.pk), row.external_name):
            assert found(alice_at, text) == [entry], text
            assert found(signed_in(olga), text) == [entry], text
            assert found(charlie_at, text) == [], text
    notes = {row["label"]: row["note"] for row in alice_at.get("/search/", {"q": "sweep"}).json()}
    assert notes == {"sweep": f"{slug}, in {workspace.name}, queued"}
    job.state = "deleted"
    job.save(update_fields=["state"])
    assert found(alice_at, "sweep") == []


def test_the_palette_finds_organizations_and_pages(
    alice_at: Client, bob: User, olga: User, workspace: Workspace
) -> None:
    slug = workspace.project.organization.slug
    assert ("Organizations", slug, reverse("frontend:projects", args=[slug])) in found(alice_at, slug)
    assert all(group != "Organizations" for group, _, _ in found(signed_in(bob), slug))
    operator = signed_in(olga)
    page = reverse("frontend:operator_organization", args=[slug])
    assert ("Organizations", slug, page) in found(operator, slug)
    assert ("Places", "Keys", reverse("frontend:keys")) in found(alice_at, "keys")
    for text in ("/account/keys", "https://portal.example.org" + reverse("frontend:keys")):
        assert found(alice_at, text) == [("Places", "Keys", reverse("frontend:keys"))]
    assert all(url.startswith("/p/weather-lm/") for _, _, url in found(alice_at, "/p/weather-lm/"))
    assert reverse("frontend:operator_limits") not in [url for _, _, url in found(alice_at, "/operator/")]
    assert ("Places", "Limits", reverse("frontend:limits", args=["weather-lm"])) in found(alice_at, "limits")
    limits = [url for group, _, url in found(operator, "limits") if group == "Places"]
    operator.get(reverse("frontend:home", args=["weather-lm"]))
    both = [url for group, _, url in found(operator, "limits") if group == "Places"]
    assert reverse("frontend:operator_limits") in limits
    assert {reverse("frontend:operator_limits"), reverse("frontend:limits", args=["weather-lm"])} <= set(both)
    assert reverse("frontend:operator_limits") not in [url for _, _, url in found(alice_at, "limits")]


def test_a_search_asks_as_often_for_many_as_for_few(
    alice_at: Client, workspace: Workspace, cluster: Cluster, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(30):
        found(alice_at, "a-name")


def test_who_belongs_nowhere_finds_nothing(workspace: Workspace, cluster: Cluster) -> None:
    outsider: User = UserFactory.create(username="nina")
    client = signed_in(outsider)
    assert found(client, "era5") == found(client, "alice") == []


def test_an_operator_finds_everybody_where_accounts_are_kept(
    olga: User, bob: User, charlie: User, workspace: Workspace, cluster: Cluster
) -> None:
    client = signed_in(olga)
    page = reverse("frontend:operator_person", args=[charlie.pk])
    for text in ("charlie", "CHARLIE@", str(charlie.pk)):
        assert found(client, text) == [("People", "charlie", page)]
    assert found(client, "lab")[0][:2] == ("Clusters", "lab")


def test_people_are_found_in_one_query_and_without_a_word_on_others(
    alice: User, bob: User, charlie: User, django_assert_num_queries: Any
) -> None:
    actor = actor_for(user=alice)
    with django_assert_num_queries(1):
        assert [(user.username, slug) for user, slug in people_seen(actor=actor, search="b", most=8)] == [
            ("bob", "weather-lm")
        ]
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert people_seen(actor=actor, search="bob", most=8) == []
    assert people_seen(actor=actor, search="charlie", most=8) == []


@pytest.mark.parametrize("name", ["home", "workspaces", "members", "projects", "invoices"])
def test_who_is_here_by_a_role_of_the_platform_is_told_so(
    name: str, alice_at: Client, olga: User, workspace: Workspace
) -> None:
    organization = workspace.project.organization
    slug = organization.slug if name in {"projects", "invoices"} else workspace.project.slug
    url = reverse(f"frontend:{name}", args=[slug])
    ada: User = UserFactory.create(username="ada", platform_role="auditor")
    page = signed_in(olga).get(url, follow=True).content.decode()
    assert "as an operator. Your actions are recorded in its audit log" in page
    assert reverse("frontend:operator_organization", args=[organization.slug]) in page
    assert "as an auditor. You can see everything" in signed_in(ada).get(url, follow=True).content.decode()
    assert "g-visit" not in alice_at.get(url, follow=True).content.decode()
    ProjectMembershipFactory.create(project=workspace.project, user=olga, role="member")
    if name in {"home", "workspaces", "members"}:
        assert "g-visit" not in text_of(signed_in(olga), url)
    assert "g-visit" not in text_of(signed_in(olga), reverse("frontend:operator"))


def test_the_page_and_the_service_agree_on_who_enters_as_what(
    workspace: Workspace, alice: User, bob: User, dora: User, olga: User, charlie: User
) -> None:
    def shown(user: User) -> str | None:
        return workspace_role(actor=actor_for(user=user), workspace=Workspace.objects.get(pk=workspace.pk))

    def entered(user: User) -> str | None:
        return next((one.role for one in members_of(workspace) if one.subject == subject_of(user.pk)), None)

    workspace.members.create(user=dora, role="edit")
    people = (alice, bob, dora, olga, charlie)
    assert [shown(user) for user in people] == [entered(user) for user in people] == ["admin", *[None] * 4]
    for user in (olga, bob):
        workspace.members.create(user=user, role="view")
        assert shown(user) == entered(user) == "view"

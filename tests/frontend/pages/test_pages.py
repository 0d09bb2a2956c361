"""What the pages say, and what they cost: query counts do not grow with the rows."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from frontend.views import home
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from tenants.actors import Actor
from tenants.models import Project, User
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.frontend.markup import asks_again, words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.scene import grant_to

LISTS = {"workspaces": 22, "home": 38, "members": 12, "tokens": 12, "audit": 13, "limits": 13, "usage": 14}


def queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


@pytest.fixture
def more(as_alice: Actor, limited: Project) -> Callable[[], None]:
    def make() -> None:
        for number in range(3):
            name = f"more-{number}"
            workspace_request(actor=as_alice, project=limited, name=name, items=[("l40s.1", 1)])
            person = UserFactory.create(username=f"person-{number}")
            ProjectMembershipFactory.create(project=limited, user=person, role="member")

    return make


@pytest.mark.parametrize("name", sorted(LISTS))
def test_lists_cost_the_same_at_any_length(
    name: str, alice_at: Client, workspace: Workspace, more: Callable[[], None]
) -> None:
    url = reverse(f"frontend:{name}", args=[workspace.project.slug])
    alice_at.get(url)
    few = queries(alice_at, url)
    more()
    assert queries(alice_at, url) == few
    assert few <= LISTS[name]


def test_root_leads_home(alice_at: Client, project: Project) -> None:
    assert alice_at.get("/")["Location"] == reverse("frontend:home", args=[project.slug])


def test_people_without_a_project_are_told_what_to_do(db: None) -> None:
    client = Client()
    client.force_login(UserFactory.create(username="newcomer"))
    assert "You are not in a project yet" in client.get("/").content.decode()


def test_an_empty_project_says_what_to_do(alice_at: Client, dora_at: Client, project: Project) -> None:
    for name in ("home", "workspaces"):
        url = reverse(f"frontend:{name}", args=[project.slug])
        assert "New workspace" in alice_at.get(url).content.decode()
        assert "your role is read-only" in dora_at.get(url).content.decode()


def test_the_list_filters_and_sorts(alice_at: Client, workspace: Workspace, more: Callable[[], None]) -> None:
    more()
    url = reverse("frontend:workspaces", args=[workspace.project.slug])
    found = alice_at.get(url, {"q": "more", "sort": "-name"}).context["list"].rows
    assert [row.name for row in found] == ["more-2", "more-1", "more-0"]
    assert alice_at.get(url, {"state": "failed"}).context["list"].rows == []
    assert "No workspaces match" in alice_at.get(url, {"site": "nowhere"}).content.decode()


def test_delete_wants_the_name(alice_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:workspace_delete", args=[workspace.project.slug, workspace.pk])
    assert asks_again(alice_at.post(url, {"confirm_name": "something"}), "delete", "something")
    workspace.refresh_from_db()
    assert workspace.state == "requested"
    alice_at.post(url, {"confirm_name": workspace.name})
    workspace.refresh_from_db()
    assert workspace.state == "deleting"


def test_extend_says_what_is_wrong(alice_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:workspace_extend", args=[workspace.project.slug, workspace.pk])
    response = alice_at.post(url, {"until": "2020-01-01T10:00"})
    assert response.status_code == 422
    text = response.content.decode()
    assert "future" in text
    assert 'aria-labelledby="extend-title" open' in text
    assert alice_at.post(url, {"until": "2027-01-01T10:00"}).status_code == 302


def test_members_come_by_exact_name(alice_at: Client, project: Project, charlie: User) -> None:
    url = reverse("frontend:members", args=[project.slug])
    response = alice_at.post(url, {"user": "charl", "role": "member"})
    assert "No account has exactly this name" in response.content.decode()
    assert alice_at.post(url, {"user": charlie.email, "role": "viewer"}).status_code == 302
    assert project.memberships.get(user=charlie).role == "viewer"


def test_a_removal_can_be_undone(alice_at: Client, project: Project, bob: User) -> None:
    url = reverse("frontend:member_remove", args=[project.slug, bob.pk])
    answer = alice_at.post(url, headers={"HX-Request": "true"})
    assert not project.memberships.filter(user=bob).exists()
    undo = reverse("frontend:member_role", args=[project.slug, bob.pk]) + "?role=member"
    assert undo in answer["HX-Trigger"]
    assert "members" in json.loads(answer["HX-Trigger"]), "the list fetches itself"
    alice_at.post(undo, headers={"HX-Request": "true"})
    assert project.memberships.get(user=bob).role == "member"


def test_access_to_a_workspace_is_given_back(alice_at: Client, workspace: Workspace, bob: User) -> None:
    here = [workspace.project.slug, workspace.pk]
    alice_at.post(reverse("frontend:workspace_members", args=here), {"user": "bob", "role": "view"})
    remove = reverse("frontend:workspace_member_remove", args=[*here, bob.pk])
    answer = alice_at.post(remove, headers={"HX-Request": "true"})
    assert not workspace.members.filter(user=bob).exists()
    undo = json.loads(answer["HX-Trigger"])["toast"]["undo"]
    assert alice_at.post(undo, headers={"HX-Request": "true"})["HX-Refresh"] == "true"
    assert workspace.members.get(user=bob).role == "view"
    shown = words(alice_at.post(remove, follow=True))
    assert f'hx-post="{undo.replace("&", "&amp;")}"' in shown, "without a script asking, the next page has it"


def test_the_kubeconfig_is_never_cached(alice_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:workspace_credential", args=[workspace.project.slug, workspace.pk])
    refused = alice_at.post(url, headers={"HX-Request": "true"})
    assert refused.status_code == 409
    assert "toast" in refused["HX-Trigger"]
    assert alice_at.get(url).status_code == 302


def test_times_are_in_the_readers_zone(alice_at: Client, alice: User, workspace: Workspace) -> None:
    alice_at.post(reverse("frontend:account"), {"time_zone": "Asia/Tokyo"})
    text = words(alice_at.get(reverse("frontend:workspaces", args=[workspace.project.slug])))
    assert "All times Asia/Tokyo" in text
    assert "JST" in text
    response = alice_at.post(reverse("frontend:account"), {"time_zone": "Mars/Olympus"})
    assert response.status_code == 422


def test_search_finds_only_what_is_mine(alice_at: Client, charlie_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:search")
    assert alice_at.get(url, {"q": "era5"}).json()[0]["label"] == "era5-finetune"
    assert charlie_at.get(url, {"q": "era5"}).json() == []


def test_nothing_is_inline(alice_at: Client, workspace: Workspace) -> None:
    for name in ("home", "workspaces", "workspace_new", "usage", "members", "tokens"):
        text = alice_at.get(reverse(f"frontend:{name}", args=[workspace.project.slug])).content.decode()
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text


def test_a_statement_and_its_csv_add_up(alice_at: Client, workspace: Workspace) -> None:
    slug = workspace.project.slug
    page = alice_at.get(reverse("frontend:statement", args=[slug, "2026-11"]))
    context: Any = page.context
    assert context["statement"].total == sum(group.total for group in context["groups"])
    assert alice_at.get(reverse("frontend:statement", args=[slug, "2026-13"])).status_code == 404
    assert alice_at.get(reverse("frontend:usage_csv", args=[slug])).status_code == 200
    assert alice_at.get(reverse("frontend:statement_csv", args=[slug, "2026-11"])).status_code == 200


def test_what_is_held_and_not_in_use_is_hatched(alice_at: Client, workspace: Workspace) -> None:
    workspace.observed = {"used": {"cpu": 8, "memory": 64, "storage": 100}}
    workspace.state = "ready"
    workspace.save()
    rows = alice_at.get(reverse("frontend:home", args=[workspace.project.slug])).context["limit_rows"]
    meters = {row.line.resource: row.meter for row in rows}
    assert (meters["vcpu"].used, meters["storage"].used, meters["storage"].held) == (8, 100, 400)


def test_the_end_of_a_lease_is_told_as_it_is(alice_at: Client, workspace: Workspace, settings: Any) -> None:
    settings.LEASE_GRACE_DAYS = 5
    for name in ("workspace", "workspace_new"):
        args = [workspace.project.slug, *([workspace.pk] if name == "workspace" else [])]
        text = alice_at.get(reverse(f"frontend:{name}", args=args)).content.decode()
        assert "When the lease ends, everything is suspended; 5 days later it is deleted." in text
    Workspace.objects.update(lease_ends_at=clock.now() - timedelta(hours=1), state="ready")
    home = alice_at.get(reverse("frontend:home", args=[workspace.project.slug])).content.decode()
    assert f"The lease of {workspace.name} ended" in home
    page = alice_at.get(reverse("frontend:workspace", args=[workspace.project.slug, workspace.pk]))
    assert "lease ended" in page.content.decode()


def test_what_many_workspaces_cost_comes_by_a_second_answer(
    alice_at: Client, as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer asks for it by itself, and has all that does not need each of them rated."""
    url = reverse("frontend:home", args=[workspace.project.slug])
    whole = alice_at.get(url)
    assert 'hx-trigger="live"' in whole.content.decode()
    assert "chart" in whole.context
    monkeypatch.setattr(home, "SHOWN", 1)
    workspace_request(actor=as_alice, project=workspace.project, name="one-more", items=[("l40s.1", 1)])
    with CaptureQueriesContext(connection) as first:
        at_once = alice_at.get(url)
    assert 'hx-trigger="live, load"' in at_once.content.decode()
    assert "1 of 2 workspaces. <a href=" in at_once.content.decode()
    assert "chart" not in at_once.context
    assert [row.month for row in at_once.context["rows"]] == [None]
    assert at_once.context["rows"][0].per_hour is not None
    with CaptureQueriesContext(connection) as second:
        later = alice_at.get(url, headers={"HX-Request": "true"})
    assert 'hx-trigger="live"' in later.content.decode()
    assert "chart" in later.context
    assert [row.month is None for row in later.context["rows"]] == [False]
    assert [stat.value for stat in later.context["stats"]] == [
        stat.value for stat in at_once.context["stats"]
    ]
    ranked = "holder AS ("
    assert not any(ranked in query["sql"] for query in first)
    assert any(ranked in query["sql"] for query in second)


def test_the_billing_role_is_not_told_that_nothing_runs(
    people: dict[str, User], workspace: Workspace
) -> None:
    bills = signed_in(people["bill"])
    home_text = words(bills.get(reverse("frontend:home", args=["weather-lm"])))
    assert "Workspaces are not shown" in home_text
    for untrue in ("No one has requested", "No activity yet", "Failures and leases"):
        assert untrue not in home_text
    intervals = reverse("frontend:intervals", args=["weather-lm", workspace.pk])
    assert bills.get(intervals).status_code == 200


def test_a_total_stands_below_all_of_a_list_alone(
    alice_at: Client, workspace: Workspace, priced: None
) -> None:
    url = reverse("frontend:projects", args=["climate"])
    assert "Total" in words(alice_at.get(url))
    assert "Total" not in words(alice_at.get(f"{url}?q=weather"))


def test_all_credentials_of_a_person_are_revoked_after_a_question(
    alice_at: Client, workspace: Workspace, bob: User
) -> None:
    workspace.members.create(user=bob, role="edit")
    grant_to(workspace, bob)
    text = words(alice_at.get(reverse("frontend:workspace", args=["weather-lm", workspace.pk])))
    assert "Revoke the credentials of bob?" in text

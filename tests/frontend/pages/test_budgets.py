"""Budgets in the browser's way: set, refused beside the field, shown with bars and alerts, changed and removed by who may."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.models import Budget
from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from quotas.models import Hold
from tenants.models import Project, User
from tests.billing.stage import budget_stage, cluster_make
from tests.factories.tenants import OrganizationMembershipFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.pages.conftest import signed_in

FORM = {
    "name": "autumn",
    "measure": "money",
    "amount": "1000.00",
    "period": "month",
    "percent_1": "100",
    "action_1": "block",
    "percent_2": "50",
    "action_2": "notify",
}


@pytest.fixture
def erin_at(project: Project) -> Client:
    """An admin of the project, with nothing to say in the organization."""
    user: User = UserFactory.create(username="erin")
    ProjectMembershipFactory.create(project=project, user=user, role="admin")
    return signed_in(user)


def of_project(project: Project, name: str, *args: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *args])


def of_organization(project: Project, name: str, *args: object) -> str:
    return reverse(f"frontend:organization_{name}", args=[project.organization.slug, *args])


def new(client: Client, project: Project, **changes: Any) -> Any:
    return client.post(of_project(project, "budget_new"), {**FORM, **changes})


def test_a_budget_is_set_and_its_thresholds_are_put_in_order(alice_at: Client, limited: Project) -> None:
    assert alice_at.get(of_project(limited, "budget_new")).status_code == 200
    response = new(alice_at, limited)
    assert response["Location"] == of_project(limited, "budgets")
    made = Budget.objects.get()
    assert (made.project, made.amount) == (limited, 100_000)
    assert [(row.percent, row.action) for row in made.thresholds.all()] == [(50, "notify"), (100, "block")]
    text = alice_at.get(response["Location"]).content.decode()
    assert "€1,000.00" in text
    assert "€0.00 spent" in text
    assert "50% notifies" in text


def test_a_budget_of_one_workspace(alice_at: Client, workspace: Workspace) -> None:
    new(alice_at, workspace.project, holder=str(workspace.pk))
    assert Budget.objects.get().workspace == workspace


def test_a_budget_of_one_cluster(alice_at: Client, alice: User, limited: Project, h100: Flavor) -> None:
    cluster = cluster_make(limited, h100, alice)
    assert "cluster sim" in alice_at.get(of_project(limited, "budget_new")).content.decode()
    new(alice_at, limited, holder=str(cluster.pk))
    made = Budget.objects.get()
    assert (made.cluster, made.workspace) == (cluster, None)
    assert "cluster sim" in alice_at.get(of_project(limited, "budgets")).content.decode()


@pytest.mark.parametrize(
    ("field", "changes", "said"),
    [
        ("amount", {"amount": "1.001"}, "at most 2 decimal places"),
        ("amount", {"amount": "-3"}, "above 0"),
        ("amount", {"amount": "much"}, "decimal number"),
        ("amount", {"amount": "1e5"}, "without an exponent"),
        ("name", {"name": ""}, "Enter a name"),
        ("starts_on", {"period": "fixed"}, "a first day"),
        ("starts_on", {"starts_on": "soon"}, "year-month-day"),
        ("ends_on", {"period": "fixed", "starts_on": "2020-01-01", "ends_on": "2020-02-01"}, "in the past"),
        ("percent_1", {"percent_2": "100"}, "thresholds must ascend"),
        ("percent_1", {"percent_1": "", "percent_2": ""}, "1 to 10 thresholds"),
        ("percent_1", {"percent_1": "1001"}, "between 1 and 1,000"),
        ("percent_1", {"percent_1": "half"}, "whole number"),
        ("holder", {"holder": "0199f1f0-0000-7000-8000-000000000000"}, "Choose one of the list"),
    ],
)
def test_what_makes_no_sense_is_refused_beside_its_field(
    alice_at: Client, limited: Project, field: str, changes: dict[str, str], said: str
) -> None:
    response = new(alice_at, limited, **changes)
    assert response.status_code == 422
    assert said.lower() in str(response.context["form"].errors[field]).lower()
    assert not Budget.objects.exists()


def test_all_mistakes_are_shown_at_once(alice_at: Client, limited: Project) -> None:
    new(alice_at, limited)
    wrong = {"amount": "1.001", "period": "fixed", "starts_on": "soon", "percent_2": "half"}
    errors = new(alice_at, limited, **wrong).context["form"].errors
    assert set(errors) == {"name", "amount", "starts_on", "percent_2"}
    errors = new(alice_at, limited, name="", amount="-1", percent_1="1001").context["form"].errors
    assert (set(errors), errors["name"]) == ({"name", "amount", "percent_1"}, ["Enter a name."])


def test_who_has_a_budget_of_that_name(alice_at: Client, limited: Project) -> None:
    new(alice_at, limited)
    taken = new(alice_at, limited).context["form"].errors["name"]
    assert taken == ["The project weather-lm already has a budget called autumn."]
    Budget.objects.update(project=None)
    taken = new(alice_at, limited).context["form"].errors["name"]
    assert taken == [f"The organization {limited.organization.slug} already has a budget called autumn."]


def test_a_spent_budget_blocks_is_shown_and_gives_way_when_raised(
    alice_at: Client, workspace: Workspace
) -> None:
    project = workspace.project
    stood = budget_stage(project)
    stood.alerts.create(
        period_start="2026-01-01",
        percent=100,
        action="block",
        message="The budget stage is spent.",
        spent=3_600_000,
        amount=3_600_000,
        created_at=workspace.created_at,
    )
    for url in (
        of_project(project, "home"),
        of_project(project, "budgets"),
        of_project(project, "budget", stood.pk),
        of_organization(project, "budgets"),
    ):
        assert "The budget stage is spent." in alice_at.get(url).content.decode()
    changed = {**FORM, "measure": "gpu_hours", "name": "stage", "amount": "5000", "version": "1"}
    response = alice_at.post(of_project(project, "budget", stood.pk), changed)
    assert response.status_code == 302
    stood.refresh_from_db()
    assert (stood.amount, stood.version) == (5000 * 3600, 2)
    again = alice_at.post(of_project(project, "budget", stood.pk), changed)
    assert again.status_code == 422
    assert "has changed since you read it" in again.content.decode()
    assert '<a class="btn btn-secondary btn-sm" href="">Read it again</a>' in again.content.decode()
    tried = alice_at.post(f"{of_project(project, 'budget', stood.pk)}?check", changed).content.decode()
    assert '<a href="">Read it again</a>' in tried
    home = alice_at.get(of_project(project, "home")).content.decode()
    assert "The budget stage is spent." not in home


def test_it_is_removed_and_no_longer_blocks(alice_at: Client, limited: Project) -> None:
    stood = budget_stage(limited)
    page = alice_at.get(of_project(limited, "budget", stood.pk)).content.decode()
    assert "Remove this budget?" in page
    assert alice_at.get(of_project(limited, "budget_remove", stood.pk)).status_code == 302
    assert alice_at.post(of_project(limited, "budget_remove", stood.pk)).status_code == 302
    assert alice_at.get(of_project(limited, "budget", stood.pk)).status_code == 404
    assert not Hold.objects.exists()


def test_who_may_look_is_not_who_may_set(dora_at: Client, bob_at: Client, limited: Project) -> None:
    stood = budget_stage(limited)
    for client in (dora_at, bob_at):
        assert "New budget" not in client.get(of_project(limited, "budgets")).content.decode()
        page = client.get(of_project(limited, "budget", stood.pk)).content.decode()
        assert "You can only view this budget" in page
        assert 'name="amount"' not in page
        assert client.post(of_project(limited, "budget", stood.pk), FORM).status_code == 403
        assert client.post(of_project(limited, "budget_remove", stood.pk)).status_code == 403
        assert new(client, limited).status_code == 403
        assert client.get(of_organization(limited, "budgets")).status_code in {403, 404}


def test_an_admin_of_a_project_cannot_raise_what_the_organization_has_set(
    alice_at: Client, erin_at: Client, limited: Project
) -> None:
    assert new(erin_at, limited, name="ours").status_code == 302
    new(alice_at, limited, name="theirs")
    theirs = Budget.objects.get(name="theirs")
    url = of_project(limited, "budget", theirs.pk)
    assert "You can only view this budget" in erin_at.get(url).content.decode()
    assert erin_at.post(url, {**FORM, "name": "theirs", "amount": "9999"}).status_code == 403
    theirs.refresh_from_db()
    assert theirs.amount == 100_000


def test_the_billing_role_sets_budgets_of_the_organization(limited: Project) -> None:
    user: User = UserFactory.create(username="fay")
    OrganizationMembershipFactory.create(organization=limited.organization, user=user, role="billing")
    client = signed_in(user)
    response = client.post(of_organization(limited, "budget_new"), FORM)
    assert response["Location"] == of_organization(limited, "budgets")
    assert Budget.objects.get().project is None


def test_another_projects_budget_is_not_found_below_ones_own(
    alice_at: Client, limited: Project, other_project: Project
) -> None:
    theirs = budget_stage(other_project)
    assert alice_at.get(of_project(limited, "budget", theirs.pk)).status_code == 404
    assert alice_at.get(of_organization(limited, "budget", theirs.pk)).status_code == 404


def test_the_list_asks_the_same_at_any_length(alice_at: Client, limited: Project) -> None:
    url = of_organization(limited, "budgets")
    budget_stage(limited)
    with CaptureQueriesContext(
        connection,
    ) as one:
        alice_at.get(url)
    for number in range(5):
        budget_stage(limited, name=f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        alice_at.get(url)
    assert len(many) == len(one)

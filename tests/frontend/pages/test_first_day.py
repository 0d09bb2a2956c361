"""A new organization leads by the hand: its owner finds it, each empty page says what comes next, and who visits is told so."""

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.workspaces.models import Workspace
from tenants.models import Organization, Project, User
from tests.factories.tenants import OrganizationFactory, OrganizationMembershipFactory, UserFactory
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in


@pytest.fixture
def newco(db: None) -> Organization:
    """Without a project."""
    found: Organization = OrganizationFactory.create(slug="newco", name="New Company")
    return found


@pytest.fixture
def owner(newco: Organization) -> User:
    found: User = UserFactory.create(username="nora")
    OrganizationMembershipFactory.create(organization=newco, user=found, role="owner")
    return found


def test_the_owner_of_an_organization_without_projects_is_led_to_its_first(
    owner: User, newco: Organization
) -> None:
    client = signed_in(owner)
    home = client.get("/", follow=True)
    assert home.redirect_chain[-1][0] == reverse("frontend:projects", args=["newco"])
    page = words(home)
    assert "Create the first one" in page
    assert page.count('data-dialog="new-project"') == 2, "in the head and where the list is empty"
    account = words(client.get(reverse("frontend:account")))
    assert f'href="{reverse("frontend:projects", args=["newco"])}"' in account, (
        "the menu leads there from everywhere"
    )
    made = client.post(
        reverse("frontend:project_new", args=["newco"]), {"slug": "first", "name": "First"}, follow=True
    )
    assert "can hold nothing until a platform operator sets its limits" in words(made)


def test_a_billing_member_is_not_offered_what_owners_do(newco: Organization) -> None:
    person: User = UserFactory.create(username="bea")
    OrganizationMembershipFactory.create(organization=newco, user=person, role="billing")
    page = words(signed_in(person).get("/", follow=True))
    assert "Owners of the organization create projects" in page
    assert 'data-dialog="new-project"' not in page


def test_an_operator_at_an_organization_without_projects_is_told_so(olga: User, newco: Organization) -> None:
    page = words(signed_in(olga).get(reverse("frontend:projects", args=["newco"])))
    assert "You are viewing New Company as an operator" in page
    assert reverse("frontend:operator_organization", args=["newco"]) in page


def test_the_menu_is_of_the_organization_whose_page_it_is(
    olga: User, workspace: Workspace, other_project: Project
) -> None:
    """And not of the project last looked at."""
    client = signed_in(olga)
    client.get(reverse("frontend:home", args=[workspace.project.slug]))
    page = words(client.get(reverse("frontend:projects", args=["biology"])))
    menu = page[page.index('aria-label="Main"') : page.index("g-side__foot")]
    assert reverse("frontend:organization_invoices", args=["biology"]) in menu
    assert reverse("frontend:home", args=[other_project.slug]) in menu
    assert "/o/climate/" not in menu
    assert "You are viewing biology" in page.replace(other_project.organization.name, "biology")


def test_an_outsider_of_the_organization_finds_nothing(charlie: User, newco: Organization) -> None:
    assert signed_in(charlie).get(reverse("frontend:projects", args=["newco"])).status_code == 404


def test_without_limits_an_operator_is_led_to_them_and_a_tenant_told_what_to_say(
    alice_at: Client, olga: User, project: Project
) -> None:
    for name in ("home", "limits"):
        url = reverse(f"frontend:{name}", args=[project.slug])
        assert f"/operator/limits/?q={project.slug}" in words(signed_in(olga).get(url))
        told = words(alice_at.get(url))
        assert "which GPUs it needs and how many" in told
        assert "/operator/" not in told


def test_without_flavors_and_sites_an_operator_is_led_to_them(
    alice_at: Client, olga: User, project: Project
) -> None:
    url = reverse("frontend:workspace_new", args=[project.slug])
    assert reverse("frontend:operator_flavors") in words(signed_in(olga).get(url))
    assert "Contact your operator" in words(alice_at.get(url))
    assert reverse("frontend:operator_sites") in words(
        signed_in(olga).get(reverse("frontend:operator_capacity"))
    )

"""Taking over by the pages: look, plan, read what is in the way, confirm, discard; the site is the simulated one."""

import pytest
from django.test import Client
from django.utils import timezone

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed, node_set
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create
from gpuaas.workspaces.models import Adoption, Workspace
from gpuaas.workspaces.reconcile import adoption
from tenants.models import Project, User
from tests.factories.quotas import limits_give
from tests.frontend.operator.adopting import OLD, plan_at, scan_at
from tests.lasting import lasting

TAB = "/operator/sites/at/ber-1/adoption/"
FORM = {"project": "weather-lm", "name": "train", "count-h100.1": "2", "storage_gib": "100", "members": ""}


@pytest.fixture
@lasting
def old_lab(site: Site, project: Project) -> None:
    """One pod there holds 2 H100."""
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8),))
    site_probe(site.pk)
    limits_give(project)
    foreign_namespace(site.pk, OLD)
    pod_create(site.pk, OLD, "old-train", 2)
    node_set(site.pk, name="h-01")


def test_from_a_look_to_a_workspace(olga_at: Client, site: Site, old_lab: None) -> None:
    assert "Not scanned yet" in olga_at.get(TAB).content.decode()
    olga_at.post(f"{TAB}look/")
    assert "scan in progress" in olga_at.get(TAB).content.decode()
    assert adoption.scan(site.pk)
    text = olga_at.get(TAB).content.decode()
    assert OLD in text
    assert "2 × nvidia.com/gpu" in text  # two GPU types go by this name here
    assert "2 × h100.1" in text
    form = olga_at.get(f"{TAB}of/{OLD}/")
    assert form.context["form"]["count-h100.1"].value() == 2
    made = olga_at.post(f"{TAB}of/{OLD}/", FORM)
    row = Adoption.objects.get()
    assert made["Location"] == f"{TAB}plans/{row.pk}/"
    assert "Planning" in olga_at.get(made["Location"]).content.decode()
    assert "Adopt workspace" not in olga_at.get(made["Location"]).content.decode()
    adoption.plan(row.pk)
    row.refresh_from_db()
    page = olga_at.get(made["Location"]).content.decode()
    assert "Adopt workspace" in page
    assert "Everything keeps running" in page
    olga_at.post(f"{made['Location']}confirm/", {"version": row.version})
    assert Workspace.objects.get().adopted_name == OLD
    assert "Follow the progress on the workspace" in olga_at.get(made["Location"]).content.decode()


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"project": "nobody"}, "project", "no project"),
        ({"project": ""}, "project", "Enter a project"),
        ({"name": "Träin"}, "name", "lower-case"),
        ({"count-h100.1": "many"}, "count-h100.1", "whole number"),
        ({"count-h100.1": "-1"}, "count-h100.1", "Enter 0 or more"),
        ({"count-h100.1": "0"}, "__all__", "1 to 20 flavors"),
        ({"storage_gib": "x"}, "storage_gib", "whole number"),
        ({"members": "charlie"}, "members", "not a member"),
    ],
)
def test_a_plan_is_refused_beside_its_field(
    olga_at: Client,
    site: Site,
    project: Project,
    charlie: User,
    change: dict[str, str],
    field: str,
    said: str,
) -> None:
    scan_at(site)
    answer = olga_at.post(f"{TAB}of/{OLD}/", {**FORM, **change})
    assert answer.status_code == 422
    assert said in str(answer.context["form"].errors[field])
    assert not Adoption.objects.exists()


def test_what_is_in_the_way_stands_first_and_there_is_no_button(
    olga_at: Client, site: Site, project: Project, olga: User
) -> None:
    row = plan_at(site, project, olga, blocked=True)
    page = olga_at.get(f"{TAB}plans/{row.pk}/")
    text = page.content.decode()
    assert page.context["plan"].steps[0].object == "Pod/rogue"
    assert "1 conflict" in text
    assert "Adopt workspace" not in text
    refused = olga_at.post(f"{TAB}plans/{row.pk}/confirm/", follow=True)
    assert "Resolve this and plan again: Pod/rogue" in refused.content.decode()
    assert not Workspace.objects.exists()


def test_what_limits_and_price_say_stands_in_the_dialog(
    olga_at: Client, site: Site, project: Project, olga: User
) -> None:
    row = plan_at(site, project, olga)
    url = f"{TAB}plans/{row.pk}/"
    dialog = olga_at.get(url).content.decode().partition('id="confirm-plan"')[2]
    assert "has no limit set" in dialog
    assert "Per hour from then on" in dialog
    limits_give(project)
    assert "Available now" in olga_at.get(url).content.decode().partition('id="confirm-plan"')[2]


def test_a_plan_that_is_too_old_has_no_button(
    olga_at: Client, site: Site, project: Project, olga: User
) -> None:
    row = plan_at(site, project, olga)
    Adoption.objects.update(expires_at=timezone.now())
    assert "Adopt workspace" not in olga_at.get(f"{TAB}plans/{row.pk}/").content.decode()
    refused = olga_at.post(f"{TAB}plans/{row.pk}/confirm/", follow=True)
    assert "plan again" in refused.content.decode()


def test_only_what_was_read_is_confirmed(olga_at: Client, site: Site, project: Project, olga: User) -> None:
    row = plan_at(site, project, olga)
    limits_give(project)
    answer = olga_at.post(f"{TAB}plans/{row.pk}/confirm/", {"version": row.version + 1}, follow=True)
    assert "has changed since you read it" in answer.content.decode()
    assert not Workspace.objects.exists()


def test_a_plan_is_discarded(olga_at: Client, site: Site, project: Project, olga: User) -> None:
    row = plan_at(site, project, olga)
    answer = olga_at.post(f"{TAB}plans/{row.pk}/discard/", {"version": row.version}, follow=True)
    assert "Nothing was changed at the site" in answer.content.decode()
    row.refresh_from_db()
    assert row.state == "discarded"


def test_what_was_not_found_cannot_be_planned(olga_at: Client, site: Site) -> None:
    assert olga_at.get(f"{TAB}of/{OLD}/").status_code == 404
    assert olga_at.post(f"{TAB}of/{OLD}/", FORM).status_code == 404

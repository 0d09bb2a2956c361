"""Warm pools by page: looked at before they are asked for, refused beside the field, changed, ended by their name."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import ClusterTemplate, WarmPool
from gpuaas.clusters.services import template_create
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.billing.stage import utc
from tests.clusters.stage import offered
from tests.clusters.warm_stage import kept
from tests.factories.quotas import limits_give
from tests.frontend.markup import asks_again, words
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
CHOICE = {"pools": {"gpu": {"count": 2}}}
ASKED = {
    "name": "usual",
    "project": "protein-fold",
    "wanted": "2",
    "making_most": "1",
    "document": json.dumps(CHOICE),
}
LIST = "/operator/cluster-templates/of/k8s/warm-pools/"


@pytest.fixture
@lasting
def template(as_olga: Actor, site: Site, other_project: Project) -> ClusterTemplate:
    """Warm clusters wait in protein-fold."""
    limits_give(other_project, {"gpu:h100-sxm-80gb": None})
    return offered(as_olga, site)


@pytest.mark.usefixtures("template")
def test_it_is_looked_at_with_its_price_and_then_kept(olga_at: Client, as_olga: Actor) -> None:
    assert "A price is missing" in words(olga_at.post(LIST, ASKED))
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    assert "No warm pools yet" in words(olga_at.get(LIST))
    looked = words(olga_at.post(LIST, ASKED))
    for said in ("Keep 2 ready in", "2 × h100.2", "10.00", "20.00", 'name="confirmed"'):
        assert said in looked, said
    back = olga_at.post(LIST, {**ASKED, "back": "1"})
    assert (back.status_code, "Keep 2 ready in" in words(back)) == (200, False)
    assert back.context["form"]["name"].value() == ASKED["name"], "as it was filled in"
    assert not WarmPool.objects.exists()
    made_at = olga_at.post(LIST, {**ASKED, "confirmed": "on"})["Location"]
    made = WarmPool.objects.get()
    assert made_at == reverse("frontend:operator_cluster_template_pool", args=["k8s", made.pk])
    assert (made.wanted, made.making_most, made.document, made.project.slug) == (2, 1, CHOICE, "protein-fold")
    assert "0 of 2" in words(olga_at.get(LIST))
    assert "1 warm pool" in words(olga_at.get("/operator/cluster-templates/of/k8s/"))


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize("confirmed", [{}, {"confirmed": "on"}])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "Enter a name."),
        ({"project": "nobody"}, "This project does not exist."),
        ({"project": ""}, "Enter the project that pays."),
        ({"wanted": "many"}, "Enter a whole number."),
        ({"wanted": "101"}, "A whole number from 0 to 100."),
        ({"making_most": "0"}, "A whole number from 1 to 20."),
        ({"document": "{"}, "This is not valid JSON."),
        ({"document": "[" * 50_000}, "This is not valid JSON"),
        ({"document": json.dumps({"pools": {"gpu": {"count": 99}}})}, "pools.gpu.count: "),
        ({"document": json.dumps({"zone": "a"})}, "zone"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    olga_at: Client, change: dict[str, str], said: str, confirmed: dict[str, str]
) -> None:
    refused = olga_at.post(LIST, {**ASKED, **change, **confirmed})
    assert (refused.status_code, said in words(refused)) == (422, True)
    assert not WarmPool.objects.exists()


@pytest.mark.usefixtures("template")
def test_all_defaults_are_a_choice_and_a_name_is_once(olga_at: Client) -> None:
    asked = {**ASKED, "document": "{}", "confirmed": "on"}
    assert olga_at.post(LIST, asked).status_code == 302
    again = olga_at.post(LIST, asked)
    assert (again.status_code, "already has a warm pool called usual" in words(again)) == (422, True)
    bad = olga_at.post(LIST, {**asked, "name": "No Name"})
    assert (bad.status_code, WarmPool.objects.count()) == (422, 1)


@pytest.mark.usefixtures("template")
def test_it_is_changed_and_ended_by_its_name(olga_at: Client, ada_at: Client) -> None:
    here = olga_at.post(LIST, {**ASKED, "wanted": "1", "confirmed": "on"})["Location"]
    row = WarmPool.objects.get()
    (waits,) = kept(row)
    page = words(olga_at.get(here))
    for said in ("1 of 1", "protein-fold", "Full", f"warm_pool:{row.pk}"):
        assert said in page, said
    looked = words(ada_at.get(here))
    assert "Full" in looked
    assert "End warm pool" not in looked
    changed = {"wanted": "0", "making_most": "3", "document": json.dumps(CHOICE), "version": "1"}
    assert olga_at.post(here, changed)["Location"] == here
    late = olga_at.post(here, {**changed, "wanted": "5"})
    assert (late.status_code, "has changed since you read it" in words(late)) == (422, True)
    assert "Read it again</a>" in words(late)
    row.refresh_from_db()
    assert (row.wanted, row.making_most, row.version) == (0, 3, 2)
    assert waits not in kept(row)
    assert asks_again(olga_at.post(f"{here}end/", {"confirm_name": "us"}), "end", "us")
    ended = olga_at.post(f"{here}end/", {"confirm_name": "usual"}, follow=True)
    assert "Warm pool usual ended" in words(ended)
    assert olga_at.get(here).status_code == 404
    assert olga_at.post(f"{here}end/", {"confirm_name": "usual"}).status_code == 404
    told = AuditEntry.objects.filter(action__startswith="warm_pool.").order_by("pk")
    assert list(told.values_list("action", flat=True)) == [
        "warm_pool.create",
        "warm_pool.update",
        "warm_pool.end",
    ]


def test_a_template_without_a_version_says_what_to_do(
    olga_at: Client, as_olga: Actor, site: Site, other_project: Project
) -> None:
    template_create(actor=as_olga, slug="bare", name="Bare", kind="kubernetes", site=site, driver="sandbox")
    page = words(olga_at.get("/operator/cluster-templates/of/bare/warm-pools/"))
    assert "Add the first version of the template" in page
    assert "Review" not in page
    posted = olga_at.post("/operator/cluster-templates/of/bare/warm-pools/", {**ASKED, "document": "{}"})
    assert posted.status_code == 404


@pytest.mark.usefixtures("template")
def test_a_change_shows_its_price_and_limits_before_it_is_saved(
    olga_at: Client, as_olga: Actor, other_project: Project
) -> None:
    flavor = Flavor.objects.get(slug="h100.2")
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    here = olga_at.post(LIST, {**ASKED, "wanted": "0", "confirmed": "on"})["Location"]
    assert f'hx-post="{here}effect/"' in olga_at.get(here).content.decode()
    asked = {"wanted": "3", "making_most": "1", "document": json.dumps(CHOICE), "version": "1"}
    shown = words(olga_at.post(f"{here}effect/", asked))
    for said in ("3 more to build", "€10.00 per hour", "Per hour once all are ready", "€30.00", "+€30.00"):
        assert said in shown, said
    limits_give(other_project, {"gpu:h100-sxm-80gb": 4})
    over = words(olga_at.post(f"{here}effect/", asked))
    assert "may hold at most 4 H100 SXM 80 GB GPUs" in over
    assert "As many are built as there is room for" in over
    for wrong, said in (({"wanted": "many"}, "Check your input"), ({"wanted": "101"}, "from 0 to 100")):
        assert said in words(olga_at.post(f"{here}effect/", {**asked, **wrong}))
    assert WarmPool.objects.get().wanted == 0

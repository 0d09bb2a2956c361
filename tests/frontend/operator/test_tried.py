"""What is published, reserved, kept ready, adopted and booked is tried while it is typed, and nothing of it is done."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import LedgerEntry, RateCard, RateDraft
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import WarmPool
from gpuaas.workspaces.models import Adoption, Workspace
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.models import Organization, Project
from tests.clusters.stage import offered
from tests.factories.billing import invoice_make
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import limits_give
from tests.frontend.markup import words
from tests.frontend.operator.adopting import OLD, scan_at
from tests.frontend.operator.test_adoption import FORM as ADOPTED
from tests.frontend.operator.test_adoption import TAB
from tests.frontend.operator.test_checked import ask

pytestmark = pytest.mark.django_db
PAST, LATER = "2020-01-01T00:00", "2199-01-01T00:00"
POOL: dict[str, Any] = {
    "name": "usual",
    "project": "protein-fold",
    "wanted": "2",
    "making_most": "1",
    "document": json.dumps({"pools": {"gpu": {"count": 2}}}),
}
TERMS: dict[str, Any] = {
    "what": "h100.1",
    "meter": "gpu_held",
    "price": "3",
    "increment_seconds": "60",
    "minimum_seconds": "300",
    "surplus_percent": "100",
}


def asks(page: Any, url: str = "") -> bool:
    return f'hx-post="{url}?check"' in words(page)


def test_the_publication_of_a_draft_and_the_terms_of_a_price(olga_at: Client, workspace: Workspace) -> None:
    card = RateCard.objects.get()
    olga_at.post(reverse("frontend:operator_rate_draft_open", args=[card.slug]))
    row = RateDraft.objects.get()
    line, publish = (
        reverse(f"frontend:operator_rate_draft_{name}", args=[row.pk]) for name in ("line", "publish")
    )
    page = olga_at.get(reverse("frontend:operator_rate_draft", args=[row.pk]))
    assert asks(page, line)
    assert asks(page, publish)
    assert ask(olga_at, line, TERMS) == ("", set())
    assert ask(olga_at, line, {**TERMS, "price": "3,4,5"})[1] == {"price"}
    assert ask(olga_at, line, {**TERMS, "what": "nothing"})[1] == {"what"}
    assert ask(olga_at, publish, {"when": "date", "valid_from": LATER}) == ("", set())
    why, red = ask(olga_at, publish, {"when": "date", "valid_from": PAST})
    assert red == {"valid_from"}
    assert "choose a start now or later" in why
    row.refresh_from_db()
    assert row.published is None


def test_a_warm_pool(olga_at: Client, as_olga: Actor, site: Site, other_project: Project) -> None:
    limits_give(other_project, {"gpu:h100-sxm-80gb": None})
    offered(as_olga, site)
    url = "/operator/cluster-templates/of/k8s/warm-pools/"
    assert asks(olga_at.get(url))
    assert ask(olga_at, url, POOL) == ("", set())
    why, red = ask(olga_at, url, {**POOL, "name": "No Name", "wanted": "101", "making_most": "many"})
    assert why
    assert red == {"making_most"}, "the service is asked once all can be read"
    assert ask(olga_at, url, {**POOL, "name": "No Name"})[1] == {"name"}
    assert ask(olga_at, url, {**POOL, "wanted": "101"})[1] == {"wanted"}
    assert not WarmPool.objects.exists()
    own = olga_at.post(url, {**POOL, "confirmed": "on"})["Location"]
    assert ask(olga_at, url, POOL)[1] == {"name"}, "the template has one of this name"
    assert asks(olga_at.get(own))
    assert ask(olga_at, own, {**POOL, "wanted": "-1", "version": "1"})[1] == {"wanted"}


def test_a_reservation(olga_at: Client, workspace: Workspace) -> None:
    FlavorFactory.create(pool=workspace.flavors.get().flavor.pool, slug="h100.own", price_class="reserved")
    url, asked = (
        reverse("frontend:operator_reservations"),
        {"flavor": "h100.own", "project": "weather-lm"},
    )
    assert asks(olga_at.get(url))
    assert ask(olga_at, url, asked) == ("", set())
    assert ask(olga_at, url, {**asked, "valid_from": LATER, "valid_to": PAST})[1]
    assert not PoolReservation.objects.exists()


def test_an_adoption(olga_at: Client, site: Site, project: Project) -> None:
    scan_at(site)
    url = f"{TAB}of/{OLD}/"
    assert asks(olga_at.get(url))
    assert ask(olga_at, url, ADOPTED) == ("", set())
    assert ask(olga_at, url, {**ADOPTED, "project": "nobody"})[1] == {"project"}
    assert not Adoption.objects.exists()


@pytest.mark.parametrize("name", ["grant_give", "payment_record"])
def test_money_of_an_organization(olga_at: Client, organization: Organization, name: str) -> None:
    url = reverse(f"frontend:operator_{name}", args=[organization.slug])
    assert asks(olga_at.get(reverse("frontend:operator_credits", args=[organization.slug])), url)
    asked = {"amount": "100", "expires_at": LATER}
    assert ask(olga_at, url, asked) == ("", set())
    assert ask(olga_at, url, {**asked, "amount": "much"})[1] == {"amount"}
    assert not LedgerEntry.objects.exists()


def test_a_correction_of_an_invoice(olga_at: Client, project: Project) -> None:
    row = invoice_make(project)
    note, off = (
        reverse(f"frontend:operator_invoice_{name}", args=[row.number]) for name in ("note", "write_off")
    )
    assert asks(olga_at.get(reverse("frontend:operator_invoice", args=[row.number])), note)
    form = {"note": "credit_note", "reason": "it was too much"}
    why, red = ask(olga_at, note, {**form, "line_1": "much"})
    assert why
    assert red == {"line_1"}
    assert ask(olga_at, off, {"reason": "lost", "amount": "much"})[1] == {"amount"}

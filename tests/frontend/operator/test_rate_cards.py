"""Pages of rate cards and billing accounts: what is wrong is said beside its field, who came second is told so."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import (
    BillingAccount,
    Discount,
    ProjectCostCenter,
    Rate,
    RateCard,
    RateCardVersion,
    RateDraft,
)
from billing.services import discount_give, rate_card_make, rate_draft_publish
from billing.services.payments import grant_give
from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.stage import utc
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in

pytestmark = pytest.mark.django_db
NEXT = "2199-01-01T00:00"
TERMS: dict[str, Any] = {
    "what": "h100.1",
    "meter": "gpu_held",
    "price": "3",
    "tier_mode": "volume",
    "from_1": "100",
    "costs_1": "2.5",
    "increment_seconds": "60",
    "minimum_seconds": "300",
    "surplus_percent": "100",
}


@pytest.fixture
def draft(workspace: Workspace, olga_at: Client) -> RateDraft:
    """Of the standard card, begun on its page."""
    card = RateCard.objects.get()
    olga_at.post(reverse("frontend:operator_rate_draft_open", args=[card.slug]))
    return RateDraft.objects.get()


def at(name: str, *args: object) -> str:
    return reverse(f"frontend:operator_rate_draft{name}", args=args)


def test_terms_are_set_shown_and_published(draft: RateDraft, olga_at: Client) -> None:
    assert olga_at.post(at("_line", draft.pk), TERMS).status_code == 302
    page = words(olga_at.get(at("", draft.pk)))
    for said in ("from 100 h €2.50 for the whole month", "in steps of 1 min", "at least 5 min", "changes"):
        assert said in page
    form = {"valid_from": NEXT, "note": "next"}
    assert olga_at.post(at("_publish", draft.pk), form).status_code == 302
    card = words(olga_at.get(reverse("frontend:operator_rate_card", args=["standard"])))
    assert "Version 2</a>, announced" in card
    assert "It was published as version 2 and never changes" in words(olga_at.get(at("", draft.pk)))
    newest = reverse("frontend:operator_rate_card", args=["standard"]) + "?version=2"
    assert "€3.00" in words(olga_at.get(newest))
    late = olga_at.post(at("_publish", draft.pk), form)
    assert late.status_code == 422
    assert RateCardVersion.objects.count() == 2
    for name in ("_discard", "_line"):
        olga_at.post(at(name, draft.pk), TERMS)
    assert RateDraft.objects.get().published is not None
    assert Rate.objects.filter(price_micro=3_000_000).count() == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"price": "-1"}, "A price must be between"),
        ({"price": ""}, "Enter a price"),
        ({"what": "nothing"}, "There is no such flavor"),
        ({"increment_seconds": "0"}, "An increment must be between"),
        ({"minimum_seconds": "x"}, "Enter a whole number."),
        ({"tier_mode": ""}, "Give the hours from which"),
        ({"from_2": "50", "costs_2": "1"}, "Tiers must start above 0 hours, each above the one before."),
        ({"costs_1": "cheap"}, "A price must be a decimal number"),
    ],
)
def test_terms_are_refused_beside_the_field(
    draft: RateDraft, olga_at: Client, change: dict[str, str], said: str
) -> None:
    refused = olga_at.post(at("_line", draft.pk), {**TERMS, **change})
    assert refused.status_code == 422
    assert said in words(refused)
    assert str(draft.lines.get(flavor__slug="h100.1").price) == "2.40"


def test_a_price_typed_into_the_table(draft: RateDraft, olga_at: Client) -> None:
    line = draft.lines.get(flavor__slug="h100.1")
    path = at("_price", draft.pk, line.pk)
    refused = olga_at.post(path, {"price": "2,40"}, headers={"HX-Request": "true"})
    assert (refused.status_code, 'aria-invalid="true"' in words(refused), "2,40" in words(refused)) == (
        422,
        True,
        True,
    )
    taken = olga_at.post(path, {"price": "2.5"}, headers={"HX-Request": "true"})
    assert taken.status_code == 200
    events = json.loads(taken["HX-Trigger"])
    assert "draft-changed" in events
    assert events["toast"]["title"] == "Draft price of h100.1: 2.50 EUR"
    assert olga_at.post(at("_line_remove", draft.pk, line.pk)).status_code == 302
    assert "Restore" in words(olga_at.get(at("", draft.pk)))
    assert olga_at.post(path, {"price": "2.5"}).status_code == 404
    assert olga_at.post(at("_discard", draft.pk)).status_code == 302
    assert not RateDraft.objects.exists()


def test_the_preview_is_a_list_that_the_page_fetches(draft: RateDraft, olga_at: Client) -> None:
    page = words(olga_at.get(at("", draft.pk), {"preview-sort": "-difference"}))
    assert 'hx-get="?preview-sort=-difference&amp;preview=1"' in page
    assert 'name="fingerprint"' not in page, "nothing is rated before it is asked for"
    refused = words(olga_at.post(at("_line", draft.pk), {**TERMS, "price": "-1"}))
    assert f'hx-get="{at("", draft.pk)}?preview=1"' in refused, "the address of the form only takes forms"


def test_who_publishes_what_somebody_changed_is_told(
    draft: RateDraft, olga_at: Client, as_olga: Actor
) -> None:
    seen = words(olga_at.get(at("", draft.pk), {"preview": 1})).partition('name="fingerprint" value="')[2][
        :16
    ]
    olga_at.post(at("_line", draft.pk), TERMS)
    refused = olga_at.post(at("_publish", draft.pk), {"valid_from": NEXT, "fingerprint": seen})
    assert (refused.status_code, "This draft has changed" in words(refused)) == (422, True)
    assert f'href="{at("", draft.pk)}">Read it again</a>' in words(refused), (
        "its own address only takes forms"
    )
    rate_draft_publish(actor=as_olga, draft=draft)
    refused = olga_at.post(at("_publish", draft.pk), {"valid_from": NEXT})
    assert (refused.status_code, RateCardVersion.objects.count()) == (422, 2)


def test_an_announced_version_is_withdrawn_and_one_that_has_begun_is_not(
    draft: RateDraft, olga_at: Client
) -> None:
    card = reverse("frontend:operator_rate_card", args=["standard"])
    olga_at.post(at("_publish", draft.pk), {"valid_from": NEXT})
    page = words(olga_at.get(card))
    assert page.count('data-dialog="withdraw"') == 1
    url = reverse("frontend:operator_rate_version_withdraw", args=["standard", 2])
    assert url in page
    assert olga_at.post(url)["Location"] == at("", draft.pk)
    assert "Version 2</a>" not in words(olga_at.get(card))
    begun = reverse("frontend:operator_rate_version_withdraw", args=["standard", 1])
    answer = olga_at.post(begun, follow=True)
    assert "Version 1 started at" in words(answer)
    assert 'data-dialog="withdraw"' not in words(answer)


def test_cards_are_made_and_nonsense_is_refused(olga_at: Client, workspace: Workspace) -> None:
    url = reverse("frontend:operator_rate_cards")
    for form, said in (
        ({"currency": "ABC"}, "Unknown currency"),
        ({"currency": ""}, "Enter a three-letter currency code."),
        ({"currency": "EUR", "organization": "nobody"}, "There is no such organization"),
    ):
        refused = olga_at.post(url, form)
        assert (refused.status_code, said in words(refused)) == (422, True)
    assert olga_at.post(url, {"currency": "jpy"}).status_code == 302
    assert "This card has no prices" in words(
        olga_at.get(reverse("frontend:operator_rate_card", args=["standard-jpy"]))
    )
    own = olga_at.post(reverse("frontend:operator_own_card", args=["climate"]))
    assert own["Location"].endswith("/own-climate-eur/")


def test_an_account_that_somebody_else_has_changed_is_read_again(olga_at: Client, project: Project) -> None:
    page = reverse("frontend:operator_billing", args=["climate"])
    account = reverse("frontend:operator_billing_account", args=["climate"])
    assert 'name="version" value="1"' in words(olga_at.get(page))
    form = {"currency": "EUR", "tax_rate": "19", "address": "Street 1", "version": "1"}
    assert olga_at.post(account, form).status_code == 302
    late = olga_at.post(account, {**form, "address": "Street 2"})
    assert late.status_code == 422
    assert "The account has changed since you read it; read it again" in words(late)
    assert f'href="{page}">Read it again' in words(late)
    assert "Street 2</textarea>" in words(late)
    assert BillingAccount.objects.get().address == "Street 1"


def test_an_account_a_cost_center_and_discounts(olga_at: Client, workspace: Workspace) -> None:
    page = reverse("frontend:operator_billing", args=["climate"])
    account = reverse("frontend:operator_billing_account", args=["climate"])
    form = {"currency": "usd", "tax_rate": "19", "tax_label": "VAT", "address": "Street 1"}
    for change, said in (
        ({"currency": "XAU"}, "Unknown currency"),
        ({"tax_rate": "101"}, "A tax rate must be between 0 and 100 percent"),
    ):
        refused = olga_at.post(account, {**form, **change})
        assert (refused.status_code, said in words(refused)) == (422, True)
    assert not BillingAccount.objects.exists()
    assert olga_at.post(account, form).status_code == 302
    assert (BillingAccount.objects.get().currency, "No standard card" in words(olga_at.get(page))) == (
        "USD",
        True,
    )

    centers = reverse("frontend:operator_cost_center", args=["climate"])
    assert olga_at.post(centers, {"project": "protein-fold", "cost_center": "1"}).status_code == 422
    assert olga_at.post(centers, {"project": "weather-lm", "cost_center": "4711"}).status_code == 302
    assert ProjectCostCenter.objects.get().code == "4711"

    give = reverse("frontend:operator_discount_give", args=["climate"])
    for change, said in (
        ({"percent": "0"}, "A discount must be above 0"),
        ({"percent": "5", "valid_from": "2020-01-01T00:00"}, "choose a start now or later"),
    ):
        refused = olga_at.post(give, change)
        assert (refused.status_code, said in words(refused)) == (422, True)
    assert olga_at.post(give, {"percent": "5", "flavor": "h100.1"}).status_code == 302
    assert olga_at.post(give, {"percent": "5", "flavor": "h100.1"}).status_code == 422
    stop = reverse("frontend:operator_discount_end", args=["climate", Discount.objects.get().pk])
    page = words(olga_at.get(reverse("frontend:operator_billing", args=["climate"])))
    assert page.count(f'action="{stop}"') == 1, "only the dialog does it"
    assert "End the discount of 5%?" in page.split(f'action="{stop}"')[1]
    assert olga_at.post(stop).status_code == 302
    assert olga_at.post(stop).status_code in {302, 404}


def test_a_tenant_sees_what_holds_what_comes_and_its_credits(
    draft: RateDraft, olga_at: Client, as_olga: Actor, alice: User, organization: Organization, h100: Flavor
) -> None:
    olga_at.post(at("_line", draft.pk), TERMS)
    olga_at.post(at("_publish", draft.pk), {"valid_from": NEXT})
    discount_give(actor=as_olga, organization=organization, percent="10", flavor=h100)
    grant_give(
        actor=as_olga,
        organization=organization,
        amount="500",
        expires_at=utc("2198-01-01"),
        gpu_types=["h100-sxm-80gb"],
        note="Research grant",
    )
    page = words(signed_in(alice).get(reverse("frontend:organization_prices", args=["climate"])))
    for said in (
        "€2.16",
        "10% discount included",
        "€2.70",
        "from 100 h €2.25",
        "€500.00",
        "Research grant",
        "H100",
    ):
        assert said in page, said
    rate_card_make(actor=as_olga, currency="EUR", organization=organization)
    assert "Prices and credits" in page

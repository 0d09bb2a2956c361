"""Tokens on pages: priced per million by operators, shown in millions to all, never in hours."""

import re
from datetime import date, timedelta
from urllib.parse import urlencode

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from billing.models import Invoice, Rate, RateDraft
from billing.pdf import invoice_html
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.metering.models import FinalMonth, Meter
from gpuaas.metering.services import tokens_sync
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import utc, workspace_make
from tests.environments.stage import row_in
from tests.frontend.markup import flat, words
from tests.frontend.operator.conftest import signed_in
from tests.lasting import lasting
from tests.metering.test_tokens import counted

pytestmark = pytest.mark.django_db

OCTOBER = date(2026, 10, 1)
SET = {"what": "tokens_in", "price": "0.60", "valid_from": "2026-01-01T00:00"}


@pytest.fixture
@lasting
def train(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
@lasting
def endpoint(train: Workspace) -> Environment:
    row = row_in(train, "chat")
    counted(row, OCTOBER, 1_580_000)
    tokens_sync()
    return row


@pytest.fixture
def alice_at(alice: User) -> Client:
    return signed_in(alice)


def test_a_price_is_set_per_million(olga_at: Client, db: None) -> None:
    page = reverse("frontend:operator_prices")
    assert "Tokens in, per million tokens" in words(olga_at.get(page))
    answer = olga_at.post(page, SET, follow=True)
    shown = words(answer)
    assert "The new price of Tokens in is 0.60 per million tokens." in shown
    assert "Tokens in<small>per million tokens</small>" in shown
    rate = Rate.objects.get()
    assert (rate.meter, rate.flavor, rate.price_micro) == (Meter.TOKENS_IN, None, 600_000)


@pytest.mark.parametrize(("final", "why"), [(True, "as they are final"), (False, "have this as free")])
def test_a_price_of_a_settled_month_is_refused_beside_its_start(
    olga_at: Client, endpoint: Environment, as_olga: Actor, final: bool, why: str
) -> None:
    month_close(as_olga, OCTOBER)
    if final:
        ends_at = utc("2026-10-31 23:00:00")
        FinalMonth.objects.create(month=OCTOBER, ends_at=ends_at, marked_at=ends_at, marked_by="olga")
    page = reverse("frontend:operator_prices")
    with time_machine.travel(utc("2026-11-25 12:00:00"), tick=False):
        olga_at.get("/operator/")
        refused = olga_at.post(page, {**SET, "valid_from": "2026-10-01T00:00"})
        assert refused.status_code == 422
        field = words(refused).split('name="valid_from"')[1].partition("</div>")[0]
        assert why in field
        assert "choose a start at Sun 1 Nov, 00:00, the beginning of November 2026, or later" in field
        assert not Rate.objects.exists()
        assert olga_at.post(page, {**SET, "valid_from": "2026-11-01T00:00"}).status_code == 302


def test_a_draft_has_tiers_of_millions_and_no_sessions(olga_at: Client, db: None) -> None:
    olga_at.post(reverse("frontend:operator_prices"), SET)
    olga_at.post(reverse("frontend:operator_rate_draft_open", args=["standard"]))
    draft = RateDraft.objects.get()
    page = reverse("frontend:operator_rate_draft", args=[draft.pk])
    assert "by the day" in words(olga_at.get(page))
    line = reverse("frontend:operator_rate_draft_line", args=[draft.pk])
    terms = {"what": "tokens_out", "meter": "gpu_held", "price": "1.80", "surplus_percent": "100"}
    terms |= {"increment_seconds": "1", "minimum_seconds": "0"}
    refused = olga_at.post(line, {**terms, "minimum_seconds": "60"})
    assert refused.status_code == 422
    assert "Tokens have no sessions" in words(refused)
    tiers = {"tier_mode": "graduated", "from_1": "100", "costs_1": "0.9"}
    assert olga_at.post(line, terms | tiers).status_code == 302
    assert "from 100 million tokens €0.90 for usage above it" in words(olga_at.get(page))


def test_every_page_counts_them_in_millions(
    olga_at: Client, alice_at: Client, endpoint: Environment, project: Project, as_olga: Actor
) -> None:
    olga_at.post(reverse("frontend:operator_prices"), SET)
    month_close(as_olga, OCTOBER)
    asked = "?" + urlencode({"month": "2026-10"})
    invoice = reverse("frontend:invoice", args=["climate", Invoice.objects.get().number])
    usage = reverse("frontend:usage", args=[project.slug])
    for client, url in (
        (alice_at, reverse("frontend:statement", args=[project.slug, "2026-10"])),
        (alice_at, f"{usage}{asked}&by=type"),
        (alice_at, invoice),
        (olga_at, reverse("frontend:operator_usage") + asked),
    ):
        shown = words(client.get(url))
        assert "Tokens in" in shown, url
        assert "1.5800" in shown, url
        assert "million tokens" in shown, url
        assert "1.58 h" not in shown, url
        assert "€0.95" in shown, url


def row_of(client: Client, url: str) -> str:
    """Its row of tokens in."""
    found = re.search(r'<th scope="row"[^>]*>Tokens in.*?</tr>', words(client.get(url)))
    assert found, url
    return found[0]


def test_tokens_without_a_price_are_free_and_included_in_nothing(
    olga_at: Client, alice_at: Client, endpoint: Environment, as_olga: Actor
) -> None:
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.select_related("organization").get()
    usage = reverse("frontend:operator_usage") + "?month=2026-10"
    for client, url in (
        (alice_at, reverse("frontend:invoice", args=["climate", invoice.number])),
        (olga_at, usage),
        (olga_at, reverse("frontend:operator_prices")),
    ):
        row = row_of(client, url)
        assert ">free<" in row, url
        assert "included" not in row, url
    page = flat(invoice_html(invoice=invoice))
    assert "Nothing is charged: all that was used is free or included in other prices." in page
    file = olga_at.get(f"{usage}&type-csv=1").getvalue().decode().splitlines()
    cells = dict(zip(file[0].split(","), file[1].split(","), strict=True))
    assert (cells["item"], cells["included"], cells["free"]) == ("Tokens in", "false", "true")


def test_intervals_show_a_day(alice_at: Client, endpoint: Environment, project: Project) -> None:
    page = reverse("frontend:intervals", args=[project.slug, endpoint.workspace_id])
    shown = words(alice_at.get(f"{page}?month=2026-10"))
    for said in ("chat", "Tokens in", "1.5800 million", "the whole day"):
        assert said in shown, said
    assert "5688" not in shown


def test_the_workspace_shows_what_they_have_cost(
    alice_at: Client, train: Workspace, project: Project, olga_at: Client
) -> None:
    olga_at.post(reverse("frontend:operator_prices"), SET)
    today = clock.billing_day(clock.now())
    counted(row_in(train, "chat"), today - timedelta(days=1), 5_000_000)
    tokens_sync()
    shown = words(alice_at.get(reverse("frontend:workspace", args=[project.slug, train.pk])))
    assert "as its model endpoints count them" in shown
    assert "€3.00" in shown


def test_a_tenant_sees_the_price_per_million_and_an_outsider_nothing(
    alice_at: Client, olga_at: Client, charlie: User, project: Project
) -> None:
    olga_at.post(reverse("frontend:operator_prices"), SET)
    page = reverse("frontend:organization_prices", args=[project.organization.slug])
    shown = words(alice_at.get(page))
    assert "tokens per million" in shown
    assert "Tokens in<small>per million tokens</small>" in shown
    assert signed_in(charlie).get(page).status_code == 404
    assert utc("2026-01-01") > Rate.objects.get().valid_from, "midnight of Berlin"

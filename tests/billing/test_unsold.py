"""GPUs that ran without being sold as a flavor get a price by the name by which their site counts them."""

import re
from datetime import date
from decimal import Decimal
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from billing.models import BillingAccount, Invoice, Rate
from billing.rating import LineStatus
from billing.selectors import burn_per_hour, prices_at, statement
from billing.selectors.sheets import price_sheet
from billing.services import LineTerms, rate_draft_line_set, rate_draft_open, rate_draft_publish, rate_set
from billing.states import CloseState
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.lasting import lasting

PCI, OTHER = "CUSTOM_PCI_10DE_25B7", "CUSTOM_PCI_10DE_25B6"
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
BEGIN = utc("2026-09-30 22:00:00")


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def ran(workspace: Workspace) -> Workspace:
    """One hour in use and two hours stopped, of a type that nobody sells; and an hour of another one."""
    for name, meter, hours in (
        (PCI, Meter.GPU_ALLOCATED, 1),
        (PCI, Meter.GPU_STOPPED, 2),
        (OTHER, Meter.GPU_ALLOCATED, 1),
    ):
        end = utc(f"2026-10-02 {10 + hours}:00:00")
        interval_make(workspace, None, utc("2026-10-02 10:00:00"), end, meter=meter, resource=name)
    return workspace


def lines(actor: Actor) -> dict[tuple[str, Meter], tuple[LineStatus, str]]:
    found = statement(actor=actor, month=OCTOBER, now=utc("2026-11-04"))
    return {(line.resource, line.meter): (line.status, str(line.amount)) for line in found.lines}


def price_all(actor: Actor) -> None:
    for name, meter, price in (
        (PCI, Meter.GPU_ALLOCATED, "0.60"),
        (PCI, Meter.GPU_STOPPED, "0.10"),
        (OTHER, Meter.GPU_ALLOCATED, "9"),
    ):
        rate_set(actor=actor, flavor=None, resource=name, meter=meter, price=price, valid_from=BEGIN)


def test_what_ran_is_priced_by_its_resource_and_the_close_goes_on(ran: Workspace, as_olga: Actor) -> None:
    assert month_close(as_olga, OCTOBER).state == CloseState.REFUSED
    rate_set(actor=as_olga, flavor=None, resource=PCI, meter="gpu_allocated", price="0.60", valid_from=BEGIN)
    assert lines(as_olga) == {
        (PCI, Meter.GPU_ALLOCATED): (LineStatus.BILLED, "0.60"),
        (PCI, Meter.GPU_STOPPED): (LineStatus.QUARANTINED, "None"),
        (OTHER, Meter.GPU_ALLOCATED): (LineStatus.QUARANTINED, "None"),
    }
    Rate.objects.all().delete()
    price_all(as_olga)
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    invoice = Invoice.objects.get()
    assert invoice.subtotal_minor == 60 + 20 + 900
    assert {(line.resource, line.flavor_id, line.amount_minor) for line in invoice.lines.all()} == {
        (PCI, None, 60),
        (PCI, None, 20),
        (OTHER, None, 900),
    }


def test_what_was_closed_without_a_price_is_billed_when_it_has_one(ran: Workspace, as_olga: Actor) -> None:
    assert month_close(as_olga, OCTOBER, accept="priced later").state == CloseState.CLOSED
    price_all(as_olga)
    assert month_close(as_olga, NOVEMBER).state == CloseState.CLOSED
    assert Invoice.objects.get(month=NOVEMBER).subtotal_minor == 980


def test_sessions_tiers_and_the_running_hour_count_too(ran: Workspace, as_olga: Actor) -> None:
    now = utc("2026-11-02 10:00:00")
    interval_make(ran, None, now, None, meter=Meter.GPU_ALLOCATED, quantity=2, resource=PCI)
    draft = rate_draft_open(actor=as_olga)
    terms = LineTerms(
        price="0.60", increment_seconds=7200, tier_mode="graduated", tiers=[(1, "0.30")], minimum_seconds=60
    )
    rate_draft_line_set(
        actor=as_olga, draft=draft, flavor=None, resource=PCI, meter="gpu_allocated", terms=terms
    )
    rate_draft_publish(actor=as_olga, draft=draft)
    Rate.objects.update(valid_from=BEGIN)
    sheet = statement(actor=as_olga, month=OCTOBER, now=utc("2026-11-04"))
    billed = [line for line in sheet.lines if line.resource == PCI and line.status is LineStatus.BILLED]
    assert {str(line.amount) for line in billed} == {"0.60", "0.30"}, "an hour became two, of two tiers"
    assert burn_per_hour(actor=as_olga) == Decimal("1.2")
    again = rate_draft_open(actor=as_olga)
    assert [(line.resource_name, line.tiers) for line in again.lines.all()] == [(PCI, [[1, 300_000]])]


def test_it_is_nobodys_offer(ran: Workspace, as_olga: Actor, as_alice: Actor) -> None:
    price_all(as_olga)
    assert not prices_at()
    assert not prices_at(organization=ran.project.organization)
    sheet = price_sheet(actor=as_alice, organization=ran.project.organization)
    assert all(row.now is None for row in sheet.rows)


@pytest.mark.parametrize(
    ("resource", "meter", "field"),
    [
        ("CUSTOM_PCI_NONE", "gpu_allocated", "resource"),
        (PCI, "gpu_shelved", "meter"),
        (PCI, "vcpu_held", "resource"),
        (PCI, "gpu_idle", "resource"),
        ("", "gpu_allocated", "flavor"),
    ],
)
def test_what_never_ran_has_no_price(
    ran: Workspace, as_olga: Actor, resource: str, meter: str, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        rate_set(actor=as_olga, flavor=None, resource=resource, meter=meter, price="1")
    assert list(refused.value.fields) == [field]
    assert not Rate.objects.exists()


def test_one_price_at_a_time_and_none_of_two_things(ran: Workspace, as_olga: Actor, h100: Flavor) -> None:
    with pytest.raises(Invalid):
        rate_set(actor=as_olga, flavor=h100, resource=PCI, meter="gpu_allocated", price="1")
    price_all(as_olga)
    rate = Rate.objects.get(resource_name=OTHER)
    for change in ({"pk": None}, {"flavor_id": h100.pk}):
        for name, value in change.items():
            setattr(rate, name, value)
        with pytest.raises(IntegrityError), transaction.atomic():
            rate.save(force_insert="pk" in change)
        rate = Rate.objects.get(resource_name=OTHER)


def test_the_link_that_says_so_leads_to_the_price(ran: Workspace, client: Client, olga: User) -> None:
    client.force_login(olga)
    checklist = client.get("/operator/closes/?month=2026-10").content.decode()
    assert "/operator/usage/?month=2026-10#unpriced" in checklist
    usage = client.get("/operator/usage/?month=2026-10").content.decode()
    asked = f"/operator/rates/prices/?what=resource%3A{PCI}&amp;meter=gpu_stopped&amp;from=2026-10"
    assert asked in usage
    page = client.get(asked.replace("&amp;", "&")).content.decode()
    assert f'<option value="resource:{PCI}" selected>' in page
    assert '<option value="gpu_stopped" selected>' in page
    assert 'value="2026-10-01T00:00' in page
    for name, meter in ((PCI, "gpu_stopped"), (PCI, "gpu_allocated"), (OTHER, "gpu_allocated")):
        form = {"what": f"resource:{name}", "meter": meter, "price": "1", "valid_from": "2026-10-01T00:00"}
        assert client.post("/operator/rates/prices/", form).status_code == 302
    assert 'id="unpriced"' not in client.get("/operator/usage/?month=2026-10").content.decode()
    assert "no usage is in quarantine" in client.get("/operator/closes/?month=2026-10").content.decode()
    assert PCI in client.get("/operator/rates/at/standard/").content.decode()


def test_the_link_prices_that_line_in_another_currency_too(
    ran: Workspace, client: Client, olga: User
) -> None:
    """On the standard card of the payer's currency, which the first price makes; the portal's is not touched."""
    BillingAccount.objects.create(organization=ran.project.organization, currency="KWD")
    client.force_login(olga)
    usage = client.get("/operator/usage/?month=2026-10").content.decode()
    links = re.findall(r'href="(/operator/rates/prices/[^"]*from=[^"]*)"', usage)
    assert len(links) == 3
    assert all("currency=KWD" in link for link in links)
    form: dict[str, str] = {}
    for link in links:
        page = client.get(unescape(link)).content.decode()
        assert "Standard, KWD" in page
        asked = dict(parse_qsl(urlsplit(unescape(link)).query))
        form = {**asked, "price": "0.125", "valid_from": "2026-10-01T00:00"}
        answer = client.post("/operator/rates/prices/", form)
        assert (answer.status_code, answer["Location"]) == (302, "/operator/rates/prices/?currency=KWD")
        assert "KWD 0.125" in client.get(answer["Location"]).content.decode()
        refused = client.post("/operator/rates/prices/", {**form, "currency": "XAU"})
        assert refused.status_code == 422
    assert set(Rate.objects.values_list("card__slug", "card__currency")) == {("standard-kwd", "KWD")}
    assert 'id="unpriced"' not in client.get("/operator/usage/?month=2026-10").content.decode()
    assert Rate.objects.count() == 3

"""Tokens of endpoints cost what a million of them costs: rated, invoiced, corrected and exported as all other usage."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from billing import pdf
from billing.exports import rows_csv, statement_csv
from billing.models import Budget, Discount, Invoice, Rate
from billing.months import month_span
from billing.rating import LineStatus
from billing.readings import reading_of
from billing.selectors import Statement, cost_by_day, statement
from billing.selectors.documents import invoice_rows
from billing.selectors.sheets import price_sheet
from billing.services import (
    LineTerms,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_set,
)
from billing.services.keeping import usage_keep
from billing.services.usage_write_offs import usage_write_off
from billing.states import CloseState
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid
from gpuaas.environments.models import Environment
from gpuaas.metering.models import Meter
from gpuaas.metering.services import tokens_sync
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.focus import arithmetic, exported
from tests.billing.stage import utc, workspace_make
from tests.environments.stage import row_in
from tests.lasting import lasting
from tests.metering.test_tokens import counted

pytestmark = pytest.mark.django_db

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
FIRST, SECOND = date(2026, 10, 1), date(2026, 10, 2)
LONG_AGO = utc("2026-01-01")
NOW = utc("2026-12-24 00:00:00")
MILLION = 1_000_000


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def endpoint(workspace: Workspace) -> Environment:
    """5688.88 units in, over two days, so 5688; 900 out."""
    row = row_in(workspace, "chat")
    counted(row, FIRST, 1_234_567, 250_000)
    counted(row, SECOND, 345_678)
    tokens_sync()
    return row


def priced(actor: Actor, price_in: str = "0.60", price_out: str = "1.80", since: datetime = LONG_AGO) -> None:
    rate_set(actor=actor, flavor=None, meter=Meter.TOKENS_IN, price=price_in, valid_from=since)
    rate_set(actor=actor, flavor=None, meter=Meter.TOKENS_OUT, price=price_out, valid_from=since)


def of(actor: Actor, project: Project, month: date = OCTOBER, now: datetime = NOW) -> Statement:
    return statement(actor=actor, project=project, month=month, now=now)


def test_a_month_with_tokens_is_rated_and_invoiced_exactly(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    """5688 × 600 000 / 3600 = 948 000 millionths, so 0.95; 900 × 1 800 000 / 3600 = 450 000, so 0.45."""
    priced(as_olga)
    lines = of(as_alice, project).lines
    assert [(each.meter, each.unit_seconds, each.amount) for each in lines] == [
        (Meter.TOKENS_IN, 5688, Decimal("0.95")),
        (Meter.TOKENS_OUT, 900, Decimal("0.45")),
    ]
    assert [each.unit_seconds * int((each.unit_price or 0) * MILLION) / 3600 for each in lines] == [
        948_000,
        450_000,
    ]
    days = cost_by_day(actor=as_alice, project=project, month=OCTOBER, now=NOW)
    assert {row.day: row.amount for row in days} == {FIRST: Decimal("1.19"), SECOND: Decimal("0.21")}
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    invoice = Invoice.objects.get()
    found = invoice.lines.order_by("position").values_list(
        "meter", "unit_seconds", "unit_price_micro", "amount_minor", "status"
    )
    assert list(found) == [
        ("tokens_in", 5688, 600_000, 95, "billed"),
        ("tokens_out", 900, 1_800_000, 45, "billed"),
    ]
    assert invoice.subtotal_minor == 140


def test_documents_and_files_count_in_millions(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    priced(as_olga)
    sheet = of(as_alice, project)
    month_close(as_olga, OCTOBER)
    invoice = Invoice.objects.select_related("organization").get()
    page = pdf.invoice_html(invoice=invoice)
    for said in ("Tokens in", "Tokens out", "1.5800", "0.2500", "million tokens", "0.95 EUR"):
        assert said in page, said
    assert " h<" not in page.split('class="lines"')[1]
    for file in (statement_csv(statement=sheet), rows_csv(invoice_rows(invoice=invoice))):
        first = "".join(file).splitlines()[1]
        assert first.endswith(",1.580000,million tokens"), first
    rows = exported(as_alice, OCTOBER, project.organization)
    tokens = [row for row in rows if row["ChargeCategory"] == "Usage"]
    assert (
        {row["ConsumedUnit"] for row in tokens}
        == {row["PricingUnit"] for row in tokens}
        == {"1000000 Tokens"}
    )
    millions = sum(Decimal(row["PricingQuantity"]) for row in tokens if row["SkuMeter"] == "Tokens in")
    assert round(millions, 9) == Decimal("1.58")
    assert {row["ServiceName"] for row in tokens} == {"Model endpoints"}
    assert sum(Decimal(row["BilledCost"]) for row in tokens) == Decimal("1.40")
    assert arithmetic(rows) == []


def test_without_a_price_tokens_are_free(
    endpoint: Environment, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    sheet = of(as_alice, project)
    assert {line.status for line in sheet.lines} == {LineStatus.INCLUDED}
    assert sheet.total == 0
    assert not list(sheet.quarantined)
    assert month_close(as_olga, OCTOBER).state == CloseState.CLOSED
    rows = exported(as_alice, OCTOBER, project.organization)
    assert {row["ChargeDescription"] for row in rows} == {
        "Tokens in of model endpoints, free",
        "Tokens out of model endpoints, free",
    }


def test_there_is_nothing_to_write_off_of_what_is_free(endpoint: Environment, as_olga: Actor) -> None:
    with pytest.raises(Invalid) as refused:
        usage_write_off(actor=as_olga, month=OCTOBER, meter="tokens_in", reason="a gift")
    assert refused.value.fields == {
        "meter": ["Tokens in without a price are free; there is nothing to write off"]
    }


def test_a_day_has_the_price_of_its_beginning(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    """From noon of the first on; the day before it and all of that day cost nothing."""
    priced(as_olga, since=utc("2026-10-01 10:00:00"))
    charged = [line.unit_seconds for line in of(as_alice, project).lines if line.status is LineStatus.BILLED]
    assert charged == [1244]
    with pytest.raises(Invalid, match="already rated"):
        priced(as_olga, since=month_span(OCTOBER).starts_at)


def test_the_first_price_may_begin_at_the_midnight_before(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    priced(as_olga, since=utc("2026-10-02 10:00:00"))  # nothing was counted since then
    assert of(as_alice, project).total == 0
    priced(as_olga, since=month_span(OCTOBER).starts_at)
    assert of(as_alice, project).total == Decimal("1.40")


def test_tokens_that_come_late_are_on_the_next_invoice(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    priced(as_olga)
    month_close(as_olga, OCTOBER)
    hashed = Invoice.objects.get().content_hash
    counted(endpoint, date(2026, 10, 31), 10 * MILLION)
    counted(endpoint, NOVEMBER, MILLION)
    assert tokens_sync() == 2
    assert of(as_alice, project).total == Decimal("7.40")
    assert Invoice.objects.get().content_hash == hashed
    month_close(as_olga, NOVEMBER)
    late = Invoice.objects.get(month=NOVEMBER)
    found = late.lines.order_by("charge_month").values_list(
        "charge_month", "meter", "unit_seconds", "amount_minor"
    )
    assert list(found) == [(OCTOBER, "tokens_in", 36_000, 600), (NOVEMBER, "tokens_in", 3600, 60)]
    assert Invoice.objects.get(month=OCTOBER).content_hash == hashed
    assert tokens_sync() == 0


def test_what_is_kept_follows_tokens_that_come_late(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    priced(as_olga)
    usage_keep(now=NOW)
    assert of(as_alice, project).total == Decimal("1.40")
    counted(endpoint, SECOND, 10 * MILLION)
    tokens_sync()
    assert of(as_alice, project).total == Decimal("7.40")
    usage_keep(now=NOW)
    assert of(as_alice, project).total == Decimal("7.40")


def test_tiers_begin_at_millions(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    """The first million at 0.60; 0.58 million at 0.30: 0.60 + 0.174."""
    draft = rate_draft_open(actor=as_olga)
    terms = LineTerms(price="0.60", tier_mode="graduated", tiers=[(1, "0.30")])
    rate_draft_line_set(actor=as_olga, draft=draft, flavor=None, meter="tokens_in", terms=terms)
    rate_draft_publish(actor=as_olga, draft=draft)
    Rate.objects.update(valid_from=LONG_AGO)
    lines = [line for line in of(as_alice, project).lines if line.meter is Meter.TOKENS_IN]
    assert sorted((line.unit_seconds, line.amount) for line in lines) == [
        (2088, Decimal("0.17")),
        (3600, Decimal("0.60")),
    ]


def test_a_discount_lowers_them_and_the_price_list_has_them(
    endpoint: Environment, project: Project, as_olga: Actor, as_alice: Actor
) -> None:
    priced(as_olga)
    Discount.objects.create(
        organization=project.organization, basis_points=5000, valid_from=LONG_AGO, created_by="olga"
    )
    assert [line.amount for line in of(as_alice, project).lines] == [Decimal("0.47"), Decimal("0.23")]
    rows = price_sheet(actor=as_alice, organization=project.organization).rows
    found = {row.meter: row.now.price for row in rows if row.now}
    assert found == {Meter.TOKENS_IN: Decimal("0.30"), Meter.TOKENS_OUT: Decimal("0.90")}


def test_budgets_count_them(endpoint: Environment, project: Project, as_olga: Actor) -> None:
    priced(as_olga)
    budget = Budget.objects.create(
        organization=project.organization,
        project=project,
        name="tokens",
        measure="money",
        amount=100_00,
        period="month",
        created_by="alice",
        created_at=LONG_AGO,
    )
    reading = reading_of(budget, now=utc("2026-10-20 00:00:00"))
    assert reading is not None
    assert (reading.spent, reading.forecast) == (140, 140)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        (LineTerms(price="1", increment_seconds=60), "increment_seconds"),
        (LineTerms(price="1", minimum_seconds=60), "minimum_seconds"),
    ],
)
def test_tokens_have_no_sessions(as_olga: Actor, terms: LineTerms, field: str) -> None:
    with pytest.raises(Invalid, match="no sessions") as refused:
        rate_draft_line_set(
            actor=as_olga, draft=rate_draft_open(actor=as_olga), flavor=None, meter="tokens_out", terms=terms
        )
    assert list(refused.value.fields) == [field]


def test_a_price_of_tokens_is_of_all_endpoints(as_olga: Actor, h100: Flavor) -> None:
    with pytest.raises(Invalid) as refused:
        rate_set(actor=as_olga, flavor=h100, meter=Meter.TOKENS_IN, price="1")
    assert list(refused.value.fields) == ["flavor"]
    with pytest.raises(Invalid) as refused:
        rate_set(actor=as_olga, flavor=None, resource="chat", meter=Meter.TOKENS_IN, price="1")
    assert list(refused.value.fields) == ["resource"]

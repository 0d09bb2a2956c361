"""The statement of docs/reconciliation.md, exactly as it stands there: silent about what is right, loud about what is broken."""

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from billing.focus import COLUMNS, charges_of, focus_csv, focus_rows
from billing.models import BillingAccount, InvoiceLine
from billing.money import EXPONENTS, currency_parse
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import UsageInterval
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.credited import november_credited, tiered_make
from tests.billing.focus import NOVEMBER, OCTOBER, close, months_stage
from tests.billing.stage import interval_make, rate_make, utc, workspace_make

pytestmark = pytest.mark.django_db
DOCUMENT = (Path(settings.BASE_DIR) / "docs" / "reconciliation.md").read_text("utf-8")
(SQL,) = re.findall(r"```sql\n(.*?);\n```", DOCUMENT, re.DOTALL)
Finding = tuple[str, str, Decimal | None, Decimal | None]


@pytest.fixture
def staged(
    monkeypatch: pytest.MonkeyPatch, project: Project, h100: Flavor, l40s: Flavor, alice: User, as_olga: Actor
) -> Project:
    """Usage, taxes, a price change, notes, and late usage of October on November's invoice."""
    monkeypatch.setattr(clock, "now", lambda: utc("2026-12-20 12:00:00"))
    months_stage(project, h100, l40s, alice, as_olga)
    return project


def reconciled(actor: Actor, month: date = OCTOBER, *, breaking: str = "") -> list[Finding]:
    columns = ", ".join(f'"{column.name}" text' for column in COLUMNS)
    file = b"".join(focus_csv(focus_rows(charges_of(actor=actor, month=month, organization=None))))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS pg_temp.focus; CREATE TEMPORARY TABLE focus ({columns})")
        with cursor.copy("COPY focus FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write(file)
        if breaking:
            cursor.execute(breaking)
            assert cursor.rowcount > 0
        cursor.execute(SQL.replace("2026-10-01", f"{month:%Y-%m-%d}"))
        found: list[Finding] = cursor.fetchall()
    return found


@pytest.mark.parametrize("month", [OCTOBER, NOVEMBER, date(2026, 12, 1)], ids=str)
def test_nothing_differs(staged: Project, as_olga: Actor, month: date) -> None:
    """December is not closed: its file has the notes that were written in it, and its usage is on no invoice yet."""
    found = reconciled(as_olga, month)
    running = month > NOVEMBER
    assert {what for what, _, _, _ in found} == ({"intervals, lines: unit-seconds"} if running else set())
    assert all(charged == 0 for _, _, _, charged in found)


@pytest.mark.parametrize(
    ("breaking", "told"),
    [
        (
            (
                "UPDATE metering_usageinterval SET ended_at = ended_at + interval '1 second' "
                "WHERE meter = 'gpu_held' AND ended_at < '2026-10-31'"
            ),
            {"intervals, lines: unit-seconds"},
        ),
        (
            "UPDATE billing_invoiceline SET unit_seconds = unit_seconds + 1 WHERE meter = 'vcpu_held'",
            {"intervals, lines: unit-seconds", "lines, FOCUS: unit-seconds"},
        ),
        (
            (
                "UPDATE billing_invoiceline SET amount_minor = amount_minor + 1 WHERE id = "
                "(SELECT l.id FROM billing_invoiceline l JOIN billing_invoice i ON i.id = l.invoice_id "
                "WHERE i.month = '2026-10-01' AND i.kind = 'invoice' AND l.meter = 'storage_held')"
            ),
            {"unit-seconds × price, lines", "shares, line", "lines, net", "lines, FOCUS: money"},
        ),
        (
            (
                "UPDATE billing_invoiceshare SET amount_minor = amount_minor - 1 WHERE id = "
                "(SELECT min(s.id) FROM billing_invoiceshare s JOIN billing_invoiceline l ON l.id = s.line_id "
                "WHERE l.charge_month = '2026-10-01' AND l.status = 'billed')"
            ),
            {"shares, line"},
        ),
        (
            (
                "UPDATE billing_invoice SET tax_minor = tax_minor + 1, total_minor = total_minor + 1 "
                "WHERE month = '2026-10-01' AND kind = 'invoice'"
            ),
            {"tax of an invoice and its notes", "total, ledger", "lines, FOCUS: money"},
        ),
        (
            "UPDATE billing_ledgerposting SET amount_minor = amount_minor + 1 WHERE account = 'receivable' AND amount_minor > 0",
            {"total, ledger"},
        ),
        (
            'DELETE FROM focus WHERE ctid = (SELECT min(ctid) FROM focus WHERE "BilledCost"::numeric > 0)',
            {"lines, FOCUS: money", "lines, FOCUS: unit-seconds"},
        ),
        ("INSERT INTO focus SELECT * FROM focus WHERE \"ChargeCategory\" = 'Tax'", {"lines, FOCUS: money"}),
    ],
)
def test_a_broken_row_is_found(staged: Project, as_olga: Actor, breaking: str, told: set[str]) -> None:
    """The database itself refuses such changes; here its triggers are put aside."""
    with connection.cursor() as cursor:
        for table in ("invoice", "invoiceline", "invoiceshare", "ledgerposting"):
            cursor.execute(f"SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE billing_{table} DISABLE TRIGGER USER")
    assert {what for what, _, _, _ in reconciled(as_olga, breaking=breaking)} == told


def test_a_broken_note_is_found_in_the_month_it_was_written_in(staged: Project, as_olga: Actor) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE billing_invoiceline DISABLE TRIGGER USER")
    breaking = (
        "UPDATE billing_invoiceline SET amount_minor = amount_minor - 1 WHERE invoice_id IN "
        "(SELECT id FROM billing_invoice WHERE kind = 'credit_note')"
    )
    found = reconciled(as_olga, date(2026, 12, 1), breaking=breaking)
    assert {what for what, _, _, _ in found} >= {"lines, net", "lines, FOCUS: money"}


def test_late_usage_waits_for_the_next_close(staged: Project, l40s: Flavor, as_olga: Actor) -> None:
    workspace = UsageInterval.objects.earliest("started_at").workspace
    assert workspace is not None
    interval_make(workspace, l40s, utc("2026-10-20"), utc("2026-10-20 00:00:07"), quantity=3)
    (found,) = reconciled(as_olga)
    assert (found[0], found[2] - found[3]) == ("intervals, lines: unit-seconds", 21)  # type: ignore[operator]
    close(as_olga, date(2026, 12, 1))
    assert reconciled(as_olga) == reconciled(as_olga, date(2026, 12, 1)) == []


def test_a_month_below_zero_is_in_it(
    monkeypatch: pytest.MonkeyPatch, project: Project, h100: Flavor, alice: User, as_olga: Actor
) -> None:
    """Its document is a credit note, and charges usage as an invoice does."""
    monkeypatch.setattr(clock, "now", lambda: utc("2026-12-20 12:00:00"))
    november_credited(as_olga, tiered_make(project, h100, alice), h100)
    assert reconciled(as_olga) == reconciled(as_olga, NOVEMBER) == []


@pytest.mark.parametrize("currency", ["JPY", "KWD", "CLF"])
def test_other_minor_units(
    monkeypatch: pytest.MonkeyPatch,
    project: Project,
    h100: Flavor,
    alice: User,
    as_olga: Actor,
    currency: str,
) -> None:
    from billing.models import RateCard

    monkeypatch.setattr(clock, "now", lambda: utc("2026-12-20 12:00:00"))
    card = RateCard.objects.create(slug=currency.lower(), name=currency, currency=currency)
    rate_make(card, h100, 2_399_999, utc("2026-01-01"))
    BillingAccount.objects.create(
        organization=project.organization, currency=currency, tax_rate_bp=1900, tax_label="VAT"
    )
    workspace = workspace_make(project, h100, alice)
    interval_make(workspace, h100, utc("2026-10-30 20:00:01"), utc("2026-10-31 20:00:00"), quantity=7)
    close(as_olga, OCTOBER)
    assert InvoiceLine.objects.get().amount_minor
    assert reconciled(as_olga) == []


def test_the_minor_units_of_the_statement_are_those_of_the_portal() -> None:
    said = {
        code: int(places)
        for codes, places in re.findall(r"string_to_array\('([A-Z ]+)', ' '\)\), (\d)", SQL)
        for code in codes.split()
    }
    assert said == EXPONENTS
    assert all(currency_parse(code) for code in said)

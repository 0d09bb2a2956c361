"""FOCUS: every cent of every document once, exact, in CSV and in Parquet; nothing of anybody else's."""

import io
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from billing.focus import COLUMNS, charges_of, focus_csv, focus_parquet, focus_rows
from billing.focus.charges import Charge
from billing.models import BillingAccount, Invoice, InvoiceLine, Rate, RateCard
from billing.money import amount_of
from billing.selectors import statement
from billing.services import rate_set
from billing.services.notes import note_issue
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.metering.models import Meter, UsageInterval
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.focus import DECEMBER, NOVEMBER, OCTOBER, arithmetic, close, exported, months_stage
from tests.billing.stage import interval_make, rate_make, utc, workspace_make

pytestmark = pytest.mark.django_db
NOW = utc("2026-12-20 12:00:00")
MONTHS = (OCTOBER, NOVEMBER, DECEMBER)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


@pytest.fixture
def staged(now: None, project: Project, h100: Flavor, l40s: Flavor, alice: User, as_olga: Actor) -> Project:
    months_stage(project, h100, l40s, alice, as_olga)
    return project


def test_every_document_is_exported_to_the_cent(staged: Project, as_alice: Actor) -> None:
    records = [row for month in MONTHS for row in exported(as_alice, month, staged.organization)]
    documents = list(Invoice.objects.all())
    assert {row.kind for row in documents} == {"invoice", "credit_note", "debit_note"}
    for invoice in documents:
        rows = [row for row in records if row["InvoiceId"] == invoice.number]
        billed = {True: Decimal(0), False: Decimal(0)}
        for row in rows:
            billed[row["ChargeCategory"] == "Tax"] += Decimal(row["BilledCost"])
        assert billed[False] == amount_of(invoice.subtotal_minor, "EUR")
        assert billed[True] == amount_of(invoice.tax_minor, "EUR")
    for line in InvoiceLine.objects.exclude(status="quarantined"):
        shares = [row for row in records if row["x_InvoiceLineId"] == str(line.pk)]
        assert sum(Decimal(row["BilledCost"]) for row in shares) == amount_of(line.amount_minor or 0, "EUR")
        assert sum(Decimal(row["x_UnitSeconds"] or 0) for row in shares) == line.unit_seconds


def test_the_arithmetic_holds(staged: Project, as_alice: Actor) -> None:
    for month in MONTHS:
        records = exported(as_alice, month, staged.organization)
        assert records
        assert arithmetic(records) == []


@pytest.mark.parametrize(("currency", "places"), [("JPY", 0), ("EUR", 2), ("KWD", 3), ("CLF", 4)])
def test_the_arithmetic_holds_in_every_minor_unit(
    now: None, project: Project, h100: Flavor, alice: User, as_olga: Actor, currency: str, places: int
) -> None:
    """Usage, a tax, late usage and a credit note: rows are in whole minor units and add up to the documents."""
    card = RateCard.objects.create(slug="own", name="Own", currency=currency)
    rate_make(card, h100, 2_399_999, utc("2026-01-01"))
    BillingAccount.objects.create(
        organization=project.organization, currency=currency, tax_rate_bp=1900, tax_label="VAT"
    )
    rows = [workspace_make(project, h100, alice, name=name) for name in ("one", "two", "three")]
    for number, row in enumerate(rows, start=1):
        begins = utc("2026-10-30 22:59:59")
        interval_make(row, h100, begins, begins + timedelta(seconds=12_347 * number), quantity=number)
    close(as_olga, OCTOBER)
    interval_make(rows[0], h100, utc("2026-10-07"), utc("2026-10-07 05:00:01"))
    close(as_olga, NOVEMBER)
    invoice = Invoice.objects.get(month=OCTOBER)
    given = amount_of(7, currency)
    note_issue(
        actor=as_olga, invoice=invoice, kind=InvoiceKind.CREDIT_NOTE, amounts={1: str(given)}, reason="agreed"
    )
    for month in MONTHS:
        assert arithmetic(exported(as_olga, month, None)) == []
    records = [row for month in MONTHS for row in exported(as_olga, month, None)]
    assert {row["BillingCurrency"] for row in records} == {currency}
    assert max(-_exponent(Decimal(row["BilledCost"]).normalize()) for row in records) == places
    for document in Invoice.objects.all():
        billed = sum(Decimal(row["BilledCost"]) for row in records if row["InvoiceId"] == document.number)
        assert billed == amount_of(document.total_minor, currency) != 0


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def test_the_arithmetic_sees_what_is_wrong(staged: Project, as_alice: Actor) -> None:
    records = exported(as_alice, OCTOBER, staged.organization)
    row = next(row for row in records if row["PricingQuantity"] and Decimal(row["BilledCost"]) % 1)
    assert arithmetic([row]) == []
    for column, wrong in (
        ("BilledCost", "0.001"),
        ("EffectiveCost", "9"),
        ("ListCost", "9"),
        ("x_UnitSeconds", "1"),
        ("ChargePeriodStart", "2026-10-01T00:00:00"),
        ("ChargePeriodEnd", "2026-12-01T00:00:00Z"),
        ("BillingCurrency", "JPY"),
    ):
        assert arithmetic([{**row, column: wrong}])


def test_late_usage_and_notes_are_corrections(staged: Project, as_alice: Actor) -> None:
    late = [row for row in exported(as_alice, NOVEMBER, staged.organization) if row["ChargeClass"]]
    assert {(row["ChargeClass"], row["ChargeCategory"], row["SkuId"]) for row in late} == {
        ("Correction", "Usage", "l40s.1/gpu_held")
    }
    notes = [row for row in exported(as_alice, DECEMBER, staged.organization) if row["ChargeClass"]]
    amounts = {(row["ChargeCategory"], row["BilledCost"]) for row in notes if row["ChargeCategory"] != "Tax"}
    assert amounts == {("Credit", "-1.50"), ("Adjustment", "0.07")}
    october = Invoice.objects.get(month=OCTOBER, kind="invoice").number
    assert {row["x_CorrectsInvoiceId"] for row in notes} == {october}


def test_the_running_month_is_what_its_statement_says(staged: Project, as_alice: Actor) -> None:
    records = exported(as_alice, DECEMBER, staged.organization)
    running = [row for row in records if row["InvoiceId"] == "DRAFT-2026-12-climate"]
    found = statement(actor=as_alice, organization=staged.organization, month=DECEMBER, now=NOW)
    assert sum(Decimal(row["BilledCost"]) for row in running) == found.total > 0
    assert {row["RegionId"] for row in running} == {"ber-1"}
    assert {row["Tags"] for row in running} == {'{"gpuaas/cost_center": "4711"}'}


def test_a_month_that_closes_while_it_is_exported_is_in_the_file_once(
    staged: Project, as_alice: Actor, as_olga: Actor
) -> None:
    """Notes come first. The file that has begun before the close goes on as one of a month that runs."""
    expected = list(charges_of(actor=as_alice, month=DECEMBER, organization=staged.organization))
    rows = charges_of(actor=as_alice, month=DECEMBER, organization=staged.organization)
    found = [next(rows)]
    assert found[0].kind == "credit_note"
    close(as_olga, DECEMBER)
    found += rows
    assert sum(row.minor for row in found) == sum(row.minor for row in expected)
    assert [row.number for row in found] == [row.number for row in expected]


def test_parquet_says_what_csv_says(staged: Project, as_alice: Actor) -> None:
    def rows() -> Iterator[Any]:
        return focus_rows(charges_of(actor=as_alice, month=NOVEMBER, organization=staged.organization))

    table = pq.read_table(io.BytesIO(b"".join(focus_parquet(rows()))))
    assert table.column_names == [column.name for column in COLUMNS]
    assert str(table.schema.field("BilledCost").type) == "decimal128(38, 18)"
    assert str(table.schema.field("ChargePeriodStart").type) == "timestamp[ms, tz=UTC]"
    exact = [dict(zip(table.column_names, row, strict=True)) for row in rows()]
    assert table.to_pylist() == exact


def test_who_may_export(
    staged: Project, other_project: Project, as_charlie: Actor, as_bob: Actor, as_olga: Actor
) -> None:
    with pytest.raises(NotFound):
        exported(as_charlie, OCTOBER, staged.organization)
    with pytest.raises(NotFound):
        exported(as_charlie, OCTOBER, None)
    with pytest.raises((Forbidden, NotFound)):
        exported(as_bob, OCTOBER, staged.organization)
    assert exported(as_olga, OCTOBER, None) == exported(as_olga, OCTOBER, staged.organization)
    assert exported(as_olga, OCTOBER, other_project.organization) == []


def test_memory_does_not_grow_with_the_rows() -> None:
    """Three times the rows through both writers; what is held at once stays about the same."""
    charge = Charge(
        *(
            "running",
            None,
            OCTOBER,
            "climate",
            "Climate",
            "EUR",
            OCTOBER,
            OCTOBER,
            "p",
            "P",
            "",
            None,
            None,
            False,
        ),
        *(None, None, "h100.1", "H100", "h100", "", "gpu_held", "on_demand", "billed", False, False),
        *(2_400_000, 3600, 240, None, None, "", None),
    )

    def peak(count: int, write: object) -> int:
        tracemalloc.start()
        for _ in write(focus_rows(charge for _ in range(count))):  # type: ignore[operator]
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    for write in (focus_csv, focus_parquet):
        assert peak(40_000, write) < 1.7 * peak(12_000, write)


used = st.lists(
    st.tuples(st.integers(0, 40 * 24 * 3600), st.integers(1, 90_000), st.integers(1, 9), st.integers(0, 1)),
    min_size=1,
    max_size=6,
)


@given(usage=used, micro=st.integers(0, 9_999_999))
@hypothesis_settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_add_up_to_lines_whatever_was_used(
    project: Project,
    h100: Flavor,
    alice: User,
    as_alice: Actor,
    as_olga: Actor,
    usage: list[tuple[int, int, int, int]],
    micro: int,
) -> None:
    """FOCUS sum = lines = subtotal, in months of a live rating with random intervals and prices."""
    UsageInterval.objects.all().delete()
    Rate.objects.all().delete()
    price = Decimal(micro).scaleb(-6)
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price=price, valid_from=utc("2025-01-01"))
    names = ("one", "two")
    rows = [
        project.workspaces.filter(name=name).first() or workspace_make(project, h100, alice, name=name)
        for name in names
    ]
    for start, lasts, quantity, who in usage:
        begins = utc("2026-05-10") + timedelta(seconds=start)
        interval_make(rows[who], h100, begins, begins + timedelta(seconds=lasts), quantity=quantity)
    for month in (OCTOBER.replace(month=5), OCTOBER.replace(month=6)):
        records = exported(as_alice, month, project.organization)
        assert arithmetic(records) == []
        found = statement(actor=as_alice, organization=project.organization, month=month)
        assert sum((Decimal(row["BilledCost"]) for row in records), Decimal(0)) == found.total
        assert sum(int(row["x_UnitSeconds"]) for row in records) == found.gpu_seconds

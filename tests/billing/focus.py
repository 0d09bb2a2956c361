"""Our own arithmetic of a FOCUS file: what the official validator does not check. And months worth exporting."""

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal

from billing.focus import charges_of, focus_csv, focus_rows
from billing.models import BillingAccount, Invoice
from billing.money import amount_of
from billing.services import cost_center_set, rate_set
from billing.services.notes import note_issue
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Organization, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import cluster_make, interval_make, utc, workspace_make

OCTOBER, NOVEMBER, DECEMBER = date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1)
Record = Mapping[str, str]


def months_stage(project: Project, h100: Flavor, l40s: Flavor, user: User, olga: Actor) -> list[Workspace]:
    """October and November closed, with taxes, a price change, usage that came late, a credit and a debit note, something
    that is included, something that has no price; December runs.
    """
    for flavor, price in ((h100, "2.399999"), (l40s, "0.9")):
        rate_set(actor=olga, flavor=flavor, meter=Meter.GPU_HELD, price=price, valid_from=utc("2026-01-01"))
    rate_set(
        actor=olga, flavor=None, meter=Meter.STORAGE_HELD, price="0.000137", valid_from=utc("2026-01-01")
    )
    BillingAccount.objects.create(
        organization=project.organization, currency="EUR", tax_rate_bp=1900, tax_label="VAT"
    )
    cost_center_set(actor=olga, project=project, code="4711")
    first, second = (workspace_make(project, h100, user, name=name) for name in ("train", "tune"))
    used = ((first, 61), (second, 100_003), (cluster_make(project, h100, user), 7_777))
    for row, seconds in used:
        for start in (utc("2026-10-31 20:00:01"), utc("2026-11-20 07:00:00")):
            interval_make(row, h100, start, start + timedelta(seconds=seconds))
        interval_make(
            row, None, utc("2026-10-30"), utc("2026-12-02 01:02:03"), meter=Meter.STORAGE_HELD, quantity=100
        )
    interval_make(first, None, utc("2026-10-15"), utc("2026-10-16"), quantity=16, meter=Meter.VCPU_HELD)
    close(olga, OCTOBER)
    interval_make(second, l40s, utc("2026-10-10"), utc("2026-10-10 00:59:59"), quantity=3)  # it came late
    close(olga, NOVEMBER)
    october = Invoice.objects.get(month=OCTOBER, kind=InvoiceKind.INVOICE)
    line = october.lines.filter(meter=Meter.GPU_HELD).order_by("position")[0].position
    for kind, amount in ((InvoiceKind.CREDIT_NOTE, "1.50"), (InvoiceKind.DEBIT_NOTE, "0.07")):
        note_issue(
            actor=olga,
            invoice=october,
            kind=kind,
            amounts={line: amount},
            reason="agreed",
        )
    interval_make(first, h100, utc("2026-12-05"), utc("2026-12-05 10:00:00"))
    return [first, second]


def close(olga: Actor, month: date) -> None:
    month_close(olga, month, accept="usage without a price is known")


def exported(actor: Actor, month: date, organization: Organization | None) -> list[Record]:
    rows = focus_rows(charges_of(actor=actor, month=month, organization=organization))
    text = b"".join(focus_csv(rows)).decode()
    return list(csv.DictReader(io.StringIO(text)))


def arithmetic(records: Iterable[Record]) -> list[str]:
    """What is wrong, in words: cost = price × quantity, UTC, periods inside each other, amounts in whole minor units of their currency."""
    wrong = []
    for number, row in enumerate(records, start=2):
        moments = {name: row[name] for name in row if name.endswith(("PeriodStart", "PeriodEnd"))}
        wrong += [
            f"{number}: {name} {text} is not UTC" for name, text in moments.items() if not text.endswith("Z")
        ]
        times = {name: datetime.fromisoformat(text.rstrip("Z")) for name, text in moments.items()}
        if times["ChargePeriodStart"] >= times["ChargePeriodEnd"]:
            wrong.append(f"{number}: the charge period ends before it begins")
        inside = (
            times["BillingPeriodStart"] <= times["ChargePeriodStart"]
            and times["ChargePeriodEnd"] <= times["BillingPeriodEnd"]
        )
        earlier = times["ChargePeriodEnd"] <= times["BillingPeriodStart"]
        if not (earlier if row["ChargeClass"] == "Correction" else inside):
            wrong.append(f"{number}: the charge period does not fit the billing period")
        wrong += [f"{number}: {text}" for text in _money(row)]
    return wrong


def _money(row: Record) -> list[str]:
    wrong = []
    billed = Decimal(row["BilledCost"])
    unit = amount_of(1, row["BillingCurrency"])
    # a correction is the difference of two amounts that were rounded and shared out each by itself
    most = 2 * unit if row["ChargeClass"] else unit
    if billed % unit:
        wrong.append("BilledCost has parts of the smallest coin")
    if Decimal(row["EffectiveCost"]) != billed:
        wrong.append("EffectiveCost is not what is billed")
    for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
        exact = Decimal(row[price]) * Decimal(row["PricingQuantity"]) if row[price] else billed
        if Decimal(row[cost]) != exact:
            wrong.append(f"{cost} is not price × quantity")
        if abs(Decimal(row[cost]) - billed) >= most:
            wrong.append(f"{cost} is the smallest coin or more from what is billed")
    if row["x_UnitSeconds"] and round(Decimal(row["PricingQuantity"]) * 3600) != int(row["x_UnitSeconds"]):
        wrong.append("the quantity is not the seconds")
    return wrong

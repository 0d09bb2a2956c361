"""One FOCUS row from one charge. Columns of FOCUS 1.2, the provider columns of 1.3, and our own (x_).

Cost = price × quantity holds exactly in every row of usage: hours are cut to 12 places, as a third of an hour has no
end, and ListCost and ContractedCost are their products. BilledCost is what the document says, in minor units.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum

from django.conf import settings

from billing.focus.charges import Charge
from billing.money import HOUR, amount_of, price_of
from billing.months import day_span, month_of, month_span
from billing.wares import storage_words
from gpuaas.metering.models import TOKEN_METERS, Meter

Value = str | bool | int | Decimal | datetime | None
PLACES = Decimal(1).scaleb(-12)
UNITS = {
    Meter.VCPU_HELD: "vCPU-Hours",
    Meter.MEMORY_HELD: "GiB-Hours",
    Meter.STORAGE_HELD: "GiB-Hours",
    Meter.TOKENS_IN: "1000000 Tokens",
    Meter.TOKENS_OUT: "1000000 Tokens",
}
CATEGORIES = {"tax": "Tax", "credit_note": "Credit", "debit_note": "Adjustment"}
FREQUENCIES = {"Tax": "Recurring", "Credit": "One-Time", "Adjustment": "One-Time"}


class Kind(Enum):
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    FLAG = "flag"


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    value: Callable[["Facts"], Value]


@dataclass(frozen=True)
class Facts:
    """What several columns need, computed once per charge."""

    charge: Charge
    category: str
    billing: tuple[datetime, datetime]
    period: tuple[datetime, datetime]
    quantity: Decimal | None
    price: Decimal | None
    billed: Decimal

    @property
    def usage(self) -> bool:
        return self.category == "Usage"

    @property
    def cost(self) -> Decimal:
        """From price and quantity; charges without them use their amount."""
        if self.quantity is None or self.price is None:
            return self.billed
        return self.price * self.quantity

    @property
    def correction(self) -> bool:
        """Whether its month was already invoiced."""
        return self.charge.corrects is not None or self.charge.charge_month < billed_in(self.charge)

    @property
    def unit(self) -> str:
        return UNITS.get(Meter(self.charge.meter), "GPU-Hours") if self.charge.meter else ""

    @property
    def sku(self) -> str:
        return f"{self.charge.flavor or self.charge.resource or 'any'}/{self.charge.meter}"


def billed_in(charge: Charge) -> date:
    """An invoice bills its month, a note (and its tax) the month in which it was written."""
    if (
        charge.number is None
        or charge.written_at is None
        or charge.corrects is None
        or charge.kind == "invoice"
    ):
        return charge.month
    return month_of(charge.written_at)


def facts_of(charge: Charge) -> Facts:
    category = CATEGORIES.get(charge.kind, "Usage")
    usage = category == "Usage"
    month = month_span(billed_in(charge))
    when = day_span(charge.day) if charge.day else month_span(charge.charge_month)
    hours = Decimal(charge.unit_seconds) / HOUR
    return Facts(
        charge=charge,
        category=category,
        billing=(month.starts_at, month.ends_at),
        period=(when.starts_at, when.ends_at),
        quantity=hours.quantize(PLACES, ROUND_HALF_EVEN) if usage else None,
        price=price_of(charge.price_micro or 0) if usage else None,
        billed=amount_of(charge.minor, charge.currency),
    )


def focus_rows(charges: Iterator[Charge]) -> Iterator[tuple[Value, ...]]:
    """In the order of COLUMNS."""
    for charge in charges:
        facts = facts_of(charge)
        yield tuple(column.value(facts) for column in COLUMNS)


def _description(facts: Facts) -> str:
    charge = facts.charge
    what = (
        charge.flavor_name
        or storage_words(charge.resource)
        or charge.resource
        or charge.meter.replace("_", " ")
    )
    if facts.category == "Tax":
        return f"{charge.text or 'Tax'} on {charge.number}"
    if not facts.usage:
        return f"{facts.category} on {what} of {charge.charge_month:%B %Y}, invoice {charge.corrects}"
    text = f"{what}, {Meter(charge.meter).label.lower()}"
    if charge.meter in TOKEN_METERS:
        text = f"{Meter(charge.meter).label} of model endpoints"
    if charge.status == "included":
        text += ", free" if charge.meter in TOKEN_METERS else ", included in another price"
    return f"{text}, used earlier" if facts.correction else text


def _tags(facts: Facts) -> str | None:
    if not facts.charge.cost_center:
        return None
    return json.dumps({"gpuaas/cost_center": facts.charge.cost_center})


def _service(facts: Facts) -> tuple[str, str, str]:
    if facts.charge.meter == Meter.STORAGE_HELD:
        return (
            "Cluster storage" if facts.charge.is_cluster else "Workspace storage",
            "Storage",
            "Other (Storage)",
        )
    if facts.charge.meter in TOKEN_METERS:
        return "Model endpoints", "AI and Machine Learning", "Generative AI"
    if facts.category == "Tax":
        return "Taxes", "Other", "Other (Other)"
    return "Clusters on demand" if facts.charge.is_cluster else "GPU workspaces", "Compute", "Other (Compute)"


def _resource_type(facts: Facts) -> str | None:
    if facts.charge.holder_id is None:
        return None
    return "GPU cluster" if facts.charge.is_cluster else "GPU workspace"


def _details(facts: Facts) -> str | None:
    if not facts.usage:
        return None
    return json.dumps({"x_GpuType": facts.charge.gpu_type or None, "x_Meter": facts.charge.meter})


def _usage(value: Callable[[Facts], Value]) -> Callable[[Facts], Value]:
    """Null except for usage."""
    return lambda facts: value(facts) if facts.usage else None


def _text(value: str | None) -> str | None:
    return value or None


def _invoice(facts: Facts) -> str:
    """A month that is not closed has a provisional invoice, in FOCUS's terms: rows with and without one must not be
    mixed."""
    charge = facts.charge
    return charge.number or f"DRAFT-{charge.month:%Y-%m}-{charge.organization}"


def _never(_: Facts) -> None:
    """There are no commitments; other columns are read by whether this one says Unused."""


def _provider(_: Facts) -> str:
    return str(settings.PROVIDER_NAME)


T, N, D = Kind.TEXT, Kind.NUMBER, Kind.TIME
COLUMNS = (
    Column("BilledCost", N, lambda f: f.billed),
    Column("BillingAccountId", T, lambda f: f.charge.organization),
    Column("BillingAccountName", T, lambda f: f.charge.organization_name),
    Column("BillingAccountType", T, lambda _: "Organization"),
    Column("BillingCurrency", T, lambda f: f.charge.currency),
    Column("BillingPeriodEnd", D, lambda f: f.billing[1]),
    Column("BillingPeriodStart", D, lambda f: f.billing[0]),
    Column("ChargeCategory", T, lambda f: f.category),
    Column("ChargeClass", T, lambda f: "Correction" if f.correction else None),
    Column("ChargeDescription", T, _description),
    Column("ChargeFrequency", T, lambda f: FREQUENCIES.get(f.category, "Usage-Based")),
    Column("ChargePeriodEnd", D, lambda f: f.period[1]),
    Column("ChargePeriodStart", D, lambda f: f.period[0]),
    Column("CommitmentDiscountStatus", T, _never),
    Column("ConsumedQuantity", N, lambda f: f.quantity),
    Column("ConsumedUnit", T, _usage(lambda f: f.unit)),
    Column("ContractedCost", N, lambda f: f.cost),
    Column("ContractedUnitPrice", N, lambda f: f.price),
    Column("EffectiveCost", N, lambda f: f.billed),
    Column("InvoiceId", T, _invoice),
    Column("InvoiceIssuerName", T, _provider),
    Column("ListCost", N, lambda f: f.cost),
    Column("ListUnitPrice", N, lambda f: f.price),
    Column(
        "PricingCategory", T, _usage(lambda f: "Dynamic" if f.charge.price_class == "spot" else "Standard")
    ),
    Column("PricingCurrency", T, lambda f: f.charge.currency),
    Column("PricingCurrencyContractedUnitPrice", N, lambda f: f.price),
    Column("PricingCurrencyEffectiveCost", N, lambda f: f.billed),
    Column("PricingCurrencyListUnitPrice", N, lambda f: f.price),
    Column("PricingQuantity", N, lambda f: f.quantity),
    Column("PricingUnit", T, _usage(lambda f: f.unit)),
    Column("ProviderName", T, _provider),
    Column("PublisherName", T, _provider),
    Column("RegionId", T, lambda f: _text(f.charge.site)),
    Column("RegionName", T, lambda f: _text(f.charge.site_name)),
    Column("ResourceId", T, lambda f: str(f.charge.holder_id) if f.charge.holder_id else None),
    Column("ResourceName", T, lambda f: _text(f.charge.holder)),
    Column("ResourceType", T, _resource_type),
    Column("ServiceCategory", T, lambda f: _service(f)[1]),
    Column("ServiceName", T, lambda f: _service(f)[0]),
    Column("ServiceSubcategory", T, lambda f: _service(f)[2]),
    Column("SkuId", T, _usage(lambda f: f.sku)),
    Column("SkuMeter", T, _usage(lambda f: Meter(f.charge.meter).label)),
    Column("SkuPriceDetails", T, _details),
    Column("SkuPriceId", T, _usage(lambda f: f"{f.sku}/{f.charge.price_class}")),
    Column("SubAccountId", T, lambda f: _text(f.charge.project)),
    Column("SubAccountName", T, lambda f: _text(f.charge.project_name)),
    Column("SubAccountType", T, lambda f: "Project" if f.charge.project else None),
    Column("Tags", T, _tags),
    Column("HostProviderName", T, _provider),
    Column("ServiceProviderName", T, _provider),
    Column("x_CorrectsInvoiceId", T, lambda f: f.charge.corrects),
    Column("x_InvoiceLineId", T, lambda f: str(f.charge.line) if f.charge.line else None),
    Column("x_PriceClass", T, _usage(lambda f: f.charge.price_class)),
    Column("x_Surplus", Kind.FLAG, _usage(lambda f: f.charge.surplus)),
    Column("x_Estimated", Kind.FLAG, _usage(lambda f: f.charge.estimated)),
    Column("x_UnitSeconds", N, _usage(lambda f: f.charge.unit_seconds)),
)

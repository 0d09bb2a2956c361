"""The cost of a workspace or cluster as it runs now, as a quote; and the effect of a change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from billing.money import amount_of, charge_divisor, price_of, round_half_up
from billing.months import Span, month_of, month_span
from billing.quotes import Classes, Part, Prices, Quote, QuoteItem, QuoteLine, changes_of, prices_of, quote_of
from billing.rating import LineStatus
from billing.running import Ahead, OpenLine, coming, coming_minor, open_lines
from billing.wares import storage_label, storage_slug
from gpuaas.catalog.models import Flavor
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.metering.models import STREAMED_METERS, Meter
from gpuaas.workspaces.models import Workspace

SHARED = {
    Meter.VCPU_HELD: "vCPU",
    Meter.MEMORY_HELD: "Memory (GiB)",
    Meter.STORAGE_HELD: "Storage (GiB)",
}
SESSION = "An estimate: the price depends on the hours used in the month; this assumes the first tier."
USE = "An estimate: it assumes that GPUs allocated now stay allocated."


@dataclass(frozen=True)
class WhatIf:
    """A workspace as it is charged now and as it would be; the difference is negative if it becomes cheaper."""

    now: Quote
    then: Quote

    @property
    def per_hour(self) -> Decimal:
        return self.then.per_hour - self.now.per_hour

    @property
    def per_month(self) -> Decimal:
        return self.then.per_month - self.now.per_month

    @property
    def in_month(self) -> Decimal:
        return self.then.in_month - self.now.in_month

    @property
    def to_lease_end(self) -> Decimal | None:
        if self.now.to_lease_end is None or self.then.to_lease_end is None:
            return None
        return self.then.to_lease_end - self.now.to_lease_end


def held_quote(*, holder: Workspace | Cluster, now: datetime | None = None) -> Quote:
    """What runs now and continues until the lease ends; of a suspended one what is left of it, of a pending one
    nothing. The actor must be allowed to see its costs."""
    prices = prices_of(holder.project.organization, now, holder.lease_ends_at)
    return _held(prices, holder, _lines(holder, prices))


def what_if(
    *,
    workspace: Workspace,
    items: Sequence[QuoteItem] | None = None,
    storage_gib: int | None = None,
    classes: Classes | None = None,
    lease_ends_at: datetime | None = None,
    now: datetime | None = None,
) -> WhatIf:
    """A workspace now, and with another size or lease; what is not given stays as wanted, so a suspended one is
    priced as awake."""
    wanted = [QuoteItem(item.flavor, item.count) for item in workspace.flavors.all()]
    ends_at = lease_ends_at or workspace.lease_ends_at
    prices = prices_of(workspace.project.organization, now, max(ends_at, workspace.lease_ends_at))
    lines = _lines(workspace, prices)
    storage = workspace.storage_gib if storage_gib is None else storage_gib
    beside = [
        part for part in _parts(lines, prices) if part.meter in STREAMED_METERS and _held_too(prices, part)
    ]
    held = {row.storage_class.slug: row.gib for row in workspace.storage.all()}
    kept = wanted if items is None else items
    return WhatIf(
        now=_held(prices, workspace, lines),
        then=quote_of(
            prices, kept, storage, ends_at, more=beside, classes=held if classes is None else classes
        ),
    )


def _held_too(prices: Prices, part: Part) -> bool:
    return prices.now_of(part.flavor_id, Meter.GPU_HELD) is not None


def _lines(holder: Workspace | Cluster, prices: Prices) -> list[OpenLine]:
    """What is charged, or has no price yet."""
    lines = open_lines(now=prices.now, projects=[holder.project_id], holders=[holder.pk], by_holder=True)
    return [line for line in lines if line.status is not LineStatus.INCLUDED]


def _held(prices: Prices, holder: Workspace | Cluster, lines: Sequence[OpenLine]) -> Quote:
    month = month_span(month_of(prices.now))
    ends_at = max(holder.lease_ends_at, prices.now)
    stop = min(ends_at, month.ends_at)
    stretches = [Ahead(prices.now, ends_at), Ahead(prices.now, stop)]
    ahead = coming(now=prices.now, projects=[holder.project_id], stretches=stretches, holders=[holder.pk])
    seconds = int((stop - prices.now).total_seconds())
    each = sum(line.per_hour_micro for line in lines)
    parts = _parts(lines, prices)
    reasons = [SESSION] if any(line.tiers for line in lines) else []
    if any(line.meter is Meter.GPU_ALLOCATED for line in lines):
        reasons.append(USE)
    return Quote(
        currency=prices.currency,
        lines=tuple(
            _line(part, line, month, seconds, prices.currency)
            for part, line in zip(parts, lines, strict=True)
        ),
        per_hour=price_of(each),
        month=month,
        per_month=_charge(each * month.seconds, prices.currency),
        in_month=amount_of(coming_minor(row for row in ahead if row.slot == 1), prices.currency),
        in_month_seconds=seconds,
        to_lease_end=amount_of(coming_minor(row for row in ahead if row.slot == 0), prices.currency),
        complete=all(line.price_micro is not None for line in lines),
        estimate=bool(reasons),
        notes=(*reasons, *changes_of(prices, parts, clock.whole_second(holder.lease_ends_at))),
    )


def _parts(lines: Sequence[OpenLine], prices: Prices) -> list[Part]:
    flavors = Flavor.objects.in_bulk([line.flavor_id for line in lines if line.flavor_id])
    parts = []
    for line in lines:
        flavor = flavors.get(line.flavor_id) if line.flavor_id else None
        label = flavor.name if flavor else SHARED.get(line.meter, "Unknown GPUs")
        ware, slug = line.flavor_id, storage_slug(line.resource)
        if slug:
            label, ware = storage_label(slug), prices.ware_of(line.resource)
        several = bool(flavor and flavor.gpus > 1)
        parts.append(Part(label, ware, line.meter, line.quantity, several, storage_class=slug))
    return parts


def _line(part: Part, line: OpenLine, month: Span, seconds: int, currency: str) -> QuoteLine:
    """seconds: those of the month for which it still runs."""
    named: dict[str, Any] = {"of_several": part.of_several, "storage_class": part.storage_class}
    if line.price_micro is None:
        return QuoteLine(part.label, part.meter, part.quantity, None, None, None, None, **named)
    return QuoteLine(
        label=part.label,
        meter=part.meter,
        quantity=part.quantity,
        unit_price=price_of(line.price_micro),
        per_hour=price_of(line.per_hour_micro),
        per_month=_charge(line.per_hour_micro * month.seconds, currency),
        in_month=_charge(line.per_hour_micro * seconds, currency),
        **named,
    )


def _charge(micro_seconds: int, currency: str) -> Decimal:
    return amount_of(round_half_up(micro_seconds, charge_divisor(currency)), currency)

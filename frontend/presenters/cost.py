"""The cost card of a workspace: what each thing it held has cost so far, and what it costs from here on."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from billing.held import WhatIf, held_quote
from billing.months import month_span, months_between
from billing.quotes import Quote, QuoteItem, QuoteLine, quote
from billing.rating import ADDED_MOST, Cell, Slots, rate_usage
from frontend import formats
from frontend.components import Fact
from frontend.presenters.money import HOW, SHARED, month_words, notes_of, shared_name
from gpuaas.metering.models import TOKEN_METERS, Meter
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import STAYING, WorkspaceState

GIB = {Meter.MEMORY_HELD, Meter.STORAGE_HELD}
GPUS = {Meter.GPU_HELD, Meter.GPU_ALLOCATED, Meter.GPU_STOPPED, Meter.GPU_SHELVED}
ASLEEP = frozenset({WorkspaceState.SUSPENDING, WorkspaceState.SUSPENDED, WorkspaceState.RESUMING})


@dataclass(frozen=True)
class CostLine:
    """per_hour None: no price yet, or charged as it is counted."""

    name: str
    note: str
    per_hour: Decimal | None
    so_far: Decimal


@dataclass(frozen=True)
class CostCard:
    label: str
    currency: str
    so_far: Decimal
    per_hour: Decimal
    lines: tuple[CostLine, ...]
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ChangeLine:
    """The formatted price before and after a change, and the difference."""

    name: str
    now: str
    then: str
    more: str


@dataclass(frozen=True)
class PriceChange:
    """The effect of a resize on the price."""

    found: WhatIf
    lines: tuple[ChangeLine, ...]


def change_lines(found: WhatIf) -> tuple[ChangeLine, ...]:
    now, then = found.now, found.then
    named = (
        (month_words(then), now.in_month, then.in_month, found.in_month),
        ("To end of lease", now.to_lease_end, then.to_lease_end, found.to_lease_end),
    )
    hour = ChangeLine(
        "Per hour",
        formats.price(now.per_hour, now.currency),
        formats.price(then.per_hour, now.currency),
        formats.signed_price(found.per_hour, now.currency),
    )
    return hour, *(
        ChangeLine(
            name,
            formats.money(before, now.currency),
            formats.money(after, now.currency),
            formats.signed(more, now.currency),
        )
        for name, before, after, more in named
    )


def classes_of(workspace: Workspace) -> dict[str, int]:
    """GiB by storage class, beside plain storage."""
    return {row.storage_class.slug: row.gib for row in workspace.storage.all() if row.gib}


def as_asked(workspace: Workspace, *, now: datetime) -> Quote:
    """The price of the requested size, once it is ready and not suspended."""
    return quote(
        organization=workspace.project.organization,
        items=[QuoteItem(item.flavor, item.count) for item in workspace.flavors.all()],
        storage_gib=workspace.storage_gib,
        classes=classes_of(workspace),
        lease_ends_at=workspace.lease_ends_at,
        now=now,
    )


def cost_card(workspace: Workspace, *, now: datetime, zone_day: str) -> CostCard:
    """The caller has checked billing:view. Raises NotFound if there are no prices."""
    cells = _cells(workspace, now)
    running = held_quote(holder=workspace, now=now)
    zero = running.per_hour - running.per_hour
    so_far: dict[str, Decimal] = {}
    for cell in cells:
        name = cell.flavor_name or shared_name(Meter(cell.meter), cell.resource) or cell.resource
        so_far[name] = so_far.get(name, zero) + (cell.amount or zero)
    total = sum(so_far.values(), zero)
    return CostCard(
        label=f"So far, since {zone_day}",
        currency=running.currency,
        so_far=total,
        per_hour=running.per_hour,
        lines=_lines(running, so_far),
        facts=_facts(workspace, running, total, now),
        notes=notes_of(running) if workspace.state in STAYING else (),
    )


def _facts(workspace: Workspace, running: Quote, total: Decimal, now: datetime) -> tuple[Fact, ...]:
    """The cost until the lease ends; and the hourly price as requested, if that differs from what runs."""
    if workspace.state not in STAYING:
        return ()
    facts = []
    if running.complete and running.to_lease_end is not None:
        facts += [
            Fact("From now to end of lease", formats.money(running.to_lease_end, running.currency)),
            Fact("Expected in all", formats.money(total + running.to_lease_end, running.currency)),
        ]
    asked = as_asked(workspace, now=now)
    if workspace.state != WorkspaceState.READY and asked.complete and asked.per_hour != running.per_hour:
        word = "Per hour once resumed" if workspace.state in ASLEEP else "Per hour as requested"
        facts.append(Fact(word, formats.price(asked.per_hour, asked.currency)))
    return tuple(facts)


def _lines(running: Quote, so_far: dict[str, Decimal]) -> tuple[CostLine, ...]:
    left = dict(so_far)
    lines = []
    for line in running.lines:
        name = f"Storage {line.storage_class}" if line.storage_class else SHARED.get(line.meter, line.label)
        what, note = _words(line, name, running.currency)
        lines.append(CostLine(what, note, line.per_hour, left.pop(name, Decimal(0))))
    tokens = {SHARED[meter] for meter in TOKEN_METERS}
    for name, amount in left.items():
        if amount and name in tokens:
            lines.append(CostLine(name, "as its model endpoints count them", None, amount))
        elif amount:
            lines.append(CostLine(name, "not held now", Decimal(0), amount))
    return tuple(lines)


def _words(line: QuoteLine, name: str, currency: str) -> tuple[str, str]:
    """The amount held or allocated, and the price of one unit: a GiB, a core or a GPU."""
    if line.meter in GPUS:
        what, per = line.gpu_words, "per GPU and hour" if line.of_several else "each per hour"
        what = f"{what}, {HOW[line.meter]}" if line.meter in HOW else what
    elif line.meter in GIB:
        what, per = f"{line.quantity:,} GiB {name.lower()}", "per GiB and hour"
    else:
        what, per = f"{line.quantity:,} {name}", "each per hour"
    price = formats.price(line.unit_price, currency)
    return what, f"{price} {per}" if line.unit_price is not None else "no price yet"


def _cells(workspace: Workspace, now: datetime) -> list[Cell]:
    end = min(workspace.deleted_at + ADDED_MOST, now) if workspace.deleted_at else now
    months = months_between(workspace.created_at, max(end, workspace.created_at))
    spans = [month_span(month) for month in months]
    return rate_usage(
        slots=Slots([span.day for span in spans], spans),
        now=now,
        projects=[workspace.project_id],
        by_holder=True,
        wanted=[workspace.pk],
    )

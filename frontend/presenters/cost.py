"""The cost card of a workspace: what each thing it held has cost so far, and what it costs from here on."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from billing.months import month_span, months_between
from billing.quotes import Quote, QuoteItem, QuoteLine, WhatIf, quote
from billing.rating import Cell, Slots, rate_usage
from frontend import formats
from frontend.components import Fact
from frontend.presenters.money import SHARED
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState

GIB = {Meter.MEMORY_HELD, Meter.STORAGE_HELD}


@dataclass(frozen=True)
class CostLine:
    name: str
    note: str
    per_hour: Decimal | None
    so_far: Decimal


@dataclass(frozen=True)
class CostCard:
    label: str
    so_far: Decimal
    per_hour: Decimal
    lines: tuple[CostLine, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class ChangeLine:
    """now, then and the difference, as written."""

    name: str
    now: str
    then: str
    more: str


@dataclass(frozen=True)
class PriceChange:
    """What a resize does to the price."""

    found: WhatIf
    lines: tuple[ChangeLine, ...]


def change_lines(found: WhatIf) -> tuple[ChangeLine, ...]:
    now, then = found.now, found.then
    named = (
        ("Per hour", now.per_hour, then.per_hour, found.per_hour),
        (f"{then.month.day:%B} ({then.hours} h)", now.per_month, then.per_month, found.per_month),
        ("To end of lease", now.to_lease_end, then.to_lease_end, found.to_lease_end),
    )
    return tuple(
        ChangeLine(
            name,
            formats.money(before, now.currency),
            formats.money(after, now.currency),
            f"{'+' if more and more > 0 else ''}{formats.money(more, now.currency)}",
        )
        for name, before, after, more in named
    )


def quote_of(workspace: Workspace, *, now: datetime) -> Quote:
    items = [QuoteItem(item.flavor, item.count) for item in workspace.flavors.all()]
    return quote(
        organization=workspace.project.organization,
        items=items,
        storage_gib=workspace.storage_gib,
        lease_ends_at=workspace.lease_ends_at,
        now=now,
    )


def cost_card(workspace: Workspace, *, now: datetime, zone_day: str) -> CostCard:
    """Two queries. The page has asked for billing:view before; raises NotFound where there are no prices."""
    cells = _cells(workspace, now)
    zero = Decimal("0.00")
    so_far: dict[str, Decimal] = {}
    for cell in cells:
        name = cell.flavor_name or SHARED.get(Meter(cell.meter), cell.resource)
        so_far[name] = so_far.get(name, zero) + (cell.amount or zero)
    total = sum(so_far.values(), zero)
    gone = workspace.state in {WorkspaceState.DELETED, WorkspaceState.DELETING}
    coming = None if gone else quote_of(workspace, now=now)
    lines = _lines(coming, so_far)
    facts: tuple[Fact, ...] = ()
    if coming is not None and coming.complete and coming.to_lease_end is not None:
        facts = (
            Fact("From now to end of lease", formats.money(coming.to_lease_end, coming.currency)),
            Fact("Expected in all", formats.money(total + coming.to_lease_end, coming.currency)),
        )
    per_hour = coming.per_hour if coming else zero
    return CostCard(f"So far, since {zone_day}", total, per_hour, lines, facts)


def _lines(coming: Quote | None, so_far: dict[str, Decimal]) -> tuple[CostLine, ...]:
    zero = Decimal("0.00")
    lines = []
    left = dict(so_far)
    for line in coming.lines if coming else ():
        name = SHARED.get(line.meter, line.label)
        what, note = _words(line, name)
        lines.append(CostLine(what, note, line.per_hour, left.pop(name, zero)))
    lines += [CostLine(name, "not held now", zero, amount) for name, amount in left.items() if amount]
    return tuple(lines)


def _words(line: QuoteLine, name: str) -> tuple[str, str]:
    """What is held, and its price in the unit in which it is counted: GiB, or one of them."""
    if line.meter is Meter.GPU_HELD:
        what, per = line.gpu_words, "per GPU and hour" if line.of_several else "each per hour"
    elif line.meter in GIB:
        what, per = f"{line.quantity:,} GiB {name.lower()}", "per GiB and hour"
    else:
        what, per = f"{line.quantity:,} {name}", "each per hour"
    return what, f"{formats.money(line.unit_price)} {per}" if line.unit_price is not None else "no price yet"


def _cells(workspace: Workspace, now: datetime) -> list[Cell]:
    end = workspace.deleted_at or now
    months = months_between(workspace.created_at, max(end, workspace.created_at))
    spans = [month_span(month) for month in months]
    cells = rate_usage(
        slots=Slots([span.day for span in spans], spans),
        now=now,
        projects=[workspace.project_id],
        by_workspace=True,
    )
    return [cell for cell in cells if cell.workspace_id == workspace.pk]

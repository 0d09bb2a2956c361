"""What a draft would have made of a month: rated twice by the same SQL, by the prices that count and by the draft's."""

import uuid
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from billing.models import RateDraft
from billing.months import month_of, month_previous, month_span
from billing.rating import Cell, Slots, rate_usage
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import platform_require


@dataclass(frozen=True)
class Preview:
    """An organization's month by the prices in force at its time, and by the draft's."""

    organization: str
    name: str
    currency: str
    before: Decimal
    after: Decimal

    @property
    def difference(self) -> Decimal:
        return self.after - self.before


def draft_preview(
    *, actor: Actor, draft: RateDraft, month: date | None = None, now: datetime | None = None
) -> list[Preview]:
    """For operators and auditors: every organization with usage in `month` (default: the last whole one), by name."""
    platform_require(actor=actor)
    moment = now or clock.now()
    span = month_span(month or month_previous(month_of(moment)))
    slots = Slots([span.day], [span])
    rows = Project.objects.order_by().values_list("pk", "organization__slug", "organization__name")
    owners = {pk: (slug, name) for pk, slug, name in rows}
    before = _sums(rate_usage(slots=slots, now=moment, projects=None), owners)
    after = _sums(rate_usage(slots=slots, now=moment, projects=None, draft_id=draft.pk), owners)
    nothing = Decimal(0)
    return [
        Preview(slug, name, currency, before.get((slug, name, currency), nothing), amount)
        for (slug, name, currency), amount in sorted(after.items())
    ]


def _sums(cells: list[Cell], owners: dict[uuid.UUID, tuple[str, str]]) -> dict[tuple[str, str, str], Decimal]:
    found: dict[tuple[str, str, str], Decimal] = {}
    for cell in cells:
        key = (*owners[cell.project_id], cell.currency)
        found[key] = found.get(key, Decimal(0)) + (cell.amount or Decimal(0))
    return found

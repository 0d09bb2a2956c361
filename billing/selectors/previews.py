"""The effect of a draft on a month: rated twice with the same SQL, by the prices in force and by the draft's."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Q

from billing.models import RateCard, RateDraft
from billing.months import month_of, month_previous, month_span
from billing.rating import Cell, LineStatus, Slots, rate_usage
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.final import month_final
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import platform_require

NOTHING = Decimal(0)


@dataclass(frozen=True)
class Sides:
    """A month by the prices in force at its time, and by the draft's. unpriced: unit-seconds without a price (not
    zero)."""

    before: Decimal = NOTHING
    after: Decimal = NOTHING
    unpriced_before: int = 0
    unpriced_after: int = 0

    @property
    def difference(self) -> Decimal:
        return self.after - self.before

    def __add__(self, other: "Sides") -> "Sides":
        return Sides(
            self.before + other.before,
            self.after + other.after,
            self.unpriced_before + other.unpriced_before,
            self.unpriced_after + other.unpriced_after,
        )


@dataclass(frozen=True)
class ProjectPreview:
    project: str
    sides: Sides


@dataclass(frozen=True)
class Preview:
    """An organization's month, the sum of its projects'."""

    organization: str
    name: str
    currency: str
    projects: tuple[ProjectPreview, ...]

    @property
    def sides(self) -> Sides:
        return sum((row.sides for row in self.projects), Sides())

    @property
    def before(self) -> Decimal:
        return self.sides.before

    @property
    def after(self) -> Decimal:
        return self.sides.after

    @property
    def difference(self) -> Decimal:
        return self.sides.difference


@dataclass(frozen=True)
class Owner:
    organization: str
    name: str
    project: str


def preview_month(*, now: datetime | None = None) -> date:
    """The last full month."""
    return month_previous(month_of(now or clock.now()))


def draft_preview(
    *, actor: Actor, draft: RateDraft, month: date | None = None, now: datetime | None = None
) -> list[Preview]:
    """For operators and auditors: every organization that the card may charge and that had usage in `month` (default:
    the last full one), by its slug. 5 queries. Raises Invalid on `month` if it is final."""
    platform_require(actor=actor)
    moment = now or clock.now()
    last = preview_month(now=moment)
    final = month_final() if month is not None and month < last else None
    if month is not None and final is not None and month.replace(day=1) <= final:
        raise Invalid.field("month", f"{month:%B %Y} is final, so no price changes it; choose a later month")
    span = month_span(month or last)
    owners = _owners(draft.card)
    everybody = draft.card.organization_id is None
    asked: dict[str, Any] = {
        "slots": Slots([span.day], [span]),
        "now": moment,
        "projects": None if everybody else list(owners),
    }
    sides: dict[uuid.UUID, Sides] = {}
    for cell in rate_usage(**asked):
        sides[cell.project_id] = sides.get(cell.project_id, Sides()) + _before(cell)
    for cell in rate_usage(**asked, draft_id=draft.pk):
        sides[cell.project_id] = sides.get(cell.project_id, Sides()) + _after(cell)
    return _by_organization(draft.card.currency, owners, sides)


def preview_total(*, previews: Iterable[Preview]) -> Sides:
    """All of them together: they are in the card's currency."""
    return sum((row.sides for row in previews), Sides())


def _owners(card: RateCard) -> dict[uuid.UUID, Owner]:
    """The projects of the organizations that pay in the card's currency, or of the one whose card it is."""
    rows = Project.objects.order_by()
    if card.organization_id is not None:
        rows = rows.filter(organization=card.organization_id)
    account = Q(organization__billing_account__currency=card.currency)
    if card.currency == settings.CURRENCY:
        account |= Q(organization__billing_account=None)
    owners = rows.filter(account).values_list("pk", "organization__slug", "organization__name", "slug")
    return {pk: Owner(slug, name, project) for pk, slug, name, project in owners}


def _before(cell: Cell) -> Sides:
    if cell.status is LineStatus.QUARANTINED:
        return Sides(unpriced_before=cell.unit_seconds)
    return Sides(before=cell.amount or NOTHING)


def _after(cell: Cell) -> Sides:
    if cell.status is LineStatus.QUARANTINED:
        return Sides(unpriced_after=cell.unit_seconds)
    return Sides(after=cell.amount or NOTHING)


def _by_organization(
    currency: str, owners: dict[uuid.UUID, Owner], sides: dict[uuid.UUID, Sides]
) -> list[Preview]:
    previews: dict[tuple[str, str], list[ProjectPreview]] = {}
    for pk, each in sides.items():
        owner = owners.get(pk)
        if owner is not None:
            rows = previews.setdefault((owner.organization, owner.name), [])
            rows.append(ProjectPreview(owner.project, each))
    return [
        Preview(slug, name, currency, tuple(sorted(rows, key=lambda row: row.project)))
        for (slug, name), rows in sorted(previews.items())
    ]

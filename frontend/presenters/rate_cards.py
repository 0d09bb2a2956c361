"""Rate cards as pages show them: prices with their terms as text, versions on one time axis, drafts beside the current prices."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from billing.models import Rate, RateCardVersion, RateDraftLine, TierMode
from billing.money import price_of
from billing.selectors.cards import Change, DraftRow, tiers_of
from billing.selectors.previews import Preview, Sides
from billing.selectors.sheets import Sheet, SheetPrice, SheetRow
from billing.wares import MILLION_TOKENS, storage_words
from frontend import formats
from frontend.presenters.money import SHARED
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core.looks import Tone
from gpuaas.metering.models import TOKEN_METERS, Meter

CHANGES = {
    Change.SAME: (Tone.OFF, "stays"),
    Change.CHANGED: (Tone.BUSY, "changes"),
    Change.NEW: (Tone.OK, "new"),
    Change.REMOVED: (Tone.WARN, "ends"),
}


@dataclass(frozen=True)
class What:
    """What a price is for: `note` says where it is, `counted` by which meter."""

    name: str
    note: str
    counted: str


@dataclass(frozen=True)
class PriceRow:
    what: What
    rate: Rate
    price: Decimal
    terms: tuple[str, ...]


@dataclass(frozen=True)
class ProjectPreviewed:
    """of_organization: the difference of all its projects together."""

    organization: str
    project: str
    sides: Sides
    of_organization: Decimal
    currency: str


@dataclass(frozen=True)
class DraftRowShown:
    """`key` names the row in the page; `error` stands beside the price that was typed."""

    key: str
    line: RateDraftLine | None
    what: What
    now: Decimal | None
    typed: str
    terms: tuple[str, ...]
    tone: Tone
    word: str
    error: str = ""


@dataclass(frozen=True)
class VersionRow:
    """start and width: position on the time axis, in percent; `kind` is how the bar is drawn."""

    version: RateCardVersion
    valid_to: datetime | None
    changes: int
    tone: Tone
    word: str
    kind: str
    start: float
    width: float


@dataclass(frozen=True)
class SheetLine:
    what: What
    row: SheetRow
    terms: tuple[str, ...]
    notes: tuple[str, ...]
    upcoming: tuple[tuple[SheetPrice, tuple[str, ...]], ...]


def what_of(flavor: Flavor | None, meter: str, price_class: str = "", resource: str = "") -> What:
    known = Meter(meter) if meter in Meter.values else None
    counted = known.label if known else meter
    if storage := storage_words(resource):
        return What(storage, "a storage class", counted)
    if resource:
        return What(resource, "not sold as a flavor", counted)
    if known in TOKEN_METERS:
        return What(SHARED[known], f"per {MILLION_TOKENS}", counted)
    if flavor is None:
        return What(SHARED.get(known, meter) if known else meter, "all flavors", counted)
    chosen = price_class or flavor.price_class
    label = PriceClass(chosen).label.lower() if chosen in PriceClass.values else chosen
    return What(flavor.slug, f"{flavor.pool.gpu_type.name} at {flavor.pool.site.slug}, {label}", counted)


def terms_words(
    *,
    mode: str,
    tiers: Iterable[tuple[int, Decimal]],
    increment: int,
    minimum: int,
    surplus: int = 100,
    currency: str,
    meter: str,
) -> tuple[str, ...]:
    """All terms of a price; empty if it is a plain price per second."""
    unit = MILLION_TOKENS if meter in TOKEN_METERS else "h"
    what = "for the whole month" if mode == TierMode.VOLUME else "for usage above it"
    terms = [
        f"from {formats.number(hours)} {unit} {formats.price(price, currency)} {what}"
        for hours, price in tiers
    ]
    if increment > 1:
        terms.append(f"in steps of {formats.duration(increment)}")
    if minimum:
        terms.append(f"at least {formats.duration(minimum)}")
    if surplus != 100:
        terms.append(f"{surplus}% for surplus")
    if meter in TOKEN_METERS and not terms:
        terms.append("by the day")
    return tuple(terms)


def terms_of(row: Rate | RateDraftLine, currency: str) -> tuple[str, ...]:
    return terms_words(
        mode=row.tier_mode,
        tiers=[(hours, price_of(micro)) for hours, micro in tiers_of(row)],
        increment=row.increment_seconds,
        minimum=row.minimum_seconds,
        surplus=row.surplus_percent,
        currency=currency,
        meter=row.meter,
    )


def price_rows(rates: Iterable[Rate], currency: str) -> list[PriceRow]:
    return [
        PriceRow(
            what_of(rate.flavor, rate.meter, rate.price_class, rate.resource_name),
            rate,
            rate.price,
            terms_of(rate, currency),
        )
        for rate in rates
    ]


def draft_rows_shown(rows: Iterable[DraftRow], currency: str) -> list[DraftRowShown]:
    return [draft_row_shown(row, currency) for row in rows]


def draft_row_shown(
    row: DraftRow, currency: str, *, typed: str | None = None, error: str = ""
) -> DraftRowShown:
    shown = row.shown
    tone, word = CHANGES[row.change]
    price = str(row.line.price) if row.line else ""
    return DraftRowShown(
        key=str(shown.pk),
        line=row.line,
        what=what_of(shown.flavor, shown.meter, shown.price_class, shown.resource_name),
        now=row.before.price if row.before else None,
        typed=price if typed is None else typed,
        terms=terms_of(shown, currency),
        tone=Tone.BAD if error else tone,
        word="refused" if error else word,
        error=error,
    )


def version_rows(
    versions: Sequence[RateCardVersion], ends: dict[uuid.UUID, tuple[datetime | None, int]], now: datetime
) -> list[VersionRow]:
    """`ends`: of each version when the next one begins, and how many prices began with it."""
    if not versions:
        return []
    moments = [version.valid_from for version in versions]
    first, latest = min(moments), max(*moments, now)
    last = latest + max((latest - first) / 8, timedelta(days=1))
    axis = (last - first).total_seconds()

    def percent(moment: datetime) -> float:
        return round((moment - first).total_seconds() / axis * 100, 2)

    rows = []
    for version in versions:
        valid_to, changes = ends[version.pk]
        tone, word, kind = _standing(version.valid_from, valid_to, now)
        start = percent(version.valid_from)
        width = max(percent(min(valid_to or last, last)) - start - 0.3, 0.8)
        rows.append(VersionRow(version, valid_to, changes, tone, word, kind, start, round(width, 2)))
    return rows


def _standing(start: datetime, end: datetime | None, now: datetime) -> tuple[Tone, str, str]:
    if start > now:
        return Tone.WAIT, "announced", "expected"
    if end is not None and end <= now:
        return Tone.OFF, "past", "done"
    return Tone.OK, "in force", "running"


def sheet_lines(sheet: Sheet) -> list[SheetLine]:
    return [
        SheetLine(
            what=what_of(row.flavor, row.meter, resource=row.resource),
            row=row,
            terms=_sheet_terms(row.now, row.meter, sheet.currency),
            notes=_notes(row.now),
            upcoming=tuple((price, _sheet_terms(price, row.meter, sheet.currency)) for price in row.upcoming),
        )
        for row in sheet.rows
    ]


def _sheet_terms(price: SheetPrice | None, meter: Meter, currency: str) -> tuple[str, ...]:
    if price is None:
        return ()
    return terms_words(
        mode=price.tier_mode,
        tiers=[(tier.from_unit_hours, tier.price) for tier in price.tiers],
        increment=price.increment_seconds,
        minimum=price.minimum_seconds,
        currency=currency,
        meter=meter,
    )


def _notes(price: SheetPrice | None) -> tuple[str, ...]:
    if price is None:
        return ()
    terms = ["your own price"] if price.own else []
    if price.discount_bp:
        terms.append(f"{percent_words(price.discount_bp)} discount included")
    return tuple(terms)


def percent_words(basis_points: int) -> str:
    return f"{Decimal(basis_points) / 100:f}%"


def projects_previewed(rows: Iterable[Preview]) -> list[ProjectPreviewed]:
    return [
        ProjectPreviewed(row.name, one.project, one.sides, row.difference, row.currency)
        for row in rows
        for one in row.projects
    ]

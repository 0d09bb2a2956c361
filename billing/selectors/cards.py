"""Rate cards for operators and auditors: versions, prices at a time, and drafts beside the prices in force."""

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery

from billing.models import Rate, RateCard, RateCardVersion, RateDraft, RateDraftLine
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.core.rows import first_of
from tenants.actors import Actor
from tenants.selectors import platform_require

TERMS = ("price_micro", "increment_seconds", "minimum_seconds", "tier_mode", "surplus_percent")
Key = tuple[object, str, str, str]


class Change(StrEnum):
    """A draft's line beside the price in force of the same flavor, meter and price class."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    REMOVED = "removed"


@dataclass(frozen=True)
class DraftRow:
    """line is None if the draft removes the price, before if there is none yet."""

    line: RateDraftLine | None
    before: Rate | None
    change: Change

    @property
    def shown(self) -> RateDraftLine | Rate:
        """The price in the draft, or the one that it removes."""
        price = self.line or self.before
        if price is None:
            raise ValueError("a row needs a price in the draft, or a price in force")
        return price


def rate_cards_for(*, actor: Actor) -> QuerySet[RateCard]:
    """The standard ones first; each with `prices` (in force now), `version_count` and `draft_id` (of the open one)."""
    platform_require(actor=actor)
    now = clock.now()
    in_force = Q(rates__valid_from__lte=now) & (Q(rates__valid_to__isnull=True) | Q(rates__valid_to__gt=now))
    drafts = RateDraft.objects.filter(card=OuterRef("pk"), published=None).values("pk")
    return (
        RateCard.objects.select_related("organization")
        .annotate(
            prices=Count("rates", filter=in_force, distinct=True),
            version_count=Count("versions", distinct=True),
            draft_id=Subquery(drafts[:1]),
        )
        .order_by(F("organization__slug").asc(nulls_first=True), "currency")
    )


def rate_card_get(*, actor: Actor, slug: str) -> RateCard:
    return first_of(rate_cards_for(actor=actor).filter(slug=slug), "rate card")


def versions_of(*, actor: Actor, card: RateCard) -> QuerySet[RateCardVersion]:
    """Newest first, with `valid_to` (None: until the next one is published) and `changes` (number of prices that
    start with it)."""
    platform_require(actor=actor)
    following = RateCardVersion.objects.filter(card=OuterRef("card"), valid_from__gt=OuterRef("valid_from"))
    return card.versions.annotate(
        valid_to=Subquery(following.order_by("valid_from").values("valid_from")[:1]),
        changes=Count("rates"),
    ).order_by("-valid_from")


def version_get(*, actor: Actor, card: RateCard, number: int) -> RateCardVersion:
    return first_of(versions_of(actor=actor, card=card).filter(number=number), "version of this card")


def prices_of(*, card: RateCard, at: datetime) -> QuerySet[Rate]:
    """The card's complete list at one moment, with prices from earlier versions. Two queries."""
    rows = Rate.objects.filter(card=card, valid_from__lte=at)
    return (
        rows.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=at))
        .select_related("flavor__pool__gpu_type", "flavor__pool__site", "version")
        .prefetch_related("tiers")
        .order_by(F("flavor__slug").asc(nulls_last=True), "meter", "price_class")
    )


def prices_followed(*, card: RateCard) -> QuerySet[Rate]:
    """The list that the next version follows: the newest announced one, else the one in force. Three queries."""
    now = clock.now()
    announced = card.versions.filter(valid_from__gt=now).aggregate(last=Max("valid_from"))["last"]
    return prices_of(card=card, at=announced or now)


def draft_get(*, actor: Actor, draft_id: uuid.UUID) -> RateDraft:
    """Open or published; discarded drafts are deleted."""
    platform_require(actor=actor)
    rows = RateDraft.objects.select_related("card__organization", "published")
    found = rows.filter(pk=draft_id).first()
    if found is None:
        raise NotFound("there is no such draft; it may have been discarded")
    return found


def rates_beside(*, draft: RateDraft) -> QuerySet[Rate]:
    """Prices of the card that were set since the draft was created, newest first: publishing it would undo them. What is over, such
    as a write-off of usage, stays as it is."""
    rows = Rate.objects.filter(card=draft.card_id, created_at__gt=draft.created_at)
    rows = rows.exclude(valid_to__lte=clock.now())
    return rows.select_related("flavor").order_by("-created_at")


def draft_rows(*, draft: RateDraft) -> list[DraftRow]:
    """Every price of the draft, and every price that it removes, in the order of flavors. Three queries."""
    lines = list(draft.lines.select_related("flavor__pool__gpu_type", "flavor__pool__site"))
    at = draft.created_at if draft.published_id else clock.now()
    before = {key_of(rate): rate for rate in prices_of(card=draft.card, at=at)}
    rows = [_row(line, before.pop(key_of(line), None)) for line in lines]
    rows += [DraftRow(None, rate, Change.REMOVED) for rate in before.values()]
    return sorted(rows, key=_place)


def draft_fingerprint(*, lines: Iterable[RateDraftLine]) -> str:
    """Equal as long as no price of the draft is changed, added or removed."""
    rows = sorted(json.dumps([*map(str, key_of(line)), *terms_of(line)]) for line in lines)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def key_of(row: Rate | RateDraftLine) -> Key:
    return row.flavor_id, row.resource_name, row.meter, row.price_class


def tiers_of(row: Rate | RateDraftLine) -> list[list[int]]:
    """[[from unit-hours, millionths], …] without the first."""
    if isinstance(row, Rate):
        return [[tier.from_unit_hours, tier.price_micro] for tier in row.tiers.all()]
    return [list(tier) for tier in row.tiers]


def terms_of(row: Rate | RateDraftLine) -> tuple[object, ...]:
    """The terms of a price: equal terms cost the same for every usage."""
    return (*(getattr(row, name) for name in TERMS), tiers_of(row))


def _row(line: RateDraftLine, before: Rate | None) -> DraftRow:
    if before is None:
        return DraftRow(line, None, Change.NEW)
    return DraftRow(line, before, Change.SAME if terms_of(line) == terms_of(before) else Change.CHANGED)


def _place(row: DraftRow) -> tuple[bool, str, str, str]:
    shown = row.shown
    slug = shown.flavor.slug if shown.flavor else shown.resource_name
    return not slug, slug, shown.meter, shown.price_class

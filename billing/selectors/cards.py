"""Rate cards for operators and auditors: their versions, what held when, and drafts beside what is in force."""

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery

from billing.models import Rate, RateCard, RateCardVersion, RateDraft, RateDraftLine
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from tenants.actors import Actor
from tenants.selectors import platform_require

TERMS = ("price_micro", "increment_seconds", "minimum_seconds", "tier_mode", "surplus_percent")
Key = tuple[object, str, str]


class Change(StrEnum):
    """A draft's line against the price in force of the same flavor, meter and price class."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    REMOVED = "removed"


@dataclass(frozen=True)
class DraftRow:
    """line is None where the draft has no price any more, before where there is none yet."""

    line: RateDraftLine | None
    before: Rate | None
    change: Change

    @property
    def shown(self) -> RateDraftLine | Rate:
        """What the draft says, or what it takes away."""
        found = self.line or self.before
        if found is None:
            raise ValueError("a row is made of a price in the draft, or of the one before it")
        return found


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
    found = rate_cards_for(actor=actor).filter(slug=slug).first()
    if found is None:
        raise NotFound("there is no such rate card")
    return found


def versions_of(*, actor: Actor, card: RateCard) -> QuerySet[RateCardVersion]:
    """Newest first, with `valid_to` (None: until the next one is published) and `changes` (prices that begin with it)."""
    platform_require(actor=actor)
    following = RateCardVersion.objects.filter(card=OuterRef("card"), valid_from__gt=OuterRef("valid_from"))
    return card.versions.annotate(
        valid_to=Subquery(following.order_by("valid_from").values("valid_from")[:1]),
        changes=Count("rates"),
    ).order_by("-valid_from")


def version_get(*, actor: Actor, card: RateCard, number: int) -> RateCardVersion:
    found = versions_of(actor=actor, card=card).filter(number=number).first()
    if found is None:
        raise NotFound("there is no such version of this card")
    return found


def prices_of(*, card: RateCard, at: datetime) -> QuerySet[Rate]:
    """The card's whole list at one moment, also what an earlier version has begun. Two queries."""
    rows = Rate.objects.filter(card=card, valid_from__lte=at)
    return (
        rows.filter(Q(valid_to__isnull=True) | Q(valid_to__gt=at))
        .select_related("flavor__pool__gpu_type", "flavor__pool__site", "version")
        .prefetch_related("tiers")
        .order_by(F("flavor__slug").asc(nulls_last=True), "meter", "price_class")
    )


def draft_get(*, actor: Actor, draft_id: uuid.UUID) -> RateDraft:
    """Open or published; one that was discarded is gone."""
    platform_require(actor=actor)
    rows = RateDraft.objects.select_related("card__organization", "published")
    found = rows.filter(pk=draft_id).first()
    if found is None:
        raise NotFound("there is no such draft; somebody may have discarded it")
    return found


def rates_beside(*, draft: RateDraft) -> QuerySet[Rate]:
    """Prices of the card that were set since the draft was begun, newest first: publishing it would undo them."""
    rows = Rate.objects.filter(card=draft.card_id, created_at__gt=draft.created_at)
    return rows.select_related("flavor").order_by("-created_at")


def draft_rows(*, draft: RateDraft) -> list[DraftRow]:
    """Every price of the draft, and every price that it takes away, in the order of flavors. Three queries."""
    lines = list(draft.lines.select_related("flavor__pool__gpu_type", "flavor__pool__site"))
    at = draft.created_at if draft.published_id else clock.now()
    before = {key_of(rate): rate for rate in prices_of(card=draft.card, at=at)}
    rows = [_row(line, before.pop(key_of(line), None)) for line in lines]
    rows += [DraftRow(None, rate, Change.REMOVED) for rate in before.values()]
    return sorted(rows, key=_place)


def draft_fingerprint(*, lines: Iterable[RateDraftLine]) -> str:
    """The same exactly while no price of the draft is changed, added or taken away."""
    rows = sorted(json.dumps([*map(str, key_of(line)), *terms_of(line)]) for line in lines)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def key_of(row: Rate | RateDraftLine) -> Key:
    return row.flavor_id, row.meter, row.price_class


def tiers_of(row: Rate | RateDraftLine) -> list[list[int]]:
    """[[from unit-hours, millionths], …] without the first."""
    if isinstance(row, Rate):
        return [[tier.from_unit_hours, tier.price_micro] for tier in row.tiers.all()]
    return [list(tier) for tier in row.tiers]


def terms_of(row: Rate | RateDraftLine) -> tuple[object, ...]:
    """What a price says: equal terms cost the same for every usage."""
    return (*(getattr(row, name) for name in TERMS), tiers_of(row))


def _row(line: RateDraftLine, before: Rate | None) -> DraftRow:
    if before is None:
        return DraftRow(line, None, Change.NEW)
    return DraftRow(line, before, Change.SAME if terms_of(line) == terms_of(before) else Change.CHANGED)


def _place(row: DraftRow) -> tuple[bool, str, str, str]:
    shown = row.shown
    slug = shown.flavor.slug if shown.flavor else ""
    return not slug, slug, shown.meter, shown.price_class

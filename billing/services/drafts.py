"""Price lists that operators work on, and their publication: one version with all its rates in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from billing.models import Rate, RateCard, RateCardVersion, RateDraft, RateDraftLine, RateTier, TierMode
from billing.money import currency_parse, price_of, price_parse
from billing.selectors.cards import (
    TERMS,
    draft_fingerprint,
    key_of,
    prices_followed,
    prices_of,
    rates_beside,
    terms_of,
)
from billing.services.rates import card_named, meter_require, rate_card_ensure, version_at
from billing.wares import MILLION_TOKENS
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.metering.models import TOKEN_METERS, Meter
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import platform_require

DAY = 86_400
SURPLUS_MAX = 1000
TIERS_MOST = 20
HOURS_MOST = 1_000_000_000


@dataclass(frozen=True)
class LineTerms:
    """tiers: (from unit-hours or millions of tokens, price of one), without the first, whose price is `price`."""

    price: Decimal | str
    increment_seconds: int = 1
    minimum_seconds: int = 0
    tier_mode: str = ""
    tiers: Sequence[tuple[int, Decimal | str]] = field(default_factory=tuple)
    surplus_percent: int = 100


@transaction.atomic
def rate_card_make(*, actor: Actor, currency: str, organization: Organization | None = None) -> RateCard:
    """The standard card of a currency, or an organization's own card in it; returns an existing one."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    code = currency_parse(currency)
    named = card_named(code)
    if organization:
        named = {"slug": f"own-{organization.slug}-{code.lower()}", "name": f"Prices of {organization.name}"}
    card, made = RateCard.objects.get_or_create(organization=organization, currency=code, defaults=named)
    if made:
        after = {"currency": code, "organization": organization.slug if organization else None}
        audit_record(actor=actor, action="rate_card.make", target=card, before=None, after=after)
    return card


@transaction.atomic
def rate_draft_open(*, actor: Actor, card: RateCard | None = None) -> RateDraft:
    """The open draft of a card (default: the standard one). If there is none, creates it with all prices in force, or with
    those of the newest announced version, which it would otherwise undo."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    held = rate_card_ensure() if card is None else RateCard.objects.select_for_update().get(pk=card.pk)
    known = RateDraft.objects.filter(card=held, published=None).first()
    if known is not None:
        return known
    draft = RateDraft.objects.create(card=held, created_by=actor.name)
    for rate in prices_followed(card=held):
        terms = {name: getattr(rate, name) for name in TERMS}
        RateDraftLine.objects.create(
            draft=draft,
            flavor=rate.flavor,
            resource_name=rate.resource_name,
            meter=rate.meter,
            price_class=rate.price_class,
            tiers=[[tier.from_unit_hours, tier.price_micro] for tier in rate.tiers.all()],
            **terms,
        )
    audit_record(
        actor=actor, action="rate_draft.open", target=held, before=None, after={"draft": str(draft.pk)}
    )
    return draft


@transaction.atomic
def rate_draft_line_set(
    *,
    actor: Actor,
    draft: RateDraft,
    flavor: Flavor | None,
    meter: str,
    terms: LineTerms,
    resource: str = "",
) -> RateDraftLine:
    """Adds or changes a price: of a flavor, a resource that is not sold, or what all flavors share. Raises Invalid."""
    held = _open(actor, draft)
    known = meter_require(meter, flavor, resource)
    micro, tiers = price_parse(terms.price), _tiers(terms, known)
    _session_check(terms, known)
    if not 0 <= terms.surplus_percent <= SURPLUS_MAX:
        raise Invalid.field("surplus_percent", f"surplus must cost between 0 and {SURPLUS_MAX:,} percent")
    line, _ = RateDraftLine.objects.update_or_create(
        draft=held,
        flavor=flavor,
        resource_name=resource,
        meter=known.value,
        price_class=flavor.price_class if flavor else PriceClass.ON_DEMAND,
        defaults={
            "price_micro": micro,
            "increment_seconds": terms.increment_seconds,
            "minimum_seconds": terms.minimum_seconds,
            "tier_mode": terms.tier_mode,
            "tiers": tiers,
            "surplus_percent": terms.surplus_percent,
        },
    )
    what = flavor.slug if flavor else resource or None
    after = {"flavor": what, "meter": known.value, "price": str(price_of(micro))}
    audit_record(actor=actor, action="rate_draft.set", target=held.card, before=None, after=after)
    return line


@transaction.atomic
def rate_draft_line_remove(*, actor: Actor, draft: RateDraft, line: RateDraftLine) -> None:
    """The card has no price for this from the version's start on."""
    held = _open(actor, draft)
    held.lines.filter(pk=line.pk).delete()
    before = {"meter": line.meter, "price": str(line.price)}
    audit_record(actor=actor, action="rate_draft.remove", target=held.card, before=before, after=None)


@transaction.atomic
def rate_draft_discard(*, actor: Actor, draft: RateDraft) -> None:
    held = _open(actor, draft)
    audit_record(
        actor=actor, action="rate_draft.discard", target=held.card, before={"draft": str(held.pk)}, after=None
    )
    held.delete()


@transaction.atomic
def rate_draft_publish(
    *,
    actor: Actor,
    draft: RateDraft,
    valid_from: datetime | None = None,
    note: str = "",
    fingerprint: str = "",
) -> RateCardVersion:
    """Makes the draft its card's list from `valid_from` (default now) on. Unchanged prices continue; the others end
    and start.

    Raises Invalid on `valid_from`: in the past, or not after the newest version of the card; StaleVersion if the
    draft has another fingerprint than `fingerprint`; Conflict if it is already published, or if prices were set
    meanwhile.
    """
    held = _open(actor, draft)
    card = RateCard.objects.select_for_update().get(pk=held.card_id)
    _require_current(held, fingerprint)
    now = clock.whole_second(clock.now())
    start = clock.whole_second(valid_from) if valid_from else now
    newest = card.versions.order_by("-valid_from").first()
    clock.year_require(start, field="valid_from")
    if start < now:
        raise Invalid.field("valid_from", "past usage is already rated; choose a start now or later")
    if newest is not None and start <= newest.valid_from:
        raise Invalid.field(
            "valid_from",
            f"version {newest.number} starts at {newest.valid_from:%Y-%m-%d %H:%M:%S} UTC; choose a "
            "later start",
        )
    version = version_at(card=card, at=start, actor=actor, note=note.strip()[:300])
    _replace(held, version, list(prices_of(card=card, at=start)))
    held.published, held.valid_from, held.note = version, start, version.note
    held.save(update_fields=["published", "valid_from", "note"])
    after = {"number": version.number, "valid_from": start.isoformat()}
    audit_record(actor=actor, action="rate_card.publish", target=card, before=None, after=after)
    return version


@transaction.atomic
def rate_version_withdraw(*, actor: Actor, version: RateCardVersion) -> RateDraft | None:
    """Withdraws an announced version: the prices that it was to end continue, and its draft is open again unless the
    card has another.

    Raises Conflict once it has started, if a later version is based on it, or if it is already withdrawn.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    card = RateCard.objects.select_for_update().get(pk=version.card_id)
    row = card.versions.filter(pk=version.pk).first()
    if row is None:
        raise Conflict(f"version {version.number} is already withdrawn")
    if row.valid_from <= clock.now():
        raise Conflict(
            f"version {row.number} started at {row.valid_from:%Y-%m-%d %H:%M:%S} UTC and usage is "
            "rated by it, so it cannot be withdrawn. Publish a new version with the changes instead"
        )
    later = card.versions.filter(valid_from__gt=row.valid_from).order_by("-valid_from").first()
    if later is not None:
        raise Conflict(
            f"version {later.number} is based on version {row.number}; withdraw that version first"
        )
    before = {
        "number": row.number,
        "valid_from": row.valid_from.isoformat(),
        "prices": [
            f"{rate.flavor or rate.resource_name or rate.meter} {rate.price}"
            for rate in row.rates.select_related("flavor")
        ],
    }
    row.rates.all().delete()
    Rate.objects.filter(card=card, valid_to=row.valid_from).update(valid_to=None)
    RateCard.objects.filter(pk=card.pk).update(numbers_gone=row.number)
    draft = _reopen(card, row)
    audit_record(actor=actor, action="rate_card.withdraw", target=card, before=before, after=None)
    row.delete()
    return draft


def _reopen(card: RateCard, version: RateCardVersion) -> RateDraft | None:
    draft = RateDraft.objects.filter(published=version).first()
    if draft is None:
        return None
    if RateDraft.objects.filter(card=card, published=None).exists():
        draft.delete()
        return None
    draft.published, draft.valid_from = None, None
    draft.save(update_fields=["published", "valid_from"])
    return draft


def _require_current(draft: RateDraft, fingerprint: str) -> None:
    """Publishes exactly what was reviewed, based on the prices with which the draft was created."""
    if fingerprint and fingerprint != draft_fingerprint(lines=draft.lines.all()):
        raise StaleVersion("this draft has changed since you read it; read it again")
    later = rates_beside(draft=draft).first()
    if later is not None:
        raise Conflict(
            f"{later.created_by} has set the price of "
            f"{later.flavor or later.resource_name or later.meter} since this draft was created, and "
            "publishing would undo that; discard the draft and create a new one"
        )


def _replace(draft: RateDraft, version: RateCardVersion, in_force: Sequence[Rate]) -> None:
    wanted = {key_of(line): line for line in draft.lines.select_related("flavor")}
    for rate in in_force:
        line = wanted.get(key_of(rate))
        if line is not None and terms_of(rate) == terms_of(line):
            del wanted[key_of(rate)]
        else:
            rate.valid_to = version.valid_from
            rate.save(update_fields=["valid_to"])
    for line in wanted.values():
        rate = Rate(
            card=draft.card,
            version=version,
            flavor=line.flavor,
            resource_name=line.resource_name,
            meter=line.meter,
            price_class=line.price_class,
        )
        for name in TERMS:
            setattr(rate, name, getattr(line, name))
        rate.valid_from, rate.created_by = version.valid_from, version.published_by
        rate.save(force_insert=True)
        RateTier.objects.bulk_create(
            [RateTier(rate=rate, from_unit_hours=hours, price_micro=micro) for hours, micro in line.tiers]
        )


def _open(actor: Actor, draft: RateDraft) -> RateDraft:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    held = (
        RateDraft.objects.select_for_update(of=("self",)).select_related("card").filter(pk=draft.pk).first()
    )
    if held is None or held.published_id is not None:
        raise Conflict("this draft is already published or discarded; create a new draft")
    return held


def _session_check(terms: LineTerms, meter: Meter) -> None:
    if not 1 <= terms.increment_seconds <= DAY:
        raise Invalid.field("increment_seconds", f"an increment must be between 1 and {DAY:,} seconds")
    if not 0 <= terms.minimum_seconds <= DAY:
        raise Invalid.field("minimum_seconds", f"a minimum must be between 0 and {DAY:,} seconds")
    if meter in TOKEN_METERS and (terms.increment_seconds, terms.minimum_seconds) != (1, 0):
        field = "minimum_seconds" if terms.increment_seconds == 1 else "increment_seconds"
        raise Invalid.field(field, "tokens have no sessions: the increment is 1 and the minimum 0")


def _tiers(terms: LineTerms, meter: Meter) -> list[list[int]]:
    unit = MILLION_TOKENS if meter in TOKEN_METERS else "hours"
    if terms.tier_mode not in TierMode.values:
        raise Invalid.field("tier_mode", "the tier mode must be graduated, volume, or empty")
    if bool(terms.tier_mode) != bool(terms.tiers):
        raise Invalid.field("tiers", f"give the {unit} from which each tier applies, or choose one price")
    tiers = [[hours, price_parse(price, field="tiers")] for hours, price in terms.tiers]
    steps = [hours for hours, _ in tiers]
    if len(steps) > TIERS_MOST or any(hours > HOURS_MOST for hours in steps):
        raise Invalid.field("tiers", f"at most {TIERS_MOST} tiers, none from above {HOURS_MOST:,} {unit}")
    if any(hours <= 0 for hours in steps) or steps != sorted(set(steps)):
        raise Invalid.field("tiers", f"tiers must start above 0 {unit}, each above the one before")
    return tiers

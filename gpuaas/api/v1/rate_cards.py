"""Rate cards for operators: versions and their prices, drafts with what last month would have cost, publication."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import RateCard, RateDraft
from billing.months import month_parse
from billing.selectors import cards
from billing.selectors.previews import draft_preview, preview_month, preview_total
from billing.services import (
    LineTerms,
    rate_card_make,
    rate_draft_discard,
    rate_draft_line_remove,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_version_withdraw,
)
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.rate_card_shapes import (
    CardPriceOutput,
    CardQuery,
    RateCardInput,
    RateCardOutput,
    RateDraftLineInput,
    RateDraftOutput,
    RateDraftPublishInput,
    RatePreviewOutput,
    RatePreviewQuery,
    RateVersionOutput,
)
from gpuaas.api.views import ApiView
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid, NotFound
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "platform"


def flavor_named(slug: str | None) -> Flavor | None:
    if slug is None:
        return None
    found = Flavor.objects.filter(slug=slug).first()
    if found is None:
        raise Invalid.field("flavor", f"there is no flavor {slug!r}")
    return found


class RateCardsView(ApiView):
    @operation(
        "platform_rate_card_list", "Rate cards", tag=TAG, answer=page_of(RateCardOutput), query=CardQuery
    )
    def get(self, request: Request) -> Response:
        """The standard card of each currency and the own cards of organizations."""
        del request
        rows = cards.rate_cards_for(actor=self.actor)
        if "currency" in self.params:
            rows = rows.filter(currency=self.params["currency"])
        return self.page(rows, RateCardOutput, key="slug")

    @operation(
        "platform_rate_card_make",
        "Make a rate card",
        tag=TAG,
        body=RateCardInput,
        answer=RateCardOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """A standard card, or an organization's own with the prices in which it differs. The one there is where there is one."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(RateCardInput)
        slug = asked["organization"]
        organization = Organization.objects.filter(slug=slug).first() if slug is not None else None
        if slug is not None and organization is None:
            raise Invalid.field("organization", f"there is no organization {slug!r}")
        made = rate_card_make(actor=self.actor, currency=asked["currency"], organization=organization)
        return Response(
            RateCardOutput(cards.rate_card_get(actor=self.actor, slug=made.slug)).data, status=201
        )


class CardView(ApiView):
    """Views below /platform/rate-cards/{card}/…"""

    def card(self, permission: Permission = Permission.PLATFORM_VIEW) -> RateCard:
        platform_require(actor=self.actor, permission=permission)
        return cards.rate_card_get(actor=self.actor, slug=self.kwargs["card"])


class RateCardView(CardView):
    @operation("platform_rate_card", "A rate card", tag=TAG, answer=RateCardOutput)
    def get(self, request: Request, card: str) -> Response:
        """With its open draft, if there is one."""
        del request, card
        return Response(RateCardOutput(self.card()).data)


class VersionsView(CardView):
    @operation(
        "platform_rate_version_list", "Versions", tag=TAG, answer=page_of(RateVersionOutput), query=PageQuery
    )
    def get(self, request: Request, card: str) -> Response:
        """From the newest. Each holds until the next one begins; none is ever edited."""
        del request, card
        return self.page(
            cards.versions_of(actor=self.actor, card=self.card()), RateVersionOutput, key="-valid_from"
        )


class VersionView(CardView):
    @operation("platform_rate_version", "A version", tag=TAG, answer=RateVersionOutput)
    def get(self, request: Request, card: str, version: int) -> Response:
        """When it holds, and who published it."""
        del request, card
        found = cards.version_get(actor=self.actor, card=self.card(), number=version)
        return Response(RateVersionOutput(found).data)

    @operation("platform_rate_version_withdraw", "Withdraw a version", tag=TAG, status=204)
    def delete(self, request: Request, card: str, version: int) -> Response:
        """An announced one: prices go on as they were, and its draft is open again. 409 once it has begun."""
        del request, card
        row = self.card(Permission.PLATFORM_MANAGE)
        found = cards.version_get(actor=self.actor, card=row, number=version)
        rate_version_withdraw(actor=self.actor, version=found)
        return Response(status=204)


class VersionPricesView(CardView):
    @operation(
        "platform_rate_version_prices",
        "Prices of a version",
        tag=TAG,
        answer=page_of(CardPriceOutput),
        query=PageQuery,
    )
    def get(self, request: Request, card: str, version: int) -> Response:
        """The whole list at its beginning, also what earlier versions have begun."""
        del request, card
        row = self.card()
        found = cards.version_get(actor=self.actor, card=row, number=version)
        return self.page(cards.prices_of(card=row, at=found.valid_from), CardPriceOutput, key="pk")


class CardDraftsView(CardView):
    @operation("platform_rate_draft_open", "Begin a draft", tag=TAG, answer=RateDraftOutput, status=201)
    @idempotent
    def post(self, request: Request, card: str) -> Response:
        """With all prices in force; the open one where there is one, as a card has one draft at a time."""
        del request, card
        made = rate_draft_open(actor=self.actor, card=self.card(Permission.PLATFORM_MANAGE))
        return Response(draft_shown(cards.draft_get(actor=self.actor, draft_id=made.pk)), status=201)


class DraftBase(ApiView):
    """Views below /platform/rate-drafts/{draft}/…: by its own id, so that nobody changes or publishes the next one."""

    def draft(self, permission: Permission = Permission.PLATFORM_VIEW) -> RateDraft:
        platform_require(actor=self.actor, permission=permission)
        return cards.draft_get(actor=self.actor, draft_id=self.kwargs["draft"])


def draft_shown(draft: RateDraft) -> dict[str, object]:
    rows = cards.draft_rows(draft=draft)
    kept = [row.line for row in rows if row.line]
    context = {"rows": rows, "fingerprint": cards.draft_fingerprint(lines=kept)}
    return dict(RateDraftOutput(draft, context=context).data)


class DraftView(DraftBase):
    @operation("platform_rate_draft", "A draft", tag=TAG, answer=RateDraftOutput)
    def get(self, request: Request, draft: uuid.UUID) -> Response:
        """Every price beside the one in force, also those that it takes away."""
        del request, draft
        return Response(draft_shown(self.draft()))

    @operation("platform_rate_draft_discard", "Discard a draft", tag=TAG, status=204)
    def delete(self, request: Request, draft: uuid.UUID) -> Response:
        """Prices stay as they are. 409 once it is published."""
        del request, draft
        rate_draft_discard(actor=self.actor, draft=self.draft(Permission.PLATFORM_MANAGE))
        return Response(status=204)


class DraftLinesView(DraftBase):
    @operation(
        "platform_rate_draft_line_set",
        "Set a price of a draft",
        tag=TAG,
        body=RateDraftLineInput,
        answer=RateDraftOutput,
    )
    def put(self, request: Request, draft: uuid.UUID) -> Response:
        """All terms of one flavor and meter at once: added, or in the place of what the draft has."""
        del request, draft
        row, asked = self.draft(Permission.PLATFORM_MANAGE), self.input(RateDraftLineInput)
        flavor, meter = flavor_named(asked.pop("flavor")), asked.pop("meter")
        tiers = [(tier["from_unit_hours"], tier["price"]) for tier in asked.pop("tiers")]
        terms = LineTerms(**asked, tiers=tiers)
        rate_draft_line_set(actor=self.actor, draft=row, flavor=flavor, meter=meter, terms=terms)
        return Response(draft_shown(self.draft()))


class DraftLineView(DraftBase):
    @operation("platform_rate_draft_line_remove", "Take a price out of a draft", tag=TAG, status=204)
    def delete(self, request: Request, draft: uuid.UUID, line: uuid.UUID) -> Response:
        """From its publication on the card has no price for it."""
        del request, draft
        row = self.draft(Permission.PLATFORM_MANAGE)
        found = row.lines.filter(pk=line).first()
        if found is None:
            raise NotFound("there is no such price in this draft")
        rate_draft_line_remove(actor=self.actor, draft=row, line=found)
        return Response(status=204)


class DraftPreviewView(DraftBase):
    @operation(
        "platform_rate_draft_preview",
        "What a month would have cost",
        tag=TAG,
        answer=RatePreviewOutput,
        query=RatePreviewQuery,
    )
    def get(self, request: Request, draft: uuid.UUID) -> Response:
        """By the prices of its time and by the draft, per organization and project that the card may charge."""
        del request, draft
        row = self.draft()
        month = month_parse(self.params["month"]) if "month" in self.params else preview_month()
        found = draft_preview(actor=self.actor, draft=row, month=month)
        said = {
            "month": month,
            "currency": row.card.currency,
            "total": preview_total(previews=found),
            "organizations": found,
        }
        return Response(RatePreviewOutput(said).data)


class DraftPublishView(DraftBase):
    @operation(
        "platform_rate_draft_publish",
        "Publish a draft",
        tag=TAG,
        body=RateDraftPublishInput,
        answer=RateVersionOutput,
        status=201,
        also=(412,),
    )
    @idempotent
    def post(self, request: Request, draft: uuid.UUID) -> Response:
        """It becomes the card's list from `valid_from` on. 409 where somebody has published it already."""
        del request, draft
        row, asked = self.draft(Permission.PLATFORM_MANAGE), self.input(RateDraftPublishInput)
        made = rate_draft_publish(actor=self.actor, draft=row, **asked)
        version = cards.version_get(actor=self.actor, card=row.card, number=made.number)
        return Response(RateVersionOutput(version).data, status=201)

"""Rate cards for operators: versions with their prices, drafts with a preview of last month's costs, publication."""

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
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.rate_card_shapes import (
    CardPriceOutput,
    CardQuery,
    RateCardInput,
    RateCardOutput,
    RateDraftLineInput,
    RateDraftOutput,
    RateDraftPublishInput,
    RateDraftRowOutput,
    RatePreviewOutput,
    RatePreviewQuery,
    RateVersionOutput,
)
from gpuaas.api.views import PlatformView
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.rows import first_of, one_or_none
from tenants.models import Organization


def flavor_named(slug: str | None) -> Flavor | None:
    if slug is None:
        return None
    found = one_or_none(Flavor.objects.filter(slug=slug))
    if found is None:
        raise Invalid.field("flavor", f"there is no flavor {slug!r}")
    return found


class RateCardsView(PlatformView):
    @operation("platform_rate_card_list", "List rate cards", rows=RateCardOutput, query=CardQuery)
    def get(self, request: Request) -> Response:
        """Lists the standard rate card of each currency and the organizations' own cards."""
        rows = cards.rate_cards_for(actor=self.actor)
        if "currency" in self.params:
            rows = rows.filter(currency=self.params["currency"])
        return self.page(rows, RateCardOutput, key="slug")

    @operation("platform_rate_card_make", "Create a rate card", body=RateCardInput, created=RateCardOutput)
    @idempotent
    def post(self, request: Request) -> Response:
        """Creates a standard card, or an organization's own card with the prices in which it differs. Returns the
        existing card if there is one."""
        asked = self.input(RateCardInput)
        slug = asked["organization"]
        organization = one_or_none(Organization.objects.filter(slug=slug)) if slug is not None else None
        if slug is not None and organization is None:
            raise Invalid.field("organization", f"there is no organization {slug!r}")
        made = rate_card_make(actor=self.actor, currency=asked["currency"], organization=organization)
        return Response(
            RateCardOutput(cards.rate_card_get(actor=self.actor, slug=made.slug)).data, status=201
        )


class CardView(PlatformView):
    """Views below /platform/rate-cards/{card}/…"""

    def card(self) -> RateCard:
        return cards.rate_card_get(actor=self.actor, slug=self.kwargs["card"])


class RateCardView(CardView):
    @operation("platform_rate_card", "Get a rate card", answer=RateCardOutput)
    def get(self, request: Request, card: str) -> Response:
        """Returns the card with its open draft, if there is one."""
        return Response(RateCardOutput(self.card()).data)


class VersionsView(CardView):
    @operation("platform_rate_version_list", "List versions of a rate card", rows=RateVersionOutput)
    def get(self, request: Request, card: str) -> Response:
        """Newest first. Each version is valid until the next one starts; versions are never edited."""
        return self.page(
            cards.versions_of(actor=self.actor, card=self.card()), RateVersionOutput, key="-valid_from"
        )


class VersionView(CardView):
    @operation("platform_rate_version", "Get a version", answer=RateVersionOutput)
    def get(self, request: Request, card: str, version: int) -> Response:
        """Returns when it is valid and who published it."""
        found = cards.version_get(actor=self.actor, card=self.card(), number=version)
        return Response(RateVersionOutput(found).data)

    @operation("platform_rate_version_withdraw", "Withdraw a version")
    def delete(self, request: Request, card: str, version: int) -> Response:
        """Withdraws a version that has not started: the present prices stay, and its draft is open again. 409 once it
        has started."""
        row = self.card()
        found = cards.version_get(actor=self.actor, card=row, number=version)
        rate_version_withdraw(actor=self.actor, version=found)
        return Response(status=204)


class VersionPricesView(CardView):
    @operation("platform_rate_version_prices", "List prices of a version", rows=CardPriceOutput)
    def get(self, request: Request, card: str, version: int) -> Response:
        """Returns the complete price list at the start of the version, prices from earlier versions included."""
        row = self.card()
        found = cards.version_get(actor=self.actor, card=row, number=version)
        return self.page(cards.prices_of(card=row, at=found.valid_from), CardPriceOutput, key="pk")


class CardDraftsView(CardView):
    @operation("platform_rate_draft_open", "Create a draft", created=RateDraftOutput)
    @idempotent
    def post(self, request: Request, card: str) -> Response:
        """Creates a draft with all prices in force, or with those of the newest announced version. A card has one draft at a
        time; if one is open, it is returned."""
        made = rate_draft_open(actor=self.actor, card=self.card())
        return Response(draft_shown(cards.draft_get(actor=self.actor, draft_id=made.pk)), status=201)


class DraftBase(PlatformView):
    """Views below /platform/rate-drafts/{draft}/…: by the draft's own id, so that nobody changes or publishes its
    successor by mistake."""

    def draft(self) -> RateDraft:
        return cards.draft_get(actor=self.actor, draft_id=self.kwargs["draft"])


def draft_shown(draft: RateDraft) -> dict[str, object]:
    rows = cards.draft_rows(draft=draft)
    lines = [row.line for row in rows if row.line]
    context = {"rows": rows, "fingerprint": cards.draft_fingerprint(lines=lines)}
    return dict(RateDraftOutput(draft, context=context).data)


class DraftView(DraftBase):
    @operation("platform_rate_draft", "Get a draft", answer=RateDraftOutput)
    def get(self, request: Request, draft: uuid.UUID) -> Response:
        """Returns every price beside the one in force, prices that the draft removes included."""
        return Response(draft_shown(self.draft()))

    @operation("platform_rate_draft_discard", "Discard a draft")
    def delete(self, request: Request, draft: uuid.UUID) -> Response:
        """Prices do not change. 409 once the draft is published."""
        rate_draft_discard(actor=self.actor, draft=self.draft())
        return Response(status=204)


class DraftLinesView(DraftBase):
    @operation("platform_rate_draft_line_list", "List prices of a draft", rows=RateDraftRowOutput)
    def get(self, request: Request, draft: uuid.UUID) -> Response:
        """Lists the prices of the draft, each beside the one in force; prices that it removes are only in the draft
        itself."""
        rows = [row for row in cards.draft_rows(draft=self.draft()) if row.line is not None]
        return self.page(rows, RateDraftRowOutput, key="line__pk")

    @operation(
        "platform_rate_draft_line_set",
        "Set a price in a draft",
        body=RateDraftLineInput,
        answer=RateDraftOutput,
    )
    def put(self, request: Request, draft: uuid.UUID) -> Response:
        """Sets all terms of one flavor and meter: adds a price, or replaces that of the draft."""
        row, asked = self.draft(), self.input(RateDraftLineInput)
        ware = {"flavor": flavor_named(asked.pop("flavor")), "resource": asked.pop("resource")}
        meter = asked.pop("meter")
        tiers = [(tier["from_unit_hours"], tier["price"]) for tier in asked.pop("tiers")]
        terms = LineTerms(**asked, tiers=tiers)
        rate_draft_line_set(actor=self.actor, draft=row, **ware, meter=meter, terms=terms)
        return Response(draft_shown(self.draft()))


class DraftLineView(DraftBase):
    @operation("platform_rate_draft_line", "Get a price of a draft", answer=RateDraftRowOutput)
    def get(self, request: Request, draft: uuid.UUID, line: uuid.UUID) -> Response:
        """Returns its terms beside the price in force."""
        rows = cards.draft_rows(draft=self.draft())
        found = next((row for row in rows if row.line is not None and row.line.pk == line), None)
        if found is None:
            raise NotFound("there is no such price in this draft")
        return Response(RateDraftRowOutput(found).data)

    @operation("platform_rate_draft_line_remove", "Remove a price from a draft")
    def delete(self, request: Request, draft: uuid.UUID, line: uuid.UUID) -> Response:
        """The card has no price for it from the publication on."""
        row = self.draft()
        found = first_of(row.lines.filter(pk=line), "price in this draft")
        rate_draft_line_remove(actor=self.actor, draft=row, line=found)
        return Response(status=204)


class DraftPreviewView(DraftBase):
    @operation(
        "platform_rate_draft_preview",
        "Preview a month by a draft",
        answer=RatePreviewOutput,
        query=RatePreviewQuery,
    )
    def get(self, request: Request, draft: uuid.UUID) -> Response:
        """Compares a month by the prices of its time with the same month by the draft, per organization and project
        that the card charges."""
        row = self.draft()
        month = month_parse(self.params["month"]) if "month" in self.params else preview_month()
        previews = draft_preview(actor=self.actor, draft=row, month=month)
        data = {
            "month": month,
            "currency": row.card.currency,
            "total": preview_total(previews=previews),
            "organizations": previews,
        }
        return Response(RatePreviewOutput(data).data)


class DraftPublishView(DraftBase):
    @operation(
        "platform_rate_draft_publish",
        "Publish a draft",
        body=RateDraftPublishInput,
        created=RateVersionOutput,
        also=(412,),
    )
    @idempotent
    def post(self, request: Request, draft: uuid.UUID) -> Response:
        """The draft becomes the price list of the card at `valid_from`. 409 if it was already published."""
        row, asked = self.draft(), self.input(RateDraftPublishInput)
        made = rate_draft_publish(actor=self.actor, draft=row, **asked)
        version = cards.version_get(actor=self.actor, card=row.card, number=made.number)
        return Response(RateVersionOutput(version).data, status=201)

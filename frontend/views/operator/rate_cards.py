"""Rate cards: the list, a card with its versions on a line of time, and the beginning of a draft."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from billing.models import RateCard, RateCardVersion
from billing.selectors import cards
from billing.selectors.accounts import currencies_of
from billing.services import rate_card_make, rate_draft_open, rate_version_withdraw
from frontend.forms.rates import CardForm
from frontend.frame import checked, done, fits, number_of, posted, refusals_on, refusals_shown
from frontend.lists import Column, Listing, find, list_page, named, paged, saying
from frontend.presenters.rate_cards import price_rows, version_rows
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from tenants.models import Organization

CARDS = ("Rate cards", "operator_rate_cards")


LIST = Listing(
    "cards",
    columns=(
        Column("name", "Card", "name"),
        Column("slug"),
        Column("organization", "For", "organization__name", "organization.slug"),
        Column("currency", "Currency", "currency"),
        Column("prices", "Prices in force", "prices", numeric=True),
        Column("versions", "Versions", "version_count", "version_count", numeric=True),
        Column("draft", "Draft", value=lambda card: "open" if card.draft_id else ""),
    ),
    filters=(find("Find a card", "Card or organization"),),
)


@operator_page
@checked
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    form = CardForm(posted(request), initial={"organization": request.GET.get("organization", "")})
    if form.is_valid() and (made := _made(request, here, form)):
        return redirect("frontend:operator_rate_card", made.slug)
    found = LIST.of(
        request,
        lambda query: named(
            cards.rate_cards_for(actor=here.actor), query["q"], "name", "slug", "organization__name"
        ),
    )
    context = {"form": form, "crumbs": crumbs("Money", ("Rate cards", ""))}
    return list_page(request, "operator/rate_cards.html", found, context)


def _made(request: HttpRequest, here: OperatorPlace, form: CardForm) -> RateCard | None:
    slug = form.cleaned_data["organization"].strip()
    organization = Organization.objects.filter(slug=slug).first() if slug else None
    if slug and organization is None:
        form.add_error("organization", "There is no such organization; write its short name.")
        return None
    with refusals_on(form, Invalid):
        currency = form.cleaned_data["currency"].strip().upper()
        made = rate_card_make(actor=here.actor, currency=currency, organization=organization)
        fits(request)
        return made
    return None


PRICES = Listing(
    "prices",
    columns=(
        Column("item", "Item", "what__name", "what.name"),
        Column("note", value="what.note"),
        Column("counted", "Counted", "what__counted", "what.counted"),
        Column("price", "Price", "price", "price", numeric=True),
        Column("terms", "More terms", value=lambda each: "; ".join(each.terms)),
        Column("version", "Since", "rate__version__number", "rate.version.number"),
    ),
    filters=(find("Find an item", "Item"),),
    mark="prices-",
)


@operator_page
def card(request: HttpRequest, here: OperatorPlace, card: str) -> HttpResponseBase:
    """The list of the version that `?version=` names, or of the one in force."""
    row, now = cards.rate_card_get(actor=here.actor, slug=card), here.now
    page = paged(request, cards.versions_of(actor=here.actor, card=row))
    chosen = _chosen(request, here, row)
    at = chosen.valid_from if chosen else now
    ends = {each.pk: (each.valid_to, each.changes) for each in page}
    context = {
        "card": row,
        "page": page,
        "versions": version_rows(list(page), ends, now),
        "chosen": chosen,
        "withdrawable": _withdrawable(here, row),
        "crumbs": crumbs("Money", CARDS, (row.name, "")),
    }
    prices = price_rows(cards.prices_of(card=row, at=at), row.currency)
    found = PRICES.of(
        request,
        lambda query: saying(
            prices, query["q"], lambda each: f"{each.what.name} {each.what.note} {each.what.counted}"
        ),
    )
    return list_page(request, "operator/rate_card.html", found, context)


def _withdrawable(here: OperatorPlace, row: RateCard) -> RateCardVersion | None:
    """The newest one, while it is only announced."""
    newest = cards.versions_of(actor=here.actor, card=row).first()
    return newest if newest is not None and newest.valid_from > here.now and here.may_manage else None


@operator_action
def withdraw(request: HttpRequest, here: OperatorPlace, card: str, version: int) -> HttpResponse:
    row = cards.rate_card_get(actor=here.actor, slug=card)
    found = cards.version_get(actor=here.actor, card=row, number=version)
    with refusals_shown(request, Conflict):
        draft = rate_version_withdraw(actor=here.actor, version=found)
        messages.success(request, f"Version {version} withdrawn. Current prices stay in force.")
        if draft is not None:
            return redirect("frontend:operator_rate_draft", draft.pk)
    return redirect("frontend:operator_rate_card", row.slug)


def _chosen(request: HttpRequest, here: OperatorPlace, row: RateCard) -> RateCardVersion | None:
    number = number_of(request.GET.get("version", ""))
    return None if number is None else cards.version_get(actor=here.actor, card=row, number=number)


@operator_action
def draft_open(request: HttpRequest, here: OperatorPlace, card: str) -> HttpResponse:
    """The open one where there is one: somebody else may have begun it a moment ago."""
    row = cards.rate_card_get(actor=here.actor, slug=card)
    made = rate_draft_open(actor=here.actor, card=row)
    if made.created_by != here.actor.name:
        messages.info(request, f"{made.created_by} started this draft; you share it.")
    return redirect("frontend:operator_rate_draft", made.pk)


@operator_action
def own(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """An organization's own card in the currency in which it pays."""
    row = first_of(Organization.objects.filter(slug=slug), "organization")
    currency = currencies_of(organizations=[row.pk])[row.pk]
    made = rate_card_make(actor=here.actor, currency=currency, organization=row)
    text = f"Own card created for {row.name}. Its prices take precedence over the standard ones."
    return done(request, text, "frontend:operator_rate_card", made.slug)

"""Rate cards: the list, a card with its versions on a line of time, and the beginning of a draft."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from billing.models import RateCard, RateCardVersion
from billing.selectors import cards
from billing.selectors.accounts import currencies_of
from billing.services import rate_card_make, rate_draft_open, rate_version_withdraw
from frontend.forms import refuse, sentence_of
from frontend.forms.rates import CardForm
from frontend.presenters.rate_cards import price_rows, version_rows
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, paged
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NotFound
from tenants.models import Organization

CARDS = ("Rate cards", "operator_rate_cards")


@operator_page
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    form = CardForm(request.POST or None, initial={"organization": request.GET.get("organization", "")})
    if request.method == "POST" and form.is_valid():
        made = _made(here, form)
        if made is not None:
            return redirect("frontend:operator_rate_card", made.slug)
    page = paged(request, cards.rate_cards_for(actor=here.actor))
    context = {"place": here, "page": page, "form": form, "crumbs": crumbs("Money", ("Rate cards", ""))}
    return render(request, "operator/rate_cards.html", context, status=422 if form.errors else 200)


def _made(here: OperatorPlace, form: CardForm) -> RateCard | None:
    slug = form.cleaned_data["organization"].strip()
    organization = Organization.objects.filter(slug=slug).first() if slug else None
    if slug and organization is None:
        form.add_error("organization", "There is no such organization; write its short name.")
        return None
    try:
        currency = form.cleaned_data["currency"].strip().upper()
        return rate_card_make(actor=here.actor, currency=currency, organization=organization)
    except Invalid as error:
        refuse(form, error)
        return None


@operator_page
def card(request: HttpRequest, here: OperatorPlace, card: str) -> HttpResponse:
    """The list of the version that `?version=` names, or of the one in force."""
    row, now = cards.rate_card_get(actor=here.actor, slug=card), clock.now()
    page = paged(request, cards.versions_of(actor=here.actor, card=row))
    chosen = _chosen(request, here, row)
    at = chosen.valid_from if chosen else now
    ends = {each.pk: (each.valid_to, each.changes) for each in page}  # type: ignore[attr-defined]  # annotated
    context = {
        "place": here,
        "card": row,
        "page": page,
        "versions": version_rows(list(page), ends, now),
        "chosen": chosen,
        "withdrawable": _withdrawable(here, row),
        "prices": price_rows(cards.prices_of(card=row, at=at), row.currency),
        "crumbs": crumbs("Money", CARDS, (row.name, "")),
    }
    return render(request, "operator/rate_card.html", context)


def _withdrawable(here: OperatorPlace, row: RateCard) -> RateCardVersion | None:
    """The newest one, while it is only announced."""
    newest = cards.versions_of(actor=here.actor, card=row).first()
    return newest if newest is not None and newest.valid_from > clock.now() and here.may_manage else None


@operator_action
def withdraw(request: HttpRequest, here: OperatorPlace, card: str, version: int) -> HttpResponse:
    row = cards.rate_card_get(actor=here.actor, slug=card)
    found = cards.version_get(actor=here.actor, card=row, number=version)
    try:
        draft = rate_version_withdraw(actor=here.actor, version=found)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
        return redirect("frontend:operator_rate_card", row.slug)
    messages.success(request, f"Version {version} is withdrawn; prices go on as they were.")
    if draft is not None:
        return redirect("frontend:operator_rate_draft", draft.pk)
    return redirect("frontend:operator_rate_card", row.slug)


def _chosen(request: HttpRequest, here: OperatorPlace, row: RateCard) -> RateCardVersion | None:
    number = request.GET.get("version", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        return None
    return cards.version_get(actor=here.actor, card=row, number=int(number))


@operator_action
def draft_open(request: HttpRequest, here: OperatorPlace, card: str) -> HttpResponse:
    """The open one where there is one: somebody else may have begun it a moment ago."""
    row = cards.rate_card_get(actor=here.actor, slug=card)
    made = rate_draft_open(actor=here.actor, card=row)
    if made.created_by != here.actor.name:
        messages.info(request, f"{made.created_by} has begun this draft; you work on it together.")
    return redirect("frontend:operator_rate_draft", made.pk)


@operator_action
def own(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    """An organization's own card in the currency in which it pays."""
    row = Organization.objects.filter(slug=slug).first()
    if row is None:
        raise NotFound("there is no such organization")
    currency = currencies_of(organizations=[row.pk])[row.pk]
    made = rate_card_make(actor=here.actor, currency=currency, organization=row)
    messages.success(request, f"{row.name} has its own card; its prices go before the standard ones.")
    return redirect("frontend:operator_rate_card", made.slug)

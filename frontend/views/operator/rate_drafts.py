"""A draft of a rate card: its prices, what last month would have cost, publication and the end of it."""

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from billing.models import RateDraft
from billing.money import price_of
from billing.months import month_next, month_of, month_span
from billing.selectors import cards
from billing.selectors.cards import DraftRow
from billing.selectors.previews import draft_preview, preview_month, preview_total
from billing.services import (
    LineTerms,
    rate_draft_discard,
    rate_draft_line_remove,
    rate_draft_line_set,
    rate_draft_publish,
)
from frontend.forms import refuse, sentence_of
from frontend.forms.rates import PublishForm, TermsForm, terms_shown
from frontend.presenters.money import SHARED
from frontend.presenters.rate_cards import draft_row_shown, draft_rows_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page
from frontend.views.operator.rate_cards import CARDS
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, NotFound, StaleVersion


@operator_page
def draft(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID) -> HttpResponse:
    return _editor(request, here, cards.draft_get(actor=here.actor, draft_id=draft))


def _editor(
    request: HttpRequest,
    here: OperatorPlace,
    row: RateDraft,
    *,
    form: TermsForm | None = None,
    publishing: PublishForm | None = None,
    status: int = 200,
) -> HttpResponse:
    rows = cards.draft_rows(draft=row)
    form = form or _terms_form(request, rows)
    first = timezone.localtime(month_span(month_next(month_of(clock.now()))).starts_at)
    context = {
        "place": here,
        "draft": row,
        "card": row.card,
        "open": row.published is None,
        "may_change": row.published is None and here.may_manage,
        "rows": draft_rows_shown(rows, row.card.currency),
        "beside": cards.rates_beside(draft=row)[:5] if row.published is None else (),
        "form": form,
        "flavors": Flavor.objects.order_by("slug"),
        "shared": [(meter.value, name) for meter, name in SHARED.items()],
        "publishing": publishing or PublishForm(initial={"valid_from": first}, auto_id="publish_%s"),
        "publish_opened": publishing is not None,
        "crumbs": crumbs("Money", CARDS, ("Draft", "")),
    }
    return render(request, "operator/rate_draft.html", context, status=status)


def _terms_form(request: HttpRequest, rows: list[DraftRow]) -> TermsForm:
    """Filled with the price that `?line=` names, also one that the draft takes away."""
    wanted = request.GET.get("line", "")
    shown = next((row.shown for row in rows if str(row.shown.pk) == wanted), None)
    if shown is None:
        return TermsForm()
    first = terms_shown(shown)
    return TermsForm(initial=first, rows=sum(name.startswith("from_") for name in first) + 1)


@operator_action
def line_set(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID) -> HttpResponse:
    """All terms of one price."""
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    form = TermsForm(request.POST, rows=sum(name.startswith("from_") for name in request.POST))
    if form.is_valid() and _is_set(here, row, form):
        messages.success(request, f"The draft has a new price of {form.cleaned_data['what']}.")
        return redirect("frontend:operator_rate_draft", row.pk)
    return _editor(request, here, row, form=form, status=422)


def _is_set(here: OperatorPlace, row: RateDraft, form: TermsForm) -> bool:
    what = form.cleaned_data["what"]
    shared = {meter.value for meter in SHARED}
    flavor = None if what in shared else Flavor.objects.filter(slug=what).first()
    if flavor is None and what not in shared:
        form.add_error("what", "There is no such flavor.")
        return False
    meter = form.cleaned_data["meter"] if flavor else what
    try:
        rate_draft_line_set(actor=here.actor, draft=row, flavor=flavor, meter=meter, terms=form.terms())
    except (Invalid, Conflict) as error:
        refuse(form, error, fields={"flavor": "what", "tiers": "from_1"})
        return False
    return True


@operator_action
def price_set(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID, line: uuid.UUID) -> HttpResponse:
    """Only the number, typed into the table; the answer is its row, and the preview fetches itself."""
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    found = row.lines.select_related("flavor").filter(pk=line).first()
    if found is None:
        raise NotFound("there is no such price in this draft")
    typed, error = request.POST.get("price", "").strip(), ""
    terms = LineTerms(
        price=typed,
        increment_seconds=found.increment_seconds,
        minimum_seconds=found.minimum_seconds,
        tier_mode=found.tier_mode,
        tiers=[(hours, price_of(micro)) for hours, micro in found.tiers],
        surplus_percent=found.surplus_percent,
    )
    try:
        rate_draft_line_set(actor=here.actor, draft=row, flavor=found.flavor, meter=found.meter, terms=terms)
    except (Invalid, Conflict) as refused:
        error = sentence_of(refused.message)
    shown = next(each for each in cards.draft_rows(draft=row) if each.line and each.line.pk == line)
    context = {
        "row": draft_row_shown(shown, row.card.currency, typed=typed if error else None, error=error),
        "draft": row,
        "card": row.card,
        "may_change": here.may_manage,
    }
    answer = render(request, "operator/_draft_row.html", context, status=422 if error else 200)
    if not error:
        answer["HX-Trigger"] = "draft-changed"
    return answer


@operator_action
def line_remove(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID, line: uuid.UUID) -> HttpResponse:
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    found = row.lines.filter(pk=line).first()
    if found is None:
        raise NotFound("there is no such price in this draft")
    try:
        rate_draft_line_remove(actor=here.actor, draft=row, line=found)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    return redirect("frontend:operator_rate_draft", row.pk)


@operator_page
def preview(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID) -> HttpResponse:
    """The part of the editor that fetches itself after every change."""
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    found = draft_preview(actor=here.actor, draft=row)
    total = preview_total(previews=found)
    context = {
        "month": preview_month(),
        "currency": row.card.currency,
        "previews": found,
        "total": total,
        "fingerprint": cards.draft_fingerprint(lines=row.lines.all()),
    }
    return render(request, "operator/_draft_preview.html", context)


@operator_action
def publish(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID) -> HttpResponse:
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    form = PublishForm(request.POST, auto_id="publish_%s")
    if form.is_valid():
        try:
            made = rate_draft_publish(
                actor=here.actor,
                draft=row,
                valid_from=form.start(),
                note=form.cleaned_data["note"],
                fingerprint=form.cleaned_data["fingerprint"],
            )
        except (Invalid, Conflict, StaleVersion) as error:
            refuse(form, error)
        else:
            messages.success(request, f"Version {made.number} of {row.card.name} is published.")
            return redirect("frontend:operator_rate_card", row.card.slug)
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    return _editor(request, here, row, publishing=form, status=422)


@operator_action
def discard(request: HttpRequest, here: OperatorPlace, draft: uuid.UUID) -> HttpResponse:
    row = cards.draft_get(actor=here.actor, draft_id=draft)
    try:
        rate_draft_discard(actor=here.actor, draft=row)
    except Conflict as error:
        messages.error(request, sentence_of(error.message))
    else:
        messages.success(request, "The draft is discarded; prices stay as they are.")
    return redirect("frontend:operator_rate_card", row.card.slug)

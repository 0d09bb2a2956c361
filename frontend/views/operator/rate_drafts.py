"""A draft of a rate card: its prices, what last month would have cost, publication and the end of it."""

import uuid
from functools import cache, partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from billing.models import RateDraft, RateDraftLine
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
from frontend import toasts
from frontend.doors import is_piece
from frontend.forms import sentence_of
from frontend.forms.rates import PublishForm, TermsForm, meter_named, terms_shown, ware_named, what_value
from frontend.frame import checked, done, fits, refusals_on, refusals_shown, sent, undo_by
from frontend.lists import Column, Listing, find, list_page, saying
from frontend.presenters.money import SHARED
from frontend.presenters.rate_cards import draft_row_shown, draft_rows_shown, projects_previewed
from frontend.presenters.unpriced import shared_choices, unsold_choices
from frontend.views.operator.common import OperatorPlace, crumbs, row_doors
from frontend.views.operator.rate_cards import CARDS
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.rows import first_of
from gpuaas.metering.models import Meter


def _draft(here: OperatorPlace, draft: uuid.UUID) -> RateDraft:
    return cards.draft_get(actor=here.actor, draft_id=draft)


draft_page, draft_action = row_doors(_draft, "draft")


LIST = Listing(
    "prices",
    columns=(
        Column("item", "Item", "what__name", "what.name"),
        Column("note", value="what.note"),
        Column("counted", "Counted", "what__counted", "what.counted"),
        Column("now", "Now", "now", "now", numeric=True),
        Column("draft", "Draft", "line__price", "line.price", numeric=True),
        Column("terms", "More terms", value=lambda line: "; ".join(line.terms)),
        Column("change", "Change", "word", "word"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find("Find an item", "Item"),),
)
PREVIEW = Listing(
    "projects",
    columns=(
        Column("project", "Project", "project"),
        Column("organization", "Organization", "organization"),
        Column("actual", "Actual", "sides__before", "sides.before", numeric=True),
        Column("with_draft", "With the draft", "sides__after", "sides.after", numeric=True),
        Column("difference", "Difference", "sides__difference", "sides.difference", numeric=True),
        Column("difference_of_organization", value="of_organization"),
        Column("unpriced_unit_seconds", value="sides.unpriced_after"),
        Column("currency"),
    ),
    filters=(find("Find a project or organization", "Project or organization"),),
    mark="preview-",
)


def _editor(
    request: HttpRequest,
    here: OperatorPlace,
    row: RateDraft,
    *,
    form: TermsForm | None = None,
    publishing: PublishForm | None = None,
) -> HttpResponseBase:
    rows = cards.draft_rows(draft=row)
    form = form or _terms_form(request, rows)
    first = timezone.localtime(month_span(month_next(month_of(here.now))).starts_at)
    context: dict[str, Any] = {
        "draft": row,
        "card": row.card,
        "open": row.published is None,
        "may_change": row.published is None and here.may_manage,
        "beside": cards.rates_beside(draft=row)[:5] if row.published is None else (),
        "form": form,
        "flavors": Flavor.objects.order_by("slug"),
        "shared": shared_choices(),
        "unsold": unsold_choices(here.actor),
        "publishing": publishing
        or PublishForm(initial={"when": "date", "valid_from": first}, auto_id="publish_%s"),
        "publish_opened": publishing is not None,
        "again": reverse("frontend:operator_rate_draft", args=[row.pk]),
        "crumbs": crumbs("Money", CARDS, ("Draft", "")),
    }
    if context["open"]:
        context |= _previewed(request, here, row, context["again"])
    lines = draft_rows_shown(rows, row.card.currency)
    found = LIST.of(
        request,
        lambda query: saying(
            lines, query["q"], lambda line: f"{line.what.name} {line.what.note} {line.what.counted}"
        ),
        without=() if context["may_change"] else {"actions"},
        page_url=context["again"],
    )
    others = [context["projects"]] if context["open"] else []
    return list_page(request, "operator/rate_draft.html", found, context, *others)


draft = draft_page(_editor)


def _terms_form(request: HttpRequest, rows: list[DraftRow]) -> TermsForm:
    """Filled with the price that `?line=` names, also one that the draft takes away."""
    wanted = request.GET.get("line", "")
    shown = next((row.shown for row in rows if str(row.shown.pk) == wanted), None)
    if shown is None:
        return TermsForm()
    first = terms_shown(shown)
    return TermsForm(initial=first, rows=sum(name.startswith("from_") for name in first) + 1)


@draft_action
@checked
def line_set(request: HttpRequest, here: OperatorPlace, row: RateDraft) -> HttpResponseBase:
    """All terms of one price."""
    asked = sent(request)
    form = TermsForm(asked, rows=sum(name.startswith("from_") for name in asked))
    before = {line.pk: _undo_to(row, line) for line in row.lines.select_related("flavor")}
    line = _set(request, here, row, form) if form.is_valid() else None
    if line is None:
        return _editor(request, here, row, form=form)
    back = before.get(line.pk) or undo_by("frontend:operator_rate_draft_line_remove", row.pk, line.pk)
    text = f"Price of {form.cleaned_data['what']} saved in the draft."
    return done(request, text, "frontend:operator_rate_draft", row.pk, undo=back)


def _undo_to(row: RateDraft, line: RateDraftLine) -> str:
    """Sets all terms of a price as they are now. Where nothing is sold by a flavor, the form ignores its meter."""
    shown = terms_shown(line) | ({"meter": Meter.GPU_HELD.value} if line.meter in SHARED else {})
    return undo_by("frontend:operator_rate_draft_line", row.pk, **shown)


def _set(request: HttpRequest, here: OperatorPlace, row: RateDraft, form: TermsForm) -> RateDraftLine | None:
    what = form.cleaned_data["what"]
    ware = ware_named(what, Flavor.objects.filter(slug=what))
    if ware is None:
        form.add_error("what", "There is no such flavor.")
        return None
    meter = meter_named(what, ware, form.cleaned_data["meter"])
    with refusals_on(
        form, Invalid, Conflict, fields={"flavor": "what", "resource": "what", "tiers": "from_1"}
    ):
        made = rate_draft_line_set(actor=here.actor, draft=row, **ware, meter=meter, terms=form.terms())
        fits(request)
        return made
    return None


@draft_action
def price_set(request: HttpRequest, here: OperatorPlace, row: RateDraft, line: uuid.UUID) -> HttpResponse:
    """Only the number, typed into the table; the answer is its row, and the preview fetches itself."""
    found = first_of(row.lines.select_related("flavor").filter(pk=line), "price in this draft")
    typed, error, back = request.POST.get("price", "").strip(), "", _undo_to(row, found)
    terms = LineTerms(
        price=typed,
        increment_seconds=found.increment_seconds,
        minimum_seconds=found.minimum_seconds,
        tier_mode=found.tier_mode,
        tiers=[(hours, price_of(micro)) for hours, micro in found.tiers],
        surplus_percent=found.surplus_percent,
    )
    try:
        rate_draft_line_set(
            actor=here.actor,
            draft=row,
            flavor=found.flavor,
            resource=found.resource_name,
            meter=found.meter,
            terms=terms,
        )
    except (Invalid, Conflict) as refused:
        error = sentence_of(refused.message)
    if not is_piece(request):  # by the button that stands beside the price where no script saves it
        if error:
            messages.error(request, error)
            return redirect("frontend:operator_rate_draft", row.pk)
        return done(request, "Price saved in the draft.", "frontend:operator_rate_draft", row.pk, undo=back)
    shown = next(each for each in cards.draft_rows(draft=row) if each.line and each.line.pk == line)
    drawn = draft_row_shown(shown, row.card.currency, typed=typed if error else None, error=error)
    context = {"row": drawn, "draft": row, "card": row.card, "may_change": here.may_manage}
    answer = render(request, "operator/_draft_row.html", context, status=422 if error else 200)
    if not error:
        title = f"Draft price of {drawn.what.name}: {drawn.typed} {row.card.currency}"
        answer["HX-Trigger"] = toasts.header(tone="ok", title=title, undo=back, also="draft-changed")
    return answer


@draft_action
def line_remove(request: HttpRequest, here: OperatorPlace, row: RateDraft, line: uuid.UUID) -> HttpResponse:
    found = first_of(row.lines.select_related("flavor").filter(pk=line), "price in this draft")
    with refusals_shown(request, Conflict):
        rate_draft_line_remove(actor=here.actor, draft=row, line=found)
        text = f"Price of {what_value(found)} removed from the draft."
        return done(request, text, "frontend:operator_rate_draft", row.pk, undo=_undo_to(row, found))
    return redirect("frontend:operator_rate_draft", row.pk)


def _previewed(request: HttpRequest, here: OperatorPlace, row: RateDraft, page_url: str) -> dict[str, Any]:
    """Rated only where `?preview` asks for it: a script does so after every change, a link where none runs."""
    rated = cache(partial(draft_preview, actor=here.actor, draft=row))
    projects = PREVIEW.of(
        request,
        lambda query: saying(
            projects_previewed(rated()), query["q"], lambda each: f"{each.project} {each.organization}"
        ),
        page_url=page_url,
    )
    found = {"projects": projects, "preview_url": projects.address(preview="1")}
    if "preview" not in request.GET:
        return found
    return found | {
        "previewed": True,
        "month": preview_month(),
        "currency": row.card.currency,
        "total": preview_total(previews=rated()),
        "fingerprint": cards.draft_fingerprint(lines=row.lines.all()),
    }


@draft_action
@checked
def publish(request: HttpRequest, here: OperatorPlace, row: RateDraft) -> HttpResponseBase:
    form = PublishForm(request.POST, auto_id="publish_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, StaleVersion):
            made = rate_draft_publish(
                actor=here.actor,
                draft=row,
                valid_from=form.start(),
                note=form.cleaned_data["note"],
                fingerprint=form.cleaned_data["fingerprint"],
            )
            text = f"Version {made.number} of {row.card.name} is published."
            return done(request, text, "frontend:operator_rate_card", row.card.slug)
    row = _draft(here, row.pk)
    return _editor(request, here, row, publishing=form)


@draft_action
def discard(request: HttpRequest, here: OperatorPlace, row: RateDraft) -> HttpResponse:
    with refusals_shown(request, Conflict):
        rate_draft_discard(actor=here.actor, draft=row)
        messages.success(request, "Draft discarded. Prices are unchanged.")
    return redirect("frontend:operator_rate_card", row.card.slug)

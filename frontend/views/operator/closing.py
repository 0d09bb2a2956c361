"""The close of a month: what is in the way, what will happen, how far it has come."""

from datetime import date

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from billing.months import month_parse
from billing.selectors import checklist, closing, documents
from billing.services.closing import month_close_request
from billing.states import CloseState
from frontend.forms import refuse
from frontend.forms.invoices import CloseForm
from frontend.frame import done, draw_page, posted
from frontend.lists import Column, Listing, list_page
from frontend.months import month_named
from frontend.presenters.closing import heading_of, progress_shown, steps_shown
from frontend.presenters.invoices import look_of
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.core.errors import Conflict, Invalid

CLOSES = ("Month close", "operator_closes")


def _page_of(month: date) -> str:
    return f"{reverse('frontend:operator_closes')}?month={month:%Y-%m}"


MONTHS = Listing(
    "months",
    columns=(
        Column("month", "Month", "month", lambda row: f"{row[0].month:%Y-%m}"),
        Column("state", "State", "state", "1.label"),
        Column("requested_by", value="0.requested_by"),
        Column("closed_at", value="0.closed_at"),
        Column("invoices", value="0.invoices"),
    ),
    size=12,
    mark="months-",
)


@operator_page
def closes(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """While it runs, only how far it is: the page asks every two seconds, and to rate the month is not free."""
    month, now = _month(request), here.now
    row = checklist.close_for(actor=here.actor, month=month)
    closed = row is not None and row.state == CloseState.CLOSED
    running = row is not None and row.state == CloseState.REQUESTED
    settled = closed or running
    months = MONTHS.of(
        request, documents.closes_for(actor=here.actor), lambda rows: [(each, look_of(each)) for each in rows]
    )
    context = {
        "month": month,
        "url": months.address(month=f"{month:%Y-%m}"),
        "close": row,
        "closed": closed,
        "running": running,
        "heading": heading_of(row, month),
        "steps": steps_shown(row) if row else (),
        "progress": progress_shown(closing.progress_of(row), now) if row else None,
        "look": look_of(row) if row else None,
        "preview": None if settled else closing.close_preview(actor=here.actor, month=month, now=now),
        "crumbs": crumbs("Money", (CLOSES[0], "")),
    }
    return list_page(request, "operator/closes.html", months, context)


def _month(request: HttpRequest) -> date:
    """The month of the query, the oldest that is not closed where it says nothing or nonsense."""
    try:
        return month_parse(request.GET.get("month", ""))
    except Invalid:
        return checklist.month_due()


@operator_page
def close(request: HttpRequest, here: OperatorPlace, month: str) -> HttpResponse:
    """What will happen, and the button. Who comes second, or may not, is sent to where it is followed."""
    first, asked = month_named(month), request.method == "POST"
    row = checklist.close_for(actor=here.actor, month=first)
    if not here.may_manage or (row is not None and row.state != CloseState.REFUSED):
        if asked and row is not None:
            messages.info(request, f"{row.requested_by} has already requested the close of {first:%B %Y}.")
        return redirect(_page_of(first))
    form = CloseForm(posted(request))
    if form.is_valid():
        try:
            made = month_close_request(actor=here.actor, month=first, accept=form.cleaned_data["accept"])
        except Invalid as error:
            refuse(form, error, fields={"month": ""}, default="accept")
        except Conflict as error:
            messages.info(request, str(error))
            return redirect(_page_of(first))
        else:
            text = f"Closing {first:%B %Y}, requested by {made.requested_by}."
            return done(request, text, _page_of(first))
    preview = closing.close_preview(actor=here.actor, month=first, now=here.now)
    form.fields["accept"].required = preview.doubtful and not preview.waits  # the browser asks for it, too
    context = {
        "month": first,
        "url": _page_of(first),
        "preview": preview,
        "form": form,
        "crumbs": crumbs("Money", CLOSES, (f"{first:%B %Y}", "")),
    }
    return draw_page(request, "operator/close_confirm.html", context)

"""Documents of all organizations, their corrections, and what pays for them."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from billing.models import Invoice
from billing.money import amount_of
from billing.selectors import balances, documents
from billing.selectors.parties import parties_of
from billing.services.notes import lines_left, note_issue
from billing.services.payments import grant_give, payment_record, write_off
from billing.states import InvoiceKind
from frontend.forms import refuse
from frontend.forms.invoices import LINE, GrantForm, NoteForm, PaymentForm, WriteOffForm
from frontend.presenters import invoices as shown
from frontend.views.invoices import KINDS, entry_shown, grant_shown, invoice_context, kind_asked
from frontend.views.operator.common import OperatorPlace, crumbs, operator_action, operator_page, paged
from gpuaas.core.errors import Conflict, Invalid
from tenants.models import Organization
from tenants.selectors import organization_get_for

INVOICES = ("Invoices", "operator_invoices")


@operator_page
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    kind = kind_asked(request)
    found = documents.invoices_all(actor=here.actor, filters=documents.InvoiceFilters(kind=kind))
    page = paged(request, found)
    context = {
        "place": here,
        "page": page,
        "rows": shown.rows_of(page),
        "kinds": KINDS,
        "kind": kind.value if kind else "",
        "crumbs": crumbs("Money", ("Invoices", "")),
    }
    return render(request, "operator/invoices.html", context)


@operator_page
def show(request: HttpRequest, here: OperatorPlace, number: str) -> HttpResponse:
    return _document(request, here, documents.invoice_get(actor=here.actor, number=number))


def _document(
    request: HttpRequest,
    here: OperatorPlace,
    invoice: Invoice,
    *,
    note: NoteForm | None = None,
    give_up: WriteOffForm | None = None,
    status: int = 200,
) -> HttpResponse:
    base = invoice.kind == InvoiceKind.INVOICE
    left = lines_left(invoice=invoice) if base else {}
    shown = invoice_context(invoice, here.actor)
    note = note or NoteForm(lines=_words(shown) if base else {})
    context = {
        "place": here,
        "crumbs": crumbs("Money", INVOICES, (invoice.number, "")),
        **shown,
        "correctable": base and here.may_manage,
        "note_form": note,
        "left": [
            (note[f"{LINE}{position}"], position, amount_of(minor, invoice.currency))
            for position, minor in left.items()
        ],
        "write_off_form": give_up or WriteOffForm(auto_id="off_%s"),
        "operator": True,
    }
    return render(request, "billing/invoice.html", context, status=status)


@operator_action
def note(request: HttpRequest, here: OperatorPlace, number: str) -> HttpResponse:
    invoice = documents.invoice_get(actor=here.actor, number=number)
    lines = _words(invoice_context(invoice, here.actor))
    form = NoteForm(request.POST, lines=lines)
    if form.is_valid():
        try:
            made = note_issue(
                actor=here.actor,
                invoice=invoice,
                kind=InvoiceKind(form.cleaned_data["note"]),
                amounts=form.amounts(),
                reason=form.cleaned_data["reason"],
            )
        except (Invalid, Conflict) as error:
            refuse(form, error, fields={f"lines.{at}": f"{LINE}{at}" for at in lines})
        else:
            messages.success(request, f"{made.number} is written; it corrects {invoice.number}.")
            return redirect("frontend:operator_invoice", made.number)
    return _document(request, here, invoice, note=form, status=422)


def _words(shown: Mapping[str, Any]) -> dict[int, str]:
    """Each line by its place: `H100 SXM 80 GB, GPU h (on demand)`."""
    lines = (line for section in shown["sections"] for line in section.lines)
    return {
        line.position: ", ".join(filter(None, (line.name, line.unit)))
        + (f" ({line.note})" if line.note else "")
        for line in sorted(lines, key=lambda line: line.position)
    }


@operator_action
def give_up(request: HttpRequest, here: OperatorPlace, number: str) -> HttpResponse:
    invoice = documents.invoice_get(actor=here.actor, number=number)
    form = WriteOffForm(request.POST, auto_id="off_%s")
    if form.is_valid():
        asked = form.cleaned_data
        try:
            write_off(
                actor=here.actor, invoice=invoice, reason=asked["reason"], amount=asked["amount"].strip()
            )
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(request, f"What was open of {invoice.number} is written off.")
            return redirect("frontend:operator_invoice", number)
    return _document(request, here, invoice, give_up=form, status=422)


@operator_page
def money_of(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    return _credits(request, here, organization_get_for(actor=here.actor, slug=slug))


def _credits(
    request: HttpRequest, here: OperatorPlace, row: Organization, *, status: int = 200, **forms: Any
) -> HttpResponse:
    (party,) = parties_of(organizations=[row.pk])
    given: dict[str, Any] = {"actor": here.actor, "organization": row}
    entries = paged(request, balances.entries_for(**given))
    context = {
        "place": here,
        "organization": row,
        "balance": balances.balance_of(currency=party.currency, **given),
        "grants": [grant_shown(grant) for grant in balances.grants_for(**given)[:50]],
        "page": entries,
        "rows": [entry_shown(entry) for entry in entries],
        "grant_form": GrantForm(auto_id="grant_%s"),
        "payment_form": PaymentForm(auto_id="payment_%s"),
        "crumbs": crumbs(
            "Tenants", ("Organizations", "operator_organizations"), (f"{row.name}: credits", "")
        ),
        **forms,
    }
    return render(request, "operator/credits.html", context, status=status)


@operator_action
def grant(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    form = GrantForm(request.POST, auto_id="grant_%s")
    if form.is_valid():
        asked = form.cleaned_data
        try:
            grant_give(
                actor=here.actor,
                organization=row,
                amount=asked["amount"].strip(),
                expires_at=asked["expires_at"],
                gpu_types=form.types(),
                note=asked["note"],
            )
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(request, f"{row.name} has a new grant.")
            return redirect("frontend:operator_credits", slug)
    return _credits(request, here, row, status=422, grant_form=form)


@operator_action
def payment(request: HttpRequest, here: OperatorPlace, slug: str) -> HttpResponse:
    row = organization_get_for(actor=here.actor, slug=slug)
    form = PaymentForm(request.POST, auto_id="payment_%s")
    if form.is_valid():
        asked = form.cleaned_data
        try:
            payment_record(
                actor=here.actor, organization=row, amount=asked["amount"].strip(), note=asked["note"]
            )
        except Invalid as error:
            refuse(form, error)
        else:
            messages.success(request, f"The payment of {row.name} is recorded.")
            return redirect("frontend:operator_credits", slug)
    return _credits(request, here, row, status=422, payment_form=form)

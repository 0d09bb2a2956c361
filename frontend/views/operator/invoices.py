"""Documents of all organizations, their corrections, and what pays for them."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from billing.models import Invoice, LedgerEntry
from billing.money import amount_of
from billing.selectors import balances, documents
from billing.selectors.parties import parties_of
from billing.services.notes import lines_left, note_issue
from billing.services.payments import amount_parse, grant_give, payment_record, payout_record, write_off
from billing.services.reversals import grant_reverse, payment_reverse, payout_reverse, write_off_reverse
from billing.states import EntryKind, InvoiceKind
from frontend import formats
from frontend.forms.invoices import LINE, GrantForm, NoteForm, PaymentForm, WriteOffForm
from frontend.frame import checked, done, draw_page, refusals_on, refusals_shown
from frontend.lists import list_page
from frontend.views.invoices import LIST, entries_shown, filters_of, grants_shown, invoice_context, rows_of
from frontend.views.operator.common import (
    OperatorPlace,
    crumbs,
    operator_page,
    organization_action,
    organization_page,
    row_doors,
)
from frontend.views.operator.sure import (
    Sure,
    grant_asked,
    note_asked,
    payment_asked,
    payout_asked,
    trial,
    write_off_asked,
)
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from tenants.models import Organization

INVOICES = ("Invoices", "operator_invoices")


@operator_page
def index(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    found = LIST.of(
        request,
        lambda query: documents.invoices_all(actor=here.actor, filters=filters_of(query)),
        rows_of,
    )
    return list_page(request, "operator/invoices.html", found, {"crumbs": crumbs("Money", ("Invoices", ""))})


def _invoice(here: OperatorPlace, number: str) -> Invoice:
    return documents.invoice_get(actor=here.actor, number=number)


invoice_page, invoice_action = row_doors(_invoice, "number")


def _document(
    request: HttpRequest,
    here: OperatorPlace,
    invoice: Invoice,
    *,
    note: NoteForm | None = None,
    give_up: WriteOffForm | None = None,
    sure: Sure | None = None,
    refused: bool = False,
) -> HttpResponse:
    base = invoice.corrects is None
    left = lines_left(invoice=invoice) if base else {}
    shown = invoice_context(invoice, here.actor)
    note = note or (_note_form(invoice, _words(shown)) if base else NoteForm(lines={}, left={}))
    context = {
        "crumbs": crumbs("Money", INVOICES, (invoice.number, "")),
        **shown,
        "correctable": base and here.may_manage,
        "note_form": note,
        "left": [note[f"{LINE}{position}"] for position in left],
        "write_offs": balances.write_offs_for(actor=here.actor, invoice=invoice) if base else (),
        "write_off_form": give_up or WriteOffForm(auto_id="off_%s"),
        "operator": True,
        "sure": sure,
    }
    return draw_page(request, "billing/invoice.html", context, refused=refused)


show = invoice_page(_document)


@invoice_action
@checked
def note(request: HttpRequest, here: OperatorPlace, invoice: Invoice) -> HttpResponse:
    lines = _words(invoice_context(invoice, here.actor))
    form = _note_form(invoice, lines, request.POST)
    if form.is_valid():
        asked: dict[str, Any] = {"kind": InvoiceKind(form.cleaned_data["note"]), "amounts": form.amounts()}
        asked["reason"] = form.cleaned_data["reason"]
        with refusals_on(form, Invalid, Conflict, fields={f"lines.{at}": f"{LINE}{at}" for at in lines}):
            with trial(request) as sure:
                made = note_issue(actor=here.actor, invoice=invoice, **asked)
            if not sure:
                return _document(request, here, invoice, note=form, sure=note_asked(request, made, invoice))
            text = f"{made.number} issued. It corrects {invoice.number}."
            return done(request, text, "frontend:operator_invoice", made.number)
    return _document(request, here, invoice, note=form)


def _note_form(invoice: Invoice, lines: Mapping[int, str], data: Mapping[str, Any] | None = None) -> NoteForm:
    left = lines_left(invoice=invoice).items()
    rest = {at: str(amount_of(minor, invoice.currency)) for at, minor in left}
    return NoteForm(data, lines=lines, left=rest)


def _words(shown: Mapping[str, Any]) -> dict[int, str]:
    """Each line by its place: `H100 SXM 80 GB, GPU h (on demand)`."""
    lines = (line for section in shown["sections"] for line in section.lines)
    return {
        line.position: ", ".join(filter(None, (line.name, line.unit)))
        + (f" ({line.note})" if line.note else "")
        for line in sorted(lines, key=lambda line: line.position)
    }


@invoice_action
@checked
def give_up(request: HttpRequest, here: OperatorPlace, invoice: Invoice) -> HttpResponse:
    form = WriteOffForm(request.POST, auto_id="off_%s")
    if form.is_valid():
        asked = form.cleaned_data
        with refusals_on(form, Invalid, Conflict):
            with trial(request) as sure:
                write_off(
                    actor=here.actor, invoice=invoice, reason=asked["reason"], amount=asked["amount"].strip()
                )
            if not sure:
                asking = write_off_asked(request, invoice)
                return _document(request, here, invoice, give_up=form, sure=asking)
            text = f"Open amount of {invoice.number} written off."
            return done(request, text, "frontend:operator_invoice", invoice.number)
    return _document(request, here, invoice, give_up=form)


@invoice_action
def write_off_reversed(
    request: HttpRequest, here: OperatorPlace, invoice: Invoice, entry: uuid.UUID
) -> HttpResponse:
    rows = balances.write_offs_for(actor=here.actor, invoice=invoice)
    if _reverse(request, here, first_of(rows.filter(pk=entry), "write-off"), write_off_reverse, "Write-off"):
        return redirect("frontend:operator_invoice", invoice.number)
    return _document(request, here, invoice, refused=True)


def _reverse(
    request: HttpRequest,
    here: OperatorPlace,
    entry: LedgerEntry,
    reverse: Callable[..., LedgerEntry],
    what: str,
) -> bool:
    """Whether it was done. If not, the page that is drawn next comes with its dialog open, and the reason that was typed."""
    with refusals_shown(request, Conflict, Invalid):
        reverse(actor=here.actor, entry=entry, reason=request.POST.get("reason", ""))
        messages.success(request, f"{what} reversed. The ledger keeps both entries.")
        return True
    return False


def _credits(
    request: HttpRequest, here: OperatorPlace, row: Organization, *, refused: bool = False, **forms: Any
) -> HttpResponseBase:
    (party,) = parties_of(organizations=[row.pk])
    given: dict[str, Any] = {"actor": here.actor, "organization": row}
    entries, grants = entries_shown(request, here, row), grants_shown(request, here, row)
    context = {
        "organization": row,
        "balance": balances.balance_of(currency=party.currency, **given),
        "grants": grants,
        "grant_form": GrantForm(auto_id="grant_%s"),
        "payment_form": PaymentForm(auto_id="payment_%s"),
        "payout_form": PaymentForm(auto_id="payout_%s"),
        "crumbs": crumbs(
            "Tenants", ("Organizations", "operator_organizations"), (f"{row.name}: credits", "")
        ),
        **forms,
    }
    return list_page(request, "operator/credits.html", entries, context, grants, refused=refused)


money_of = organization_page(_credits)


@organization_action
@checked
def grant(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    form = GrantForm(request.POST, auto_id="grant_%s")
    if form.is_valid():
        asked = form.cleaned_data
        with refusals_on(form, Invalid, Conflict):
            with trial(request) as sure:
                given = grant_give(
                    actor=here.actor,
                    organization=row,
                    amount=asked["amount"].strip(),
                    expires_at=asked["expires_at"],
                    gpu_types=form.types(),
                    note=asked["note"],
                )
                asking = grant_asked(request, given)
            if not sure:
                return _credits(request, here, row, grant_form=form, sure=asking)
            return done(request, f"Grant added for {row.name}.", "frontend:operator_credits", row.slug)
    return _credits(request, here, row, grant_form=form)


@organization_action
def grant_reversed(
    request: HttpRequest, here: OperatorPlace, row: Organization, entry: uuid.UUID
) -> HttpResponseBase:
    rows = balances.entries_for(actor=here.actor, organization=row).filter(kind=EntryKind.GRANT)
    if _reverse(request, here, first_of(rows.filter(pk=entry), "grant"), grant_reverse, "Grant"):
        return redirect("frontend:operator_credits", row.slug)
    return _credits(request, here, row, refused=True)


@organization_action
def payment_reversed(
    request: HttpRequest, here: OperatorPlace, row: Organization, entry: uuid.UUID
) -> HttpResponseBase:
    rows = balances.payments_for(actor=here.actor, organization=row)
    if _reverse(request, here, first_of(rows.filter(pk=entry), "payment"), payment_reverse, "Payment"):
        return redirect("frontend:operator_credits", row.slug)
    return _credits(request, here, row, refused=True)


@organization_action
def payout_reversed(
    request: HttpRequest, here: OperatorPlace, row: Organization, entry: uuid.UUID
) -> HttpResponseBase:
    rows = balances.payouts_for(actor=here.actor, organization=row)
    if _reverse(request, here, first_of(rows.filter(pk=entry), "payout"), payout_reverse, "Payout"):
        return redirect("frontend:operator_credits", row.slug)
    return _credits(request, here, row, refused=True)


@organization_action
@checked
def payment(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    return _money(
        request,
        here,
        row,
        "payment",
        payment_record,
        payment_asked,
        "Payment of {amount} from {name} recorded.",
    )


@organization_action
@checked
def payout(request: HttpRequest, here: OperatorPlace, row: Organization) -> HttpResponseBase:
    return _money(
        request, here, row, "payout", payout_record, payout_asked, "Payout of {amount} to {name} recorded."
    )


def _money(
    request: HttpRequest,
    here: OperatorPlace,
    row: Organization,
    name: str,
    record: Callable[..., None],
    asked: Callable[[HttpRequest, Organization, str], Sure],
    text: str,
) -> HttpResponseBase:
    """Money that came in or went out: asked about first, and recorded with the answer. `name`: of the form."""
    form = PaymentForm(request.POST, auto_id=f"{name}_%s")
    shown: dict[str, Any] = {f"{name}_form": form}
    if form.is_valid():
        found = form.cleaned_data
        with refusals_on(form, Invalid, Conflict):
            typed, currency = found["amount"].strip(), parties_of(organizations=[row.pk])[0].currency
            with trial(request) as sure:
                record(actor=here.actor, organization=row, amount=typed, note=found["note"])
            amount = formats.money(amount_of(amount_parse(typed, currency), currency), currency)
            if not sure:
                return _credits(request, here, row, **shown, sure=asked(request, row, amount))
            return done(
                request, text.format(amount=amount, name=row.name), "frontend:operator_credits", row.slug
            )
    return _credits(request, here, row, **shown)

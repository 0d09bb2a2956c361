"""The question before what is booked: done once for a try and rolled back, so that it says exactly what would follow."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest

from billing.models import Grant, Invoice
from billing.money import amount_of
from billing.services.payments import amount_parse
from billing.states import InvoiceKind
from frontend import formats
from gpuaas.core.errors import Conflict
from tenants.models import Organization

WORD, ONCE = "sure", "once"
ANSWERED, KEPT = "questions_answered", 20


@dataclass(frozen=True)
class Sure:
    """`values`: what was typed, sent again with the answer. `keep` closes the question."""

    title: str
    text: str
    label: str
    action: str
    values: tuple[tuple[str, str], ...]


def is_sure(request: HttpRequest) -> bool:
    return request.POST.get(WORD) == "1"


@contextmanager
def trial(request: HttpRequest) -> Iterator[bool]:
    """A transaction that is rolled back at its end, unless the question was answered, which it yields. Raises Conflict if the
    same question was answered before: by a second press, or by somebody who went back."""
    sure = is_sure(request)
    with transaction.atomic():
        if sure:
            _once(request)
        yield sure
        if not sure:
            transaction.set_rollback(True)


def _once(request: HttpRequest) -> None:
    asked = request.POST.get(ONCE, "")[:64]
    if not asked:
        return
    # two presses wait for each other here, and the second reads what the first wrote
    row = Session.objects.select_for_update().filter(pk=request.session.session_key).first()
    answered = row.get_decoded().get(ANSWERED, []) if row else [asked]
    if asked in answered:
        raise Conflict("the button was pressed before, and this was recorded then; it was not recorded twice")
    request.session[ANSWERED] = [*answered, asked][-KEPT:]
    request.session.save()


def note_asked(request: HttpRequest, made: Invoice, invoice: Invoice) -> Sure:
    kind = InvoiceKind(made.kind).label.lower()
    net, tax, total = (
        formats.money(amount_of(minor, made.currency), made.currency)
        for minor in (made.subtotal_minor, made.tax_minor, made.total_minor)
    )
    other = "a debit note" if made.kind == InvoiceKind.CREDIT_NOTE else "a credit note"
    return _asked(
        request,
        f"Issue this {kind}?",
        f"It corrects {invoice.number} by {total} ({net} and {tax} of tax), gets its own number and is issued to "
        f"{invoice.organization.name}. A document is never changed or deleted: only {other} can reverse it.",
        f"Issue {kind}",
    )


def write_off_asked(request: HttpRequest, invoice: Invoice) -> Sure:
    given = request.POST.get("amount", "").strip()
    minor = amount_parse(given, invoice.currency) if given else 0
    what = formats.money(amount_of(minor, invoice.currency), invoice.currency) if given else "The open amount"
    return _asked(
        request,
        f"Write off {invoice.number}?",
        f"{what} of {invoice.number} is no longer owed by {invoice.organization.name}. A wrong write-off can be "
        "reversed; the ledger keeps both entries.",
        "Write off",
    )


def grant_asked(request: HttpRequest, given: Grant) -> Sure:
    """Inside the trial: the GPU types are rows of their own."""
    amount = formats.money(amount_of(given.amount_minor, given.currency), given.currency)
    types = ", ".join(given.gpu_types.values_list("name", flat=True)) or "everything"
    return _asked(
        request,
        "Add this grant?",
        f"{given.organization.name} gets a credit of {amount}. It pays for {types} on invoices that are closed before "
        f"{formats.when(given.expires_at)}; what is left then expires. A wrong grant can be reversed; the ledger keeps both entries.",
        "Add grant",
    )


def payment_asked(request: HttpRequest, organization: Organization, amount: str) -> Sure:
    return _asked(
        request,
        "Record this payment?",
        f"{amount} is recorded as received from {organization.name}. It pays open invoices, the "
        "oldest first; the rest is kept for later ones. A wrong payment can be reversed; the ledger keeps both entries.",
        "Record payment",
    )


def payout_asked(request: HttpRequest, organization: Organization, amount: str) -> Sure:
    return _asked(
        request,
        "Record this payout?",
        f"{amount} is recorded as paid back to {organization.name}: from its credits, the "
        "oldest first, then from what it paid in advance. A wrong payout can be reversed; the ledger keeps both entries.",
        "Record payout",
    )


def _asked(request: HttpRequest, title: str, text: str, label: str) -> Sure:
    left_out = {"csrfmiddlewaretoken", WORD, ONCE}
    values = tuple((name, str(value)) for name, value in request.POST.items() if name not in left_out)
    return Sure(title, text, label, request.path, (*values, (WORD, "1"), (ONCE, secrets.token_urlsafe(16))))

"""Credit and debit notes: the only way to change what was invoiced. Each line of a note names the line that it
corrects."""

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, Sum

from billing import issuing
from billing.issuing import Party
from billing.models import Invoice, InvoiceLine
from billing.money import amount_of, tax_of
from billing.services.accounts import account_ensure
from billing.services.payments import amount_parse
from billing.services.settling import accounts_lock, documents_settle, overpaid_return
from billing.states import InvoiceKind
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

LINE_COLUMNS = (
    *(
        "id",
        "organization",
        "position",
        "charge_month",
        "project",
        "cost_center",
        "flavor",
        "resource",
        "meter",
    ),
    *("price_class", "status", "price_micro", "surplus", "estimated", "unit_seconds", "minor", "share_count"),
    *("text", "corrects"),
)


def note_issue(
    *,
    actor: Actor,
    invoice: Invoice,
    kind: InvoiceKind,
    amounts: Mapping[int, Decimal | str | int],
    reason: str,
) -> Invoice:
    """Creates a note on an invoice, or on a month's credit note. `amounts`: by the position of the corrected line, always above 0.

    Raises Invalid on `lines.<position>` (no such line, bad amount, a credit above what is left of the line), `lines`,
    `kind` or `reason`. The tax is the change of the tax on the whole invoice, so that a fully credited invoice is
    exactly zero.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    text = reason.strip()
    _require(invoice, kind, amounts, text)
    now = clock.now()
    with transaction.atomic():
        # the series before the account, as a close does: it may give credit notes of its own
        series, number = issuing.numbers_take(kind=kind, now=now, count=1)
        account_ensure(organization=invoice.organization)
        accounts_lock([invoice.organization_id])
        minors = _amounts(invoice, kind, amounts)
        made = _write(actor, invoice, kind, f"{series}-{number:04d}", minors, text, now)
        if kind == InvoiceKind.CREDIT_NOTE:
            overpaid_return(invoice=invoice, now=now, by=actor.name)
        documents_settle(invoices=[made.pk], now=now, by=actor.name)
        total = str(amount_of(made.total_minor, made.currency))
        audit_record(
            actor=actor,
            action=f"{kind.value}.issue",
            target=made,
            organization=invoice.organization,
            after={"corrects": invoice.number, "total": total, "reason": text},
        )
    return made


def _require(invoice: Invoice, kind: InvoiceKind, amounts: Mapping[int, Any], reason: str) -> None:
    if kind not in {InvoiceKind.CREDIT_NOTE, InvoiceKind.DEBIT_NOTE}:
        raise Invalid.field("kind", "a correction must be a credit note or a debit note")
    if not 0 < len(reason) <= 500:
        raise Invalid.field("reason", "give a reason of 1 to 500 characters; it is printed on the note")
    if invoice.corrects is not None:
        raise Conflict(f"{invoice.number} is a note; correct the invoice {invoice.corrects}")
    if not amounts:
        raise Invalid.field("lines", "choose at least one line and enter its amount")


def lines_left(*, invoice: Invoice) -> dict[int, int]:
    """What can still be credited of each line, by position: its amount, its notes, and what a later close took back of it.
    What a close has added is a line that is credited itself, up to what is left of it and the line that it adds to together.
    Two queries, and two more where a close has added something."""
    counts = Q(invoice__corrects__isnull=False) | Q(amount_minor__lt=0)
    corrected = dict(
        InvoiceLine.objects.filter(counts, corrects__invoice=invoice, amount_minor__isnull=False)
        .order_by()
        .values_list("corrects__position")
        .annotate(sum=Sum("amount_minor"))
    )
    rows = list(InvoiceLine.objects.filter(invoice=invoice).order_by("position"))
    left = {row.position: (row.amount_minor or 0) + corrected.get(row.position, 0) for row in rows}
    added = {row.position: row.corrects_id for row in rows if row.corrects_id is not None}
    of_all = _left_of_all(set(added.values())) if added else {}
    return left | {position: min(left[position], of_all[first]) for position, first in added.items()}


def _left_of_all(firsts: set[uuid.UUID]) -> dict[uuid.UUID, int]:
    """By line: its amount with all that closes have added and taken back of it, and the notes on each of these."""
    lines = InvoiceLine.objects.order_by()
    rows = lines.filter(Q(pk__in=firsts) | Q(corrects__in=firsts))
    found = list(rows.values_list("pk", "corrects", "amount_minor"))
    first_of = {pk: corrects or pk for pk, corrects, _ in found}
    notes = lines.filter(corrects__in=first_of.keys() - firsts).values_list("pk", "corrects", "amount_minor")
    left = dict.fromkeys(firsts, 0)
    for pk, corrects, amount in (*found, *notes):
        left[first_of[pk if pk in first_of or corrects is None else corrects]] += amount or 0
    return left


def _amounts(
    invoice: Invoice, kind: InvoiceKind, amounts: Mapping[int, Decimal | str | int]
) -> dict[int, int]:
    left, found, wrong = lines_left(invoice=invoice), {}, {}
    for position, amount in sorted(amounts.items()):
        field = f"lines.{position}"
        if position not in left:
            wrong[field] = [f"{invoice.number} has no line {position}"]
            continue
        try:
            minor = amount_parse(amount, invoice.currency, field=field)
        except Invalid as error:
            wrong |= error.fields
            continue
        if kind == InvoiceKind.CREDIT_NOTE and minor > left[position]:
            left_amount = amount_of(max(left[position], 0), invoice.currency)
            wrong[field] = [
                f"{left_amount} {invoice.currency} are left of this line; a credit cannot be higher"
            ]
        found[position] = -minor if kind == InvoiceKind.CREDIT_NOTE else minor
    if wrong:
        raise Invalid("some amounts cannot be corrected like this", fields=wrong)
    return found


def _write(
    actor: Actor,
    invoice: Invoice,
    kind: InvoiceKind,
    number: str,
    minors: Mapping[int, int],
    reason: str,
    now: Any,
) -> Invoice:
    issuing.tables_make()
    party = Party(
        organization_id=invoice.organization_id,
        slug=invoice.organization.slug,
        currency=invoice.currency,
        tax_rate_bp=invoice.tax_rate_bp,
        tax_label=invoice.tax_label,
        name=invoice.account_name,
        address=invoice.account_address,
        reference=invoice.account_reference,
    )
    issuing.parties_write([party])
    before = invoice.subtotal_minor + sum(invoice.corrections.values_list("subtotal_minor", flat=True))
    subtotal = sum(minors.values())
    tax = tax_of(before + subtotal, invoice.tax_rate_bp) - tax_of(before, invoice.tax_rate_bp)
    pk = uuid.uuid4()
    head = (
        *(pk, invoice.organization_id, kind.value, number, invoice.month, reason),
        *(invoice.pk, subtotal, tax),
    )
    names, values = ", ".join(LINE_COLUMNS), ", ".join(["%s"] * len(LINE_COLUMNS))
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO close_invoice VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", head)
        cursor.executemany(
            f"INSERT INTO close_line ({names}) VALUES ({values})",  # noqa: S608  names of ours
            _lines(invoice, minors),
        )
    issuing.documents_write(now=now, by=actor.name, steps=issuing.Steps())
    return Invoice.objects.get(pk=pk)


def _lines(invoice: Invoice, minors: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Corrects only money: the seconds do not change."""
    rows = InvoiceLine.objects.filter(invoice=invoice, position__in=minors).order_by("position")
    return [
        (
            *(
                uuid.uuid4(),
                invoice.organization_id,
                number,
                row.charge_month,
                row.project_id,
                row.cost_center,
            ),
            *(row.flavor_id, row.resource, row.meter, row.price_class, "billed", row.unit_price_micro),
            *(row.surplus, False, 0, minors[row.position], 0, "", row.pk),
        )
        for number, row in enumerate(rows, start=1)
    ]

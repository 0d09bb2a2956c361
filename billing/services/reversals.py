"""Wrong payments, payouts, grants and write-offs: reversed by entries of their own, never changed."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import F, Model, Sum
from django.db.models.functions import Coalesce

from billing.booking import Booking, bookings_write
from billing.models import Grant, Invoice, LedgerEntry, LedgerPosting
from billing.money import amount_of
from billing.selectors.balances import prepaid_left
from billing.services.accounts import account_ensure
from billing.services.settling import accounts_lock, open_pay
from billing.states import Account, EntryKind
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

WORDS = {
    EntryKind.PREPAID: "received payment",
    EntryKind.PAYOUT: "payout",
    EntryKind.GRANT: "grant",
    EntryKind.WRITE_OFF: "write-off",
}


@transaction.atomic
def payment_reverse(*, actor: Actor, entry: LedgerEntry, reason: str) -> LedgerEntry:
    """Reverses a payment and returns the new entry. What the payment had paid is open again, the newest invoice
    first, unless a credit is left to pay it.

    Raises Invalid on `reason`, Conflict for an entry that is not a payment, was already reversed, or was paid out.
    """
    explanation, now = _reversible(actor, entry, EntryKind.PREPAID, reason), clock.now()
    minor = -entry.postings.get(account=Account.PREPAID).amount_minor
    _give_back(entry, minor, now, actor.name)
    amounts = {Account.PREPAID: minor, Account.CASH: -minor}
    made = _booked(actor, entry, f"{entry.text} reversed: {explanation}", amounts, now)
    before = {"payment": str(entry.pk), "amount": str(amount_of(minor, entry.currency))}
    _recorded(actor, entry, "payment.reverse", entry.organization, before, explanation)
    return made


@transaction.atomic
def payout_reverse(*, actor: Actor, entry: LedgerEntry, reason: str) -> LedgerEntry:
    """Reverses a payout and returns the new entry. The credit, or the money in advance, is there again, and pays what
    is open.

    Raises Invalid on `reason`, Conflict for an entry that is not a payout, or was already reversed.
    """
    explanation, now = _reversible(actor, entry, EntryKind.PAYOUT, reason), clock.now()
    amounts = {Account(row.account): -row.amount_minor for row in entry.postings.all()}
    made = _booked(actor, entry, f"{entry.text} reversed: {explanation}", amounts, now)
    before = {"payout": str(entry.pk), "amount": str(made.amount)}
    _recorded(actor, entry, "payout.reverse", entry.organization, before, explanation)
    return made


@transaction.atomic
def write_off_reverse(*, actor: Actor, entry: LedgerEntry, reason: str) -> LedgerEntry:
    """Reverses a write-off and returns the new entry. The amount is owed again; prepaid money pays it at once.

    Raises Invalid on `reason`, Conflict for an entry that is not a write-off, or was already reversed.
    """
    explanation, now = _reversible(actor, entry, EntryKind.WRITE_OFF, reason), clock.now()
    invoice = Invoice.objects.get(entries=entry)
    minor = entry.postings.get(account=Account.WRITE_OFF).amount_minor
    amounts = {Account.RECEIVABLE: minor, Account.WRITE_OFF: -minor}
    made = _booked(actor, entry, f"{invoice.number}: write-off reversed: {explanation}", amounts, now)
    before = {"write_off": str(entry.pk), "amount": str(amount_of(minor, entry.currency))}
    _recorded(actor, entry, "invoice.write_off_reverse", invoice, before, explanation)
    return made


@transaction.atomic
def grant_reverse(*, actor: Actor, entry: LedgerEntry, reason: str) -> LedgerEntry:
    """Takes a grant back and returns the new entry. What it had paid is open again, and credits and prepaid money pay it at once;
    what was left is gone.

    Raises Invalid on `reason`, Conflict for an entry that is not a grant, was already reversed, or has only expired.
    """
    explanation, now = _reversible(actor, entry, EntryKind.GRANT, reason), clock.now()
    grant = Grant.objects.select_for_update().get(entries=entry)
    minor = grant.amount_minor - grant.expired_minor
    if minor == 0:
        raise Conflict("this grant expired before it paid for anything; there is nothing to reverse")
    bookings_write(_uses_reversed(entry, grant), now=now, by=actor.name)
    Grant.objects.filter(pk=grant.pk).update(used_minor=0, expired_minor=F("amount_minor"))
    amounts = {Account.GRANTS: minor, Account.GRANTS_GIVEN: -minor}
    made = _booked(actor, entry, f"{grant} reversed: {explanation}", amounts, now)
    before = {
        "amount": str(amount_of(grant.amount_minor, entry.currency)),
        "used": str(amount_of(grant.used_minor, entry.currency)),
    }
    _recorded(actor, entry, "grant.reverse", grant, before, explanation)
    return made


def _uses_reversed(entry: LedgerEntry, grant: Grant) -> list[Booking]:
    return [
        Booking(
            entry.organization_id,
            EntryKind.GRANT_USE,
            entry.currency,
            f"{grant} for {invoice.number} reversed",
            {Account.RECEIVABLE: part, Account.GRANTS: -part},
            invoice.pk,
            grant.pk,
        )
        for invoice, part in _grant_uses(grant)
    ]


def _grant_uses(grant: Grant) -> list[tuple[Invoice, int]]:
    """What the grant still pays of each invoice and its notes, the oldest first."""
    rows = LedgerPosting.objects.filter(
        account=Account.GRANTS, entry__kind=EntryKind.GRANT_USE, entry__grant=grant
    )
    rows = rows.annotate(of=Coalesce("entry__invoice__corrects", "entry__invoice")).order_by()
    paid = dict(rows.values_list("of").annotate(sum=Sum("amount_minor")).filter(sum__gt=0))
    return [(row, paid[row.pk]) for row in Invoice.objects.filter(pk__in=paid).order_by("month", "number")]


def _reversible(actor: Actor, entry: LedgerEntry, kind: EntryKind, reason: str) -> str:
    """Returns the reason as it is kept. From here on nobody else changes the organization's balances."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    explanation = reason.strip()
    if not 0 < len(explanation) <= 200:
        raise Invalid.field("reason", "give a reason of 1 to 200 characters")
    account_ensure(organization=entry.organization)
    accounts_lock([entry.organization_id])
    if entry.kind != kind:
        raise Conflict(f"only a {WORDS[kind]} can be reversed")
    if LedgerEntry.objects.filter(reverses=entry).exists():
        raise Conflict("this entry is already reversed")
    return explanation


def _booked(
    actor: Actor, entry: LedgerEntry, text: str, amounts: Mapping[Account, int], now: datetime
) -> LedgerEntry:
    """What is free again by it pays what is open."""
    kind, of = EntryKind.REVERSAL, entry.invoice_id
    booking = Booking(
        entry.organization_id,
        kind,
        entry.currency,
        text,
        amounts,
        of,
        entry.grant_id,
        reverses_id=entry.pk,
        credit_id=entry.credit_id,
    )
    bookings_write([booking], now=now, by=actor.name)
    open_pay(organizations=[entry.organization_id], now=now, by=actor.name)
    return LedgerEntry.objects.get(reverses=entry)


def _recorded(
    actor: Actor, entry: LedgerEntry, action: str, target: Model, before: dict[str, str], reason: str
) -> None:
    """In the audit log of the organization."""
    of, after = entry.organization, {"reason": reason}
    audit_record(actor=actor, action=action, target=target, organization=of, before=before, after=after)


def _give_back(entry: LedgerEntry, minor: int, now: datetime, by: str) -> None:
    """Takes back from invoices what the money has paid, so that the prepaid balance does not become negative. Raises
    Conflict if it was paid out."""
    key = (entry.organization_id, entry.currency)
    missing = minor - prepaid_left(organizations=[entry.organization_id]).get(key, 0)
    paid = (
        LedgerPosting.objects.filter(
            account=Account.PREPAID,
            entry__kind=EntryKind.PREPAID_USE,
            entry__organization=entry.organization_id,
            entry__currency=entry.currency,
        )
        .order_by("-entry__invoice__closed_at", "-entry__invoice")
        .values_list("entry__invoice", "entry__invoice__number")
        .annotate(sum=Sum("amount_minor"))
    )
    bookings = []
    for invoice, number, amount in paid:
        part = min(missing, amount)
        if part <= 0:
            continue
        missing -= part
        amounts = {Account.RECEIVABLE: part, Account.PREPAID: -part}
        text = f"payment for {number} reversed"
        kind = EntryKind.PREPAID_USE
        bookings.append(Booking(entry.organization_id, kind, entry.currency, text, amounts, invoice))
    if missing > 0:
        out = amount_of(missing, entry.currency)
        raise Conflict(f"{out} {entry.currency} of this payment has been paid out; reverse that payout first")
    bookings_write(bookings, now=now, by=by)

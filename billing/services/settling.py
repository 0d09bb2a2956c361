"""Settles documents: with grants first, in the order of their expiry; then with credits, then with prepaid money.

Accounts are locked in the order of their ids, and a grant is used by a conditional update: concurrent uses never
exceed its amount.
"""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, Sum

from billing.booking import Booking, bookings_write
from billing.grant_cover import Offer, cover, pools_of
from billing.models import BillingAccount, Grant, Invoice, InvoiceLine, LedgerPosting
from billing.selectors.balances import (
    credits_left,
    documents_below_zero,
    documents_due,
    invoices_open,
    prepaid_left,
)
from billing.states import Account, EntryKind
from gpuaas.core.errors import Conflict


def accounts_lock(organizations: Sequence[uuid.UUID]) -> None:
    """Serializes writers of an organization's balances."""
    rows = BillingAccount.objects.select_for_update().filter(organization__in=organizations)
    list(rows.order_by("organization_id").values_list("pk", flat=True))


def documents_settle(*, invoices: Sequence[uuid.UUID], now: datetime, by: str) -> None:
    """Call it in the transaction that wrote the documents."""
    rows = list(Invoice.objects.filter(pk__in=list(invoices)).order_by("number"))
    organizations = [row.organization_id for row in rows]
    accounts_lock(organizations)
    _grants_use([row for row in rows if row.total_minor > 0], now, by)
    open_pay(organizations=organizations, now=now, by=by)


def open_pay(*, organizations: Sequence[uuid.UUID], now: datetime, by: str) -> None:
    """What is below zero becomes a credit; credits, the oldest first, then prepaid money pay what is open, the oldest
    first. The accounts are locked."""
    _credits_give(organizations, now, by)
    sources: dict[tuple[uuid.UUID, str], list[_Source]] = defaultdict(list)
    for credit in credits_left(organizations=organizations):
        source = _Source(credit.left, credit.document, f"credit of {credit.number}")
        sources[credit.organization, credit.currency].append(source)
    for key, left in prepaid_left(organizations=organizations).items():
        if left > 0:
            sources[key].append(_Source(left, None, "payment"))
    bookings = []
    for row, still_open in documents_due(organizations=list({pk for pk, _ in sources})):
        due = still_open
        for source in sources[row.organization_id, row.currency]:
            part = min(source.left, due)
            if part <= 0:
                continue
            source.left -= part
            due -= part
            kind, account = EntryKind.CREDIT_USE, Account.CREDIT
            if source.credit_id is None:
                kind, account = EntryKind.PREPAID_USE, Account.PREPAID
            text, amounts = f"{source.text} for {row.number}", {account: part, Account.RECEIVABLE: -part}
            bookings.append(
                Booking(
                    row.organization_id, kind, row.currency, text, amounts, row.pk, credit_id=source.credit_id
                )
            )
    bookings_write(bookings, now=now, by=by)


@dataclass
class _Source:
    """A credit, or (credit_id None) prepaid money, as it is used up."""

    left: int
    credit_id: uuid.UUID | None
    text: str


def _credits_give(organizations: Sequence[uuid.UUID], now: datetime, by: str) -> None:
    bookings = [
        Booking(
            row.organization_id,
            EntryKind.CREDIT,
            row.currency,
            f"credit of {row.number}",
            {Account.RECEIVABLE: minor, Account.CREDIT: -minor},
            row.pk,
            credit_id=row.pk,
        )
        for row, minor in documents_below_zero(organizations=organizations)
    ]
    bookings_write(bookings, now=now, by=by)


def _grants_use(invoices: Sequence[Invoice], now: datetime, by: str) -> None:
    grants = _grants_of({row.organization_id for row in invoices}, now)
    rows = [row for row in invoices if grants[row.organization_id]]
    net = _net_by_type([row.pk for row in rows])
    bookings = []
    for row in rows:
        offers = [
            Offer(grant.pk, grant.left_minor, frozenset(kind.slug for kind in grant.gpu_types.all()))
            for grant in grants[row.organization_id]
            if grant.currency == row.currency
        ]
        paid = cover(pools_of(net[row.pk], row.total_minor), offers)
        for grant in grants[row.organization_id]:
            part = paid.get(grant.pk, 0)
            if part:
                grant_take(grant=grant, amount=part)
                amounts = {Account.GRANTS: part, Account.RECEIVABLE: -part}
                text = f"{grant} for {row.number}"
                kind = EntryKind.GRANT_USE
                bookings.append(
                    Booking(row.organization_id, kind, row.currency, text, amounts, row.pk, grant.pk)
                )
    bookings_write(bookings, now=now, by=by)


def grant_take(*, grant: Grant, amount: int) -> None:
    """Raises Conflict if the grant has less left than that: it was used at the same moment."""
    enough = Grant.objects.filter(
        pk=grant.pk, amount_minor__gte=F("used_minor") + F("expired_minor") + amount
    )
    if enough.update(used_minor=F("used_minor") + amount) != 1:
        raise Conflict("this grant was used at the same moment; try again")
    grant.used_minor += amount


def _grants_of(organizations: set[uuid.UUID], now: datetime) -> dict[uuid.UUID, list[Grant]]:
    """Valid and not used up, in the order of their expiry."""
    grants: dict[uuid.UUID, list[Grant]] = defaultdict(list)
    rows = Grant.objects.select_for_update().filter(
        organization__in=organizations,
        expires_at__gt=now,
        amount_minor__gt=F("used_minor") + F("expired_minor"),
    )
    for grant in rows.order_by("expires_at", "pk").prefetch_related("gpu_types"):
        grants[grant.organization_id].append(grant)
    return grants


def _net_by_type(invoices: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, int]]:
    amounts: dict[uuid.UUID, dict[str, int]] = defaultdict(dict)
    rows = InvoiceLine.objects.filter(invoice__in=invoices, amount_minor__isnull=False).order_by()
    for pk, gpu_type, amount in rows.values_list("invoice", "gpu_type").annotate(sum=Sum("amount_minor")):
        amounts[pk][gpu_type] = amount
    return amounts


def overpaid_return(*, invoice: Invoice, now: datetime, by: str) -> None:
    """After a credit note: what is no longer owed returns to what paid it, in the reverse order of paying.

    Money becomes prepaid again; then credits, the newest first; then grants, those that expire last first. What
    returns to an expired grant expires with it.
    """
    over = -invoices_open(invoices=[invoice.pk]).get(invoice.pk, 0)
    bookings = []
    for account, grant_id, credit_id, paid in _paid(invoice):
        part = min(over, paid)
        if part <= 0:
            continue
        over -= part
        kind, text = EntryKind.PREPAID_USE, f"overpayment of {invoice.number}"
        if grant_id is not None:
            Grant.objects.filter(pk=grant_id).update(used_minor=F("used_minor") - part)
            kind, text = EntryKind.GRANT_USE, f"grant returned for {invoice.number}"
        if credit_id is not None:
            kind, text = EntryKind.CREDIT_USE, f"credit returned for {invoice.number}"
        amounts = {Account.RECEIVABLE: part, account: -part}
        bookings.append(
            Booking(
                invoice.organization_id,
                kind,
                invoice.currency,
                text,
                amounts,
                invoice.pk,
                grant_id,
                credit_id=credit_id,
            )
        )
    bookings_write(bookings, now=now, by=by)


def _paid(invoice: Invoice) -> list[tuple[Account, uuid.UUID | None, uuid.UUID | None, int]]:
    """What paid for the invoice and its notes and was not returned, with the grant or the credit: money, then credits,
    the newest first, then grants, the last to expire first."""
    of_it = Q(entry__invoice=invoice) | Q(entry__invoice__corrects=invoice)
    kinds = (
        Q(entry__kind=EntryKind.PREPAID_USE, account=Account.PREPAID)
        | Q(entry__kind=EntryKind.CREDIT_USE, account=Account.CREDIT)
        | Q(entry__kind=EntryKind.GRANT_USE, account=Account.GRANTS)
    )
    rows = (
        LedgerPosting.objects.filter(of_it, kinds)
        .order_by(
            F("entry__grant__expires_at").desc(nulls_first=True),
            "-entry__grant",
            F("entry__credit__closed_at").desc(nulls_first=True),
            "-entry__credit",
        )
        .values_list("account", "entry__grant", "entry__credit")
        .annotate(sum=Sum("amount_minor"))
    )
    return [(Account(account), grant_id, credit_id, paid) for account, grant_id, credit_id, paid in rows]

"""Settles documents: with grants first, in the order of their expiry; then with prepaid money.

Accounts are locked in the order of their ids, and a grant is used by a conditional update: concurrent uses never
exceed its amount.
"""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Q, Sum

from billing.booking import Booking, bookings_write
from billing.grant_cover import Offer, cover, pools_of
from billing.models import BillingAccount, Grant, Invoice, InvoiceLine, LedgerPosting
from billing.selectors.balances import invoices_open, prepaid_left
from billing.states import Account, EntryKind
from gpuaas.core.errors import Conflict


def accounts_lock(organizations: Sequence[uuid.UUID]) -> None:
    """Serializes writers of an organization's balances."""
    rows = BillingAccount.objects.select_for_update().filter(organization__in=organizations)
    list(rows.order_by("organization_id").values_list("pk", flat=True))


def documents_settle(*, invoices: Sequence[uuid.UUID], now: datetime, by: str) -> None:
    """Call it in the transaction that wrote the documents."""
    rows = list(Invoice.objects.filter(pk__in=list(invoices), total_minor__gt=0).order_by("number"))
    accounts_lock([row.organization_id for row in rows])
    _grants_use(rows, now, by)
    prepaid_use(invoices=rows, now=now, by=by)


def prepaid_use(*, invoices: Sequence[Invoice], now: datetime, by: str) -> None:
    """Pays open documents from prepaid money, in the given order. The accounts are locked."""
    have = prepaid_left(organizations=[row.organization_id for row in invoices])
    rows = [row for row in invoices if have.get((row.organization_id, row.currency), 0) > 0]
    still_open = invoices_open(invoices=[row.corrects_id or row.pk for row in rows])
    bookings = []
    for row in rows:
        key = (row.organization_id, row.currency)
        part = min(have[key], max(still_open.get(row.corrects_id or row.pk, 0), 0))
        have[key] -= part
        amounts = {Account.PREPAID: part, Account.RECEIVABLE: -part}
        bookings.append(
            Booking(
                row.organization_id,
                EntryKind.PREPAID_USE,
                row.currency,
                f"payment for {row.number}",
                amounts,
                row.pk,
            )
        )
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

    Money becomes prepaid again; then grants, those that expire last first. What returns to an expired grant expires
    with it.
    """
    over = -invoices_open(invoices=[invoice.pk]).get(invoice.pk, 0)
    bookings = []
    for account, grant_id, paid in _paid(invoice):
        part = min(over, paid)
        if part <= 0:
            continue
        over -= part
        kind, text = EntryKind.PREPAID_USE, f"overpayment of {invoice.number}"
        if grant_id is not None:
            Grant.objects.filter(pk=grant_id).update(used_minor=F("used_minor") - part)
            kind, text = EntryKind.GRANT_USE, f"grant returned for {invoice.number}"
        amounts = {Account.RECEIVABLE: part, account: -part}
        bookings.append(
            Booking(invoice.organization_id, kind, invoice.currency, text, amounts, invoice.pk, grant_id)
        )
    bookings_write(bookings, now=now, by=by)


def _paid(invoice: Invoice) -> list[tuple[Account, uuid.UUID | None, int]]:
    """What paid for the invoice and its notes and was not returned: money, then grants, the last to expire first."""
    of_it = Q(entry__invoice=invoice) | Q(entry__invoice__corrects=invoice)
    kinds = Q(entry__kind=EntryKind.PREPAID_USE, account=Account.PREPAID) | Q(
        entry__kind=EntryKind.GRANT_USE, account=Account.GRANTS
    )
    rows = (
        LedgerPosting.objects.filter(of_it, kinds)
        .order_by(F("entry__grant__expires_at").desc(nulls_first=True), "-entry__grant")
        .values_list("account", "entry__grant")
        .annotate(sum=Sum("amount_minor"))
    )
    return [(Account(account), grant_id, paid) for account, grant_id, paid in rows]

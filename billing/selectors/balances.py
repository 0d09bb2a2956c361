"""Amounts owed, paid in advance, credited and granted: sums of the ledger's postings, in minor units and as amounts."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from billing.models import Grant, Invoice, LedgerEntry, LedgerPosting
from billing.money import amount_of
from billing.states import Account, EntryKind
from gpuaas.core import clock
from gpuaas.core.errors import Forbidden, NotFound
from tenants.actors import Actor
from tenants.models import Organization
from tenants.roles import Permission

# of the postings of a document and its notes
LEFT = Sum("amount_minor", filter=Q(account=Account.RECEIVABLE), default=0)
WRITTEN = Sum("amount_minor", filter=Q(account=Account.WRITE_OFF), default=0)


@dataclass(frozen=True)
class Balance:
    """owed: all open documents (negative: in the organization's favor); prepaid: money not used yet; credit: what is
    left of credit notes; granted: what is left of valid grants; payable: what of prepaid and credit can be paid out."""

    currency: str
    owed: Decimal
    prepaid: Decimal
    credit: Decimal
    granted: Decimal
    payable: Decimal


@dataclass(frozen=True)
class CreditLeft:
    """What of a document's credit nothing has used yet."""

    document: uuid.UUID
    number: str
    organization: uuid.UUID
    currency: str
    left: int


def billing_require(*, actor: Actor, organization: Organization) -> None:
    """NotFound for an outsider, Forbidden for somebody whose role does not show costs."""
    held = actor.on_organization(organization.pk)
    if not held:
        raise NotFound("there is no such organization")
    if Permission.BILLING_VIEW not in held:
        raise Forbidden("your role in this organization does not allow you to see its costs")


def balance_of(
    *, actor: Actor, organization: Organization, currency: str, now: datetime | None = None
) -> Balance:
    """Three queries at most, and one more where something was written off."""
    billing_require(actor=actor, organization=organization)
    sums = _sums(organization, currency)
    granted = (
        Grant.objects.filter(
            organization=organization, currency=currency, expires_at__gt=now or clock.now()
        ).aggregate(left=Sum(F("amount_minor") - F("used_minor") - F("expired_minor")))["left"]
        or 0
    )
    return Balance(
        currency=currency,
        owed=amount_of(_owed(organization, currency, sums), currency),
        prepaid=amount_of(-sums.get(Account.PREPAID, 0), currency),
        credit=amount_of(-sums.get(Account.CREDIT, 0), currency),
        granted=amount_of(granted, currency),
        payable=amount_of(_payable(sums), currency),
    )


def payable_left(*, organization: Organization, currency: str) -> int:
    """What can be paid out: credits and money in advance, and never more than was received, since neither a grant nor
    a write-off may become money. One query."""
    return _payable(_sums(organization, currency))


def _payable(sums: Mapping[str, int]) -> int:
    unused = -sums.get(Account.PREPAID, 0) - sums.get(Account.CREDIT, 0)
    return max(min(unused, sums.get(Account.CASH, 0)), 0)


def _owed(organization: Organization, currency: str, sums: Mapping[str, int]) -> int:
    """One query where something was written off."""
    owed = sums.get(Account.RECEIVABLE, 0)
    if not sums.get(Account.WRITE_OFF):
        return owed
    rows = LedgerPosting.objects.filter(entry__organization=organization, entry__currency=currency)
    rows = rows.annotate(of=Coalesce("entry__invoice__corrects", "entry__invoice")).order_by()
    found = rows.values("of").annotate(left=LEFT, written=WRITTEN).filter(left__lt=0, written__gt=0)
    return owed + sum(_in_vain(left, written) for left, written in found.values_list("left", "written"))


def _sums(organization: Organization, currency: str) -> dict[str, int]:
    rows = LedgerPosting.objects.filter(entry__organization=organization, entry__currency=currency)
    return dict(rows.order_by().values_list("account").annotate(sum=Sum("amount_minor")))


def grants_for(*, actor: Actor, organization: Organization) -> QuerySet[Grant]:
    """All of them, used up and expired ones included, newest first; `reversed_at`: when one was taken back."""
    billing_require(actor=actor, organization=organization)
    taken = LedgerEntry.objects.filter(grant=OuterRef("pk"), kind=EntryKind.REVERSAL).values("at")
    rows = Grant.objects.filter(organization=organization).annotate(reversed_at=Subquery(taken[:1]))
    return rows.prefetch_related("gpu_types").order_by("-pk")


def entries_for(*, actor: Actor, organization: Organization) -> QuerySet[LedgerEntry]:
    """The organization's ledger, newest first."""
    billing_require(actor=actor, organization=organization)
    rows = LedgerEntry.objects.filter(organization=organization)
    return (
        rows.select_related("invoice", "reversal", "reverses")
        .prefetch_related("postings")
        .order_by("-at", "-pk")
    )


def payments_for(*, actor: Actor, organization: Organization) -> QuerySet[LedgerEntry]:
    """Recorded payments, newest first; `reversal` is the entry that reversed one."""
    return _recorded(actor, organization, EntryKind.PREPAID)


def payouts_for(*, actor: Actor, organization: Organization) -> QuerySet[LedgerEntry]:
    """Recorded payouts, newest first; `credit` is the document whose credit was paid out, null for money in advance."""
    return _recorded(actor, organization, EntryKind.PAYOUT).select_related("credit", "reversal")


def _recorded(actor: Actor, organization: Organization, kind: EntryKind) -> QuerySet[LedgerEntry]:
    billing_require(actor=actor, organization=organization)
    rows = LedgerEntry.objects.filter(organization=organization, kind=kind)
    return rows.select_related("reversal").prefetch_related("postings").order_by("-pk")


def write_offs_for(*, actor: Actor, invoice: Invoice) -> QuerySet[LedgerEntry]:
    """Write-offs of an invoice, newest first; `reversal` is the entry that reversed one."""
    rows = entries_for(actor=actor, organization=invoice.organization)
    return rows.filter(invoice=invoice, kind=EntryKind.WRITE_OFF).order_by("-pk")


def invoices_open(*, invoices: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The open amount of each invoice after its notes, payments, grants and write-offs. One query."""
    rows = LedgerPosting.objects.annotate(of=Coalesce("entry__invoice__corrects", "entry__invoice"))
    found = (
        rows.filter(of__in=list(invoices)).order_by().values_list("of").annotate(left=LEFT, written=WRITTEN)
    )
    return {pk: left + _in_vain(left, written) for pk, left, written in found}


def _in_vain(left: int, written: int) -> int:
    """What was written off and is then credited, too: nobody has paid it, so it is not in the organization's favor."""
    return min(written, max(-left, 0))


def documents_due(*, organizations: Sequence[uuid.UUID]) -> list[tuple[Invoice, int]]:
    """Months' documents with an open amount, with it, the oldest first. Two queries."""
    due = {pk: left for pk, left in _of_documents(organizations, [Account.RECEIVABLE]) if left > 0}
    rows = Invoice.objects.filter(pk__in=list(due)).order_by("month", "closed_at", "number")
    return [(row, due[row.pk]) for row in rows]


def documents_below_zero(*, organizations: Sequence[uuid.UUID]) -> list[tuple[Invoice, int]]:
    """The newest negative document of each month's document that is below zero with its notes, and by how much. What
    was written off is left out: nobody has paid it. Two queries."""
    accounts = [Account.RECEIVABLE, Account.WRITE_OFF]
    below = {pk: -left for pk, left in _of_documents(organizations, accounts) if left < 0}
    rows = Invoice.objects.filter(Q(pk__in=list(below)) | Q(corrects__in=list(below)), total_minor__lt=0)
    newest = {row.corrects_id or row.pk: row for row in rows.order_by("closed_at", "number")}
    return [(row, below[pk]) for pk, row in newest.items()]


def _of_documents(
    organizations: Sequence[uuid.UUID], accounts: Sequence[Account]
) -> Iterable[tuple[uuid.UUID, int]]:
    rows = LedgerPosting.objects.filter(
        account__in=accounts, entry__organization__in=list(organizations), entry__invoice__isnull=False
    )
    rows = rows.order_by().annotate(of=Coalesce("entry__invoice__corrects", "entry__invoice"))
    return rows.values_list("of").annotate(sum=Sum("amount_minor")).exclude(sum=0)


def credits_left(*, organizations: Sequence[uuid.UUID]) -> list[CreditLeft]:
    """Credits that are not used up, the oldest first. One query."""
    rows = LedgerPosting.objects.filter(account=Account.CREDIT, entry__organization__in=list(organizations))
    found = (
        rows.order_by("entry__credit__closed_at", "entry__credit__number")
        .values_list("entry__credit", "entry__credit__number", "entry__organization", "entry__currency")
        .annotate(left=-Sum("amount_minor"))
        .filter(left__gt=0)
    )
    return [CreditLeft(*row) for row in found]


def prepaid_left(*, organizations: Sequence[uuid.UUID]) -> dict[tuple[uuid.UUID, str], int]:
    """By organization and currency. One query."""
    rows = LedgerPosting.objects.filter(account=Account.PREPAID, entry__organization__in=list(organizations))
    postings = (
        rows.order_by().values_list("entry__organization", "entry__currency").annotate(s=Sum("amount_minor"))
    )
    return {(pk, currency): -amount for pk, currency, amount in postings}

"""Amounts owed, paid in advance and granted: sums of the ledger's postings, in minor units and as amounts."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from billing.models import Grant, Invoice, LedgerEntry, LedgerPosting
from billing.money import amount_of
from billing.states import Account, EntryKind
from gpuaas.core import clock
from gpuaas.core.errors import Forbidden, NotFound
from tenants.actors import Actor
from tenants.models import Organization
from tenants.roles import Permission


@dataclass(frozen=True)
class Balance:
    """owed: all open documents (negative: in the organization's favor); prepaid: money not used yet; granted: what is
    left of valid grants."""

    currency: str
    owed: Decimal
    prepaid: Decimal
    granted: Decimal


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
    """Three queries at most."""
    billing_require(actor=actor, organization=organization)
    sums = dict(
        LedgerPosting.objects.filter(entry__organization=organization, entry__currency=currency)
        .order_by()
        .values_list("account")
        .annotate(sum=Sum("amount_minor"))
    )
    granted = (
        Grant.objects.filter(
            organization=organization, currency=currency, expires_at__gt=now or clock.now()
        ).aggregate(left=Sum(F("amount_minor") - F("used_minor") - F("expired_minor")))["left"]
        or 0
    )
    return Balance(
        currency=currency,
        owed=amount_of(sums.get(Account.RECEIVABLE, 0), currency),
        prepaid=amount_of(-sums.get(Account.PREPAID, 0), currency),
        granted=amount_of(granted, currency),
    )


def grants_for(*, actor: Actor, organization: Organization) -> QuerySet[Grant]:
    """All of them, used up and expired ones included, newest first; `reversed_at`: when one was taken back."""
    billing_require(actor=actor, organization=organization)
    taken = LedgerEntry.objects.filter(grant=OuterRef("pk"), kind=EntryKind.REVERSAL).values("at")
    rows = Grant.objects.filter(organization=organization).annotate(reversed_at=Subquery(taken[:1]))
    return rows.prefetch_related("gpu_types").order_by("-pk")


def entries_for(*, actor: Actor, organization: Organization) -> QuerySet[LedgerEntry]:
    """The organization's ledger, newest first."""
    billing_require(actor=actor, organization=organization)
    rows = LedgerEntry.objects.filter(organization=organization).select_related("invoice", "reversal")
    return rows.prefetch_related("postings").order_by("-at", "-pk")


def payments_for(*, actor: Actor, organization: Organization) -> QuerySet[LedgerEntry]:
    """Recorded payments, newest first; `reversal` is the entry that reversed one."""
    billing_require(actor=actor, organization=organization)
    rows = LedgerEntry.objects.filter(organization=organization, kind=EntryKind.PREPAID)
    return rows.select_related("reversal").prefetch_related("postings").order_by("-pk")


def write_offs_for(*, actor: Actor, invoice: Invoice) -> QuerySet[LedgerEntry]:
    """Write-offs of an invoice, newest first; `reversal` is the entry that reversed one."""
    rows = entries_for(actor=actor, organization=invoice.organization)
    return rows.filter(invoice=invoice, kind=EntryKind.WRITE_OFF).order_by("-pk")


def invoices_open(*, invoices: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The open amount of each invoice after its notes, payments, grants and write-offs. One query."""
    rows = LedgerPosting.objects.filter(account=Account.RECEIVABLE).order_by()
    rows = rows.annotate(of=Coalesce("entry__invoice__corrects", "entry__invoice"))
    return dict(rows.filter(of__in=list(invoices)).values_list("of").annotate(sum=Sum("amount_minor")))


def prepaid_left(*, organizations: Sequence[uuid.UUID]) -> dict[tuple[uuid.UUID, str], int]:
    """By organization and currency. One query."""
    rows = LedgerPosting.objects.filter(account=Account.PREPAID, entry__organization__in=list(organizations))
    postings = (
        rows.order_by().values_list("entry__organization", "entry__currency").annotate(s=Sum("amount_minor"))
    )
    return {(pk, currency): -amount for pk, currency, amount in postings}

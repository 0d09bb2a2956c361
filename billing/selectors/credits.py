"""What credits pay: which document gave them, what they have paid, and what is left."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from django.db.models import Sum

from billing.models import LedgerPosting
from billing.money import amount_of
from billing.states import Account, EntryKind


@dataclass
class Credit:
    """number: the document that gave it. pays: by the number of the document; paid_out: as money."""

    number: str
    currency: str
    given: Decimal = Decimal(0)
    paid_out: Decimal = Decimal(0)
    pays: dict[str, Decimal] = field(default_factory=dict)

    @property
    def left(self) -> Decimal:
        return self.given - self.paid_out - sum(self.pays.values())


def credits_of(*, invoices: Sequence[uuid.UUID]) -> dict[uuid.UUID, Credit]:
    """By the document that gave it. One query."""
    rows = LedgerPosting.objects.filter(account=Account.CREDIT, entry__credit__in=list(invoices))
    sums = (
        rows.order_by("entry__credit__number", "entry__invoice__closed_at", "entry__invoice__number")
        .values_list(
            *("entry__credit", "entry__credit__number", "entry__currency"),
            *("entry__kind", "entry__invoice__number"),
        )
        .annotate(sum=Sum("amount_minor"))
    )
    found: dict[uuid.UUID, Credit] = {}
    for pk, number, currency, kind, paid, minor in sums:
        credit = found.setdefault(pk, Credit(number, currency))
        amount = amount_of(minor, currency)
        if kind == EntryKind.CREDIT:
            credit.given -= amount
        elif kind == EntryKind.CREDIT_USE:
            if amount:
                credit.pays[paid] = amount
        else:
            credit.paid_out += amount
    return found


def credits_that_pay(*, invoices: Sequence[uuid.UUID], currency: str) -> dict[str, Decimal]:
    """What credits paid of documents, by the number of the document that gave them. One query."""
    rows = LedgerPosting.objects.filter(
        account=Account.CREDIT, entry__kind=EntryKind.CREDIT_USE, entry__invoice__in=list(invoices)
    )
    sums = rows.order_by("entry__credit__number").values_list("entry__credit__number")
    return {
        number: amount_of(minor, currency)
        for number, minor in sums.annotate(sum=Sum("amount_minor"))
        if minor
    }

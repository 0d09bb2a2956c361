"""Writes ledger entries: several at once, each balanced, which the database also checks."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.models import LedgerEntry, LedgerPosting
from billing.states import Account, EntryKind
from gpuaas.core.ids import uuid7


@dataclass(frozen=True)
class Booking:
    """amounts: debit plus, credit minus, in minor units; zeros are left out."""

    organization_id: uuid.UUID
    kind: EntryKind
    currency: str
    text: str
    amounts: Mapping[Account, int]
    invoice_id: uuid.UUID | None = None
    grant_id: uuid.UUID | None = None
    reverses_id: uuid.UUID | None = None
    credit_id: uuid.UUID | None = None


def bookings_write(bookings: Sequence[Booking], *, now: datetime, by: str) -> None:
    """In a transaction of the caller. Raises ValueError for an entry that does not balance: always a bug, never a
    user's error."""
    entries, postings = [], []
    for booking in bookings:
        amounts = {account: amount for account, amount in booking.amounts.items() if amount}
        if not amounts:
            continue
        if sum(amounts.values()):
            raise ValueError(f"{booking.text}: the postings do not add up to zero")
        entry = LedgerEntry(
            id=uuid7(),
            organization_id=booking.organization_id,
            kind=booking.kind,
            currency=booking.currency,
            at=now,
            by=by[:150],
            text=booking.text[:300],
            invoice_id=booking.invoice_id,
            grant_id=booking.grant_id,
            reverses_id=booking.reverses_id,
            credit_id=booking.credit_id,
            posting_count=len(amounts),
        )
        entries.append(entry)
        postings += [
            LedgerPosting(entry=entry, account=account, amount_minor=amount)
            for account, amount in amounts.items()
        ]
    LedgerEntry.objects.bulk_create(entries)
    # one statement: an entry's postings are checked together as they come in
    LedgerPosting.objects.bulk_create(postings)

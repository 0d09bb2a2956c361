"""Which grant pays what, over random amounts; and an entry that does not balance is refused by the database."""

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from billing.booking import Booking, bookings_write
from billing.grant_cover import Offer, cover, pools_of
from billing.models import LedgerEntry, LedgerPosting
from billing.money import tax_of
from billing.states import Account, EntryKind
from gpuaas.core.ids import uuid7
from tenants.models import Organization
from tests.billing.stage import utc

LATER = utc("2030-01-01")


def test_what_does_not_balance_cannot_be_written(organization: Organization) -> None:
    booking = Booking(organization.pk, EntryKind.GRANT, "EUR", "odd", {Account.CASH: 5, Account.PREPAID: -4})
    with pytest.raises(ValueError, match="odd"):
        bookings_write([booking], now=LATER, by="olga")
    with pytest.raises(IntegrityError), transaction.atomic():
        _write_raw(organization, [("cash", 5), ("prepaid", -4)])
    with pytest.raises(IntegrityError), transaction.atomic():
        _write_raw(organization, [])


def _write_raw(organization: Organization, rows: list[tuple[str, int]]) -> None:
    entry = LedgerEntry(
        organization=organization, kind="grant", currency="EUR", at=LATER, by="olga", text="odd"
    )
    entry.posting_count = 2
    entry.save(force_insert=True)
    LedgerPosting.objects.bulk_create(
        [LedgerPosting(entry=entry, account=account, amount_minor=amount) for account, amount in rows]
    )
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


TYPES = st.sampled_from(["", "a100", "h100", "l40s"])


@given(
    st.dictionaries(TYPES, st.integers(-500, 5000), max_size=4),
    st.lists(st.tuples(st.integers(0, 5000), st.frozensets(TYPES, max_size=2)), max_size=5),
    st.integers(0, 3000),
)
def test_grants_never_pay_more_than_they_have_or_for_what_they_may_not(
    net: dict[str, int], grants: list[tuple[int, frozenset[str]]], rate: int
) -> None:
    subtotal = sum(net.values())
    total = subtotal + tax_of(subtotal, rate)
    pools = pools_of(net, total)
    assert sum(pools.values()) in {0, total}
    offers = [Offer(uuid7(), left, types) for left, types in grants]
    paid = cover(pools, offers)
    assert sum(paid.values()) <= max(total, 0)
    for offer in offers:
        eligible = sum(amount for name, amount in pools.items() if offer.pays(name))
        assert 0 <= paid.get(offer.grant_id, 0) <= min(offer.left, eligible)
    # nothing is left open that a grant with something left may pay
    for offer in offers:
        if paid.get(offer.grant_id, 0) < offer.left and not offer.gpu_types:
            assert sum(paid.values()) == sum(pools.values())


def test_expiry_comes_first_and_the_narrow_grant_keeps_its_place() -> None:
    wide, narrow = Offer(uuid7(), 100, frozenset()), Offer(uuid7(), 100, frozenset({"h100"}))
    assert cover({"h100": 100, "l40s": 100}, [wide, narrow]) == {wide.grant_id: 100, narrow.grant_id: 100}
    assert cover({"h100": 50}, [narrow, wide]) == {narrow.grant_id: 50}

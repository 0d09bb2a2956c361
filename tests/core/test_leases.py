"""Leases: one at a time, the dead are succeeded, and late results are dropped."""

from datetime import timedelta

import pytest
from django.db import connections, transaction

from gpuaas.catalog.models import Site
from gpuaas.core import clock, leases
from tests.factories.catalog import SiteFactory

MINUTE = timedelta(minutes=1)


@pytest.fixture
def row(db: None) -> Site:
    return SiteFactory.create(due_at=clock.now() - MINUTE)


def test_one_lease_at_a_time_and_the_dead_are_succeeded(row: Site) -> None:
    now = clock.now()
    first = leases.claim(Site, row.pk, now=now, seconds=30)
    assert first is not None
    assert leases.claim(Site, row.pk, now=now, seconds=30) is None
    second = leases.claim(Site, row.pk, now=now + timedelta(seconds=30), seconds=30)
    assert second is not None
    assert not leases.apply(first, name="late"), "the first one's result is dropped"
    assert leases.apply(second, name="current")
    assert leases.release(second, due_at=None)
    row.refresh_from_db()
    assert (row.name, row.claim_token, row.due_at) == ("current", None, None)
    assert not leases.release(second, due_at=now), "given back once"


def test_claiming_what_is_gone(row: Site) -> None:
    row.delete()
    assert leases.claim(Site, row.pk, now=clock.now(), seconds=30) is None


def test_due_rows_oldest_first(row: Site) -> None:
    now = clock.now()
    older = SiteFactory.create(due_at=now - 2 * MINUTE)
    SiteFactory.create(due_at=now + MINUTE)
    SiteFactory.create(due_at=None)
    held = SiteFactory.create(due_at=now - MINUTE)
    assert leases.claim(Site, held.pk, now=now, seconds=30)
    assert leases.due_ids(Site, now=now, limit=10) == [older.pk, row.pk]
    assert leases.due_ids(Site, now=now, limit=1) == [older.pk]


@pytest.mark.django_db(transaction=True)
def test_sweeps_pass_over_what_another_has_locked(row: Site) -> None:
    other = connections["default"].copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM catalog_site WHERE id = %s FOR UPDATE", [row.pk])
            with transaction.atomic():
                assert leases.due_ids(Site, now=clock.now(), limit=10) == []
            cursor.execute("ROLLBACK")
        assert leases.due_ids(Site, now=clock.now(), limit=10) == [row.pk]
    finally:
        other.close()

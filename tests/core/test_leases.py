"""Leases: one at a time, succeeded when over, and a wish made meanwhile is kept."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core import leases
from gpuaas.core.clock import now
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db


def test_one_holder_at_a_time_until_it_is_over() -> None:
    site = SiteFactory.create()
    moment = now()
    first = leases.claim(Site, site.pk, now=moment, seconds=60)

    assert first is not None
    assert leases.claim(Site, site.pk, now=moment + timedelta(seconds=59), seconds=60) is None
    second = leases.claim(Site, site.pk, now=moment + timedelta(seconds=60), seconds=60)
    assert second is not None
    assert not leases.apply(first, name="late")
    assert leases.release(second, due_at=None)
    site.refresh_from_db()
    assert (site.claim_token, site.due_at) == (None, None)


@pytest.mark.parametrize("due", [True, False])
def test_a_wish_made_during_the_work_is_not_slept_over(due: bool) -> None:
    site = SiteFactory.create(due_at=now() if due else None)
    claimed = leases.claim(Site, site.pk, now=now(), seconds=60)
    assert claimed is not None
    wish = now()
    Site.objects.filter(pk=site.pk).update(due_at=wish)

    leases.release(claimed, due_at=wish + timedelta(hours=1))

    site.refresh_from_db()
    assert site.due_at == wish
    assert leases.due_ids(Site, now=now(), limit=5) == [site.pk]


def test_what_is_at_rest_is_not_taken_and_stays_free() -> None:
    resting, wanting = SiteFactory.create(due_at=None), SiteFactory.create(due_at=now())

    assert leases.claim_wanted(Site, resting.pk, now=now(), seconds=60) is None
    resting.refresh_from_db()
    assert (resting.claim_token, resting.claim_until) == (None, None)
    assert leases.claim_wanted(Site, wanting.pk, now=now(), seconds=60) is not None
    assert leases.claim_wanted(Site, wanting.pk, now=now(), seconds=60) is None, "somebody has it"

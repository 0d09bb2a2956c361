"""Claims: one at a time, succeeded when over, and a wish made meanwhile is kept."""

import uuid
from datetime import timedelta

import pytest
from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.core.errors import GpuaasError, Permanent, Unavailable
from tests.factories.catalog import SiteFactory

pytestmark = pytest.mark.django_db


def test_one_holder_at_a_time_until_it_is_over() -> None:
    site = SiteFactory.create()
    moment = now()
    first = claims.claim(Site, site.pk, now=moment, seconds=60)

    assert first is not None
    assert claims.claim(Site, site.pk, now=moment + timedelta(seconds=59), seconds=60) is None
    second = claims.claim(Site, site.pk, now=moment + timedelta(seconds=60), seconds=60)
    assert second is not None
    assert not claims.apply(first, name="late")
    assert claims.release(second, due_at=None)
    site.refresh_from_db()
    assert (site.claim_token, site.due_at) == (None, None)


@pytest.mark.parametrize("due", [True, False])
def test_a_wish_made_during_the_work_is_not_slept_over(due: bool) -> None:
    site = SiteFactory.create(due_at=now() if due else None)
    claimed = claims.claim(Site, site.pk, now=now(), seconds=60)
    assert claimed is not None
    wish = now()
    Site.objects.filter(pk=site.pk).update(due_at=wish)

    claims.release(claimed, due_at=wish + timedelta(hours=1))

    site.refresh_from_db()
    assert site.due_at == wish
    assert claims.due_ids(Site, now=now(), limit=5) == [site.pk]


@pytest.mark.parametrize("wait", [None, timedelta(minutes=1)])
def test_what_is_not_due_is_not_taken_and_stays_free(wait: timedelta | None) -> None:
    due_at = now() + wait if wait else None
    resting, wanting = SiteFactory.create(due_at=due_at), SiteFactory.create(due_at=now())
    worked = []

    def work(site: Site) -> bool:
        worked.append(site)
        assert not claims.claimed(Site, site.pk, work, only_due=True), "somebody has it"
        return claims.release(site, due_at=None)

    assert not claims.claimed(Site, resting.pk, work, only_due=True)
    resting.refresh_from_db()
    assert (resting.claim_token, resting.claim_until, resting.due_at) == (None, None, due_at)
    assert claims.claimed(Site, wanting.pk, work, only_due=True)
    assert worked == [wanting]


def test_a_failure_is_tried_again_when_the_site_wants_to_be_asked() -> None:
    site = SiteFactory.create(due_at=now())

    def work(site: Site) -> bool:
        raise Unavailable("the site is being upgraded", retry_after=40)

    assert not claims.claimed(Site, site.pk, work)
    site.refresh_from_db()
    assert (site.claim_token, site.attempts) == (None, 1)
    assert site.due_at is not None
    assert 35 < (site.due_at - now()).total_seconds() <= 40


def test_an_error_that_nobody_foresaw_has_words() -> None:
    site = SiteFactory.create(due_at=now())
    told: list[GpuaasError] = []

    def work(site: Site) -> bool:
        raise KeyError("a bug")

    assert not claims.claimed(Site, site.pk, work, failed=lambda _, error: told.append(error))
    (error,) = told
    assert isinstance(error, Permanent)
    assert "unexpected error (KeyError)" in error.message


def test_nothing_is_written_once_the_claim_was_lost() -> None:
    site = SiteFactory.create(due_at=now())
    told: list[GpuaasError] = []

    def work(site: Site) -> bool:
        Site.objects.update(claim_token=uuid.uuid4())
        claims.extend(site)
        return True

    assert not claims.claimed(Site, site.pk, work, failed=lambda _, error: told.append(error))
    assert told == []


def test_no_work_is_begun_inside_a_transaction(transactional_db: None) -> None:
    site = SiteFactory.create(due_at=now())
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        claims.claimed(Site, site.pk, claims.rest)

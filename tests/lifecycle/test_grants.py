"""For how long a credential lives, and what becomes of one that could not be issued."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pytest_django import Settings

from gpuaas.catalog.models import Flavor
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound, Permanent, Unavailable
from gpuaas.lifecycle.grants import GrantStanding, grant_issue, lifetime_of, standing
from gpuaas.providers.base import Access
from gpuaas.workspaces.models import AccessGrant
from tenants.models import Project, User
from tests.metering.stage import workspace_make

HOUR = timedelta(hours=1)


def test_a_lifetime_is_within_the_policy(settings: Settings) -> None:
    assert lifetime_of(None) == 8 * HOUR
    settings.ACCESS_HOURS_MAX = 1
    assert lifetime_of(None) == HOUR
    assert lifetime_of(timedelta(minutes=10)) == timedelta(minutes=10)
    for wrong in (timedelta(minutes=9), 2 * HOUR):
        with pytest.raises(Invalid, match=r"from 10 minutes to 1 hour$"):
            lifetime_of(wrong)
    settings.ACCESS_HOURS_MAX = 48
    with pytest.raises(Invalid, match=r"to 24 hours$"):
        lifetime_of(25 * HOUR)


def test_a_standing_is_the_end_before_the_wish() -> None:
    past, future = now() - HOUR, now() + HOUR
    assert standing(revoked_at=past, expires_at=future, ending=True) is GrantStanding.REVOKED
    assert standing(revoked_at=None, expires_at=past, ending=True) is GrantStanding.EXPIRED
    assert standing(revoked_at=None, expires_at=future, ending=True) is GrantStanding.ENDING
    assert standing(revoked_at=None, expires_at=future, ending=False) is GrantStanding.VALID


def refusing(error: GpuaasError) -> Callable[[], Access]:
    def ask() -> Access:
        assert AccessGrant.objects.count() == 1, "written down before the site is asked"
        raise error

    return ask


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "raised", "left"),
    [
        (NotFound("no such namespace"), Conflict, 0),
        (Permanent("never"), Permanent, 0),
        (Unavailable("no answer"), Unavailable, 1),
    ],
)
def test_what_may_have_been_made_stays_written_down(
    project: Project, h100: Flavor, alice: User, error: GpuaasError, raised: type[GpuaasError], left: int
) -> None:
    workspace = workspace_make(project, h100, alice)
    grant = AccessGrant(
        workspace=workspace, user=alice, issued_by="alice", issued_at=now(), expires_at=now() + HOUR
    )
    with pytest.raises(raised) as refused:
        grant_issue(grant, refusing(error), unknown="try again in a few seconds")
    assert AccessGrant.objects.count() == left
    if raised is Conflict:
        assert refused.value.message == "try again in a few seconds"

"""What a sleeping workspace will cost ends on the stored date of its deletion."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from billing.running import Ahead, coming
from billing.services.rates import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.mark.parametrize(("stored", "days"), [(3, 3), (None, 7), (-1, 0)])
def test_it_goes_on_until_the_stored_date(
    project: Project,
    h100: Flavor,
    alice: User,
    as_olga: Actor,
    settings: Settings,
    stored: int | None,
    days: int,
) -> None:
    """Without one, as what does not sleep yet: for a whole grace period, by the present setting."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2", valid_from=utc("2026-01-01"))
    row, now = workspace_make(project, h100, alice, name="asleep"), clock.whole_second(clock.now())
    interval_make(row, h100, now - DAY, None, quantity=1)
    until = None if stored is None else now + stored * DAY
    Workspace.objects.filter(pk=row.pk).update(
        state="suspended", lease_ends_at=now - 30 * DAY, deleted_after=until
    )
    found = coming(now=now, projects=[project.pk], stretches=[Ahead(now, now + 20 * DAY)])
    assert sum(one.gpu_seconds for one in found) == days * DAY.total_seconds()
    settings.LEASE_GRACE_DAYS = 1
    again = coming(now=now, projects=[project.pk], stretches=[Ahead(now, now + 20 * DAY)])
    assert (again == found) == (stored is not None)

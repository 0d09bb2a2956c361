"""One reading of the tariff serves several statements, which then say what each says by a reading of its own."""

from datetime import timedelta
from itertools import zip_longest
from typing import Any

import pytest

from billing.models import Discount
from billing.running import Ahead, coming
from billing.services import rate_card_ensure
from billing.tariffs import tariff_read
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Workspace
from tenants.models import Organization, Project, User
from tests.billing.stage import interval_make, rate_make, workspace_make

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize("asked", [{}, {"most": 1}, {"most": 9}, {"holders": True, "most": 9}])
def test_what_is_to_come_is_the_same_by_a_wider_tariff(
    asked: dict[str, Any], organization: Organization, project: Project, h100: Flavor, alice: User
) -> None:
    """Prices that changed, and others that are to change; a discount that ends; storage, whose price is of no flavor."""
    now = clock.whole_second(clock.now())
    changes = [now - 40 * DAY, now - 2 * DAY, now + 3 * DAY, now + 50 * DAY]
    card = rate_card_ensure()
    for number, (start, end) in enumerate(zip_longest(changes, changes[1:])):
        rate_make(card, h100, 2_000_000 + number, start, end)
    rate_make(card, None, 137, changes[0], meter=Meter.STORAGE_HELD)
    Discount.objects.create(
        organization=organization, basis_points=1234, valid_from=now - DAY, valid_to=now + 5 * DAY
    )
    for number, name in enumerate(("one", "two")):
        row = workspace_make(project, h100, alice, name=name)
        Workspace.objects.filter(pk=row.pk).update(lease_ends_at=now + (number + 1) * 4 * DAY)
        interval_make(row, h100, now - DAY, None, quantity=number + 1)
        interval_make(row, None, now - DAY, None, quantity=500, meter=Meter.STORAGE_HELD)
    if asked.pop("holders", False):
        asked["holders"] = list(project.workspaces.values_list("pk", flat=True))[:1]
    stretches = [Ahead(now, now + DAY), Ahead(now + HOUR, now + 30 * DAY)]
    wide = tariff_read(first=now - 60 * DAY, last=now + 90 * DAY, projects=[project.pk])
    whole = {"now": now, "projects": [project.pk], "stretches": stretches, **asked}
    own = coming(**whole)
    assert any(one.numerator for one in own)
    assert sorted(coming(**whole, tariff=wide), key=repr) == sorted(own, key=repr)


def test_a_tariff_that_ends_too_early_is_refused(project: Project) -> None:
    now = clock.whole_second(clock.now())
    short = tariff_read(first=now, last=now + DAY, projects=[project.pk])
    with pytest.raises(ValueError, match="has not all prices"):
        coming(now=now, projects=[project.pk], stretches=[Ahead(now, now + 2 * DAY)], tariff=short)

"""Where clocks are put back at one o'clock, midnight comes twice: a price that begins with the second one is none of a whole day."""

import pytest
from django.test import override_settings

from billing.months import day_span, month_days, month_span
from billing.rating import Slots
from billing.services import rate_card_ensure
from billing.services.keeping import usage_keep
from gpuaas.catalog.models import Flavor
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.billing.test_keeping import OCTOBER, cells

pytestmark = pytest.mark.django_db
FIRST, SECOND = utc("2026-10-25 00:00:00"), utc("2026-10-25 01:00:00")


@override_settings(BILLING_TIME_ZONE="Atlantic/Azores")
def test_what_is_kept_is_rated_by_the_price_of_its_own_hour(
    project: Project, h100: Flavor, alice: User
) -> None:
    assert day_span(SECOND.date()).starts_at == FIRST
    card = rate_card_ensure()
    rate_make(card, h100, 1_000_000, utc("2026-01-01"), SECOND)
    rate_make(card, h100, 3_000_000, SECOND)
    interval_make(workspace_make(project, h100, alice), h100, utc("2026-10-24"), utc("2026-10-27"))
    now = utc("2026-11-02")
    usage_keep(now=now)
    month, days = month_span(OCTOBER), month_days(OCTOBER)
    for slots in (Slots([OCTOBER], [month]), Slots([OCTOBER] * len(days), days)):
        kept, anew = (cells(project, slots, now, False, stored=stored) for stored in (True, False))
        assert kept == anew
        assert sum(cell.amount or 0 for cell in kept) == 25 + 47 * 3

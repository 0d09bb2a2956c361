"""A final month shows to the last cell what its usage gave, before its intervals are in files and after; whatever the prices."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from django.db import transaction
from hypothesis import HealthCheck, example, given
from hypothesis import settings as bounds
from hypothesis import strategies as st
from pytest_django import Settings

from billing.models import InvoiceLine, KeptMonth
from billing.months import month_days, month_span
from billing.rating import Cell, Slots, rate_usage
from billing.services.keeping import usage_keep
from billing.services.retention import month_finish, usage_archive
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import UsageInterval
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import utc
from tests.billing.test_late_properties import first_price
from tests.billing.test_terms_properties import Stage, any_mode, discounts, sessions, terms_of, used

MONTHS = (date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1))
LATER = utc("2027-06-01")
FREE = (-30_000_000, 5_000_000, "", [(1, 5)], (1, 0))
JANUARY = date(2027, 1, 1)
WHOLE = Slots(MONTHS, [month_span(month) for month in MONTHS])
DAYS = Slots(
    [month for month in MONTHS for _ in month_days(month)],
    [day for month in MONTHS for day in month_days(month)],
)


@given(
    usage=used,
    late=used,
    opening=first_price,
    terms=terms_of(sessions, any_mode),
    lowered=discounts,
    final=st.integers(1, 3),
)
@example(  # it was another workspace: no line says so
    usage=[(169, 385, 16, 0)], late=[(169, 385, 16, 1)], opening=FREE, terms=[], lowered=[], final=1
)
@bounds(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_final_and_archived_months_show_what_their_usage_gave(
    project: Project,
    h100: Flavor,
    alice: User,
    as_olga: Actor,
    tmp_path: Path,
    settings: Settings,
    usage: list[Any],
    late: list[Any],
    opening: Any,
    terms: list[Any],
    lowered: list[Any],
    final: int,
) -> None:
    settings.USAGE_RETENTION_MONTHS = 3
    for file in tmp_path.iterdir():
        file.unlink()
    with transaction.atomic():
        stage = Stage(project, h100, alice)
        stage.price([opening, *terms], lowered)
        for month, told in zip(MONTHS, (usage, late, late), strict=True):
            stage.use(told)
            month_close(as_olga, month, accept="random usage")
        usage_keep(now=LATER)
        known = views(stage)
        ids = {str(pk) for pk in UsageInterval.objects.values_list("pk", flat=True)}
        for month in MONTHS[:final]:
            month_finish(actor=as_olga, month=month, now=LATER)
            assert views(stage) == known
        assert not KeptMonth.objects.filter(month__lte=MONTHS[final - 1]).exists()
        usage_archive(actor=as_olga, folder=tmp_path, tell=print)
        assert views(stage) == known
        left = {str(pk) for pk in UsageInterval.objects.values_list("pk", flat=True)}
        filed = [row for path in tmp_path.glob("*.parquet") for row in pq.read_table(path)["id"].to_pylist()]
        assert sorted([*left, *filed]) == sorted(ids)
        before = InvoiceLine.objects.count()
        month_close(as_olga, JANUARY, accept="random usage", now=LATER)
        assert InvoiceLine.objects.count() == before
        transaction.set_rollback(True)


def views(stage: Stage) -> list[list[Cell]]:
    """By line, day, holder, and holder and day; of single holders, and by sums that are kept and not."""
    everybody: dict[str, Any] = {"now": LATER, "projects": [stage.project.pk]}
    found = [
        rate_usage(slots=slots, **everybody, by_holder=by_holder, stored=stored)
        for slots in (WHOLE, DAYS)
        for by_holder in (False, True)
        for stored in (False, True)
    ]
    one = [stage.workspaces[0].pk]
    return [
        *found,
        rate_usage(slots=DAYS, **everybody, by_holder=True, holders=one),
        rate_usage(slots=WHOLE, now=LATER, projects=None),
    ]

"""A month of a million intervals with two changes of price: our invoice lines against one hand-written statement."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from django.db import connection

from billing.models import RateCard, RateCardVersion
from billing.money import amount_of
from billing.months import month_span
from billing.rating import Slots, rate_usage
from gpuaas.catalog.models import Flavor
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.models import Workspace
from tests.bench.table import Measured
from tests.factories.catalog import FlavorFactory
from tests.factories.tenants import ProjectFactory, UserFactory

INTERVALS, PROJECTS, ROUNDS = 1_000_000, 200, 3
MONTH = date(2026, 10, 1)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
FILL = """
INSERT INTO metering_usageinterval (id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter,
    resource_name, quantity, started_at, ended_at, last_seen_at, ended_by)
SELECT gen_random_uuid(), %(site)s, w.project_id, w.id, (%(flavors)s::uuid[])[1 + n %% array_length(%(flavors)s::uuid[], 1)],
       'bench-' || n, 'pod', '', 'gpu_allocated', 'nvidia.com/gpu', 1 + n %% 8, s.at, s.at + (n %% 7200 + 1) * interval '1 second',
       s.at, 'observed'
FROM generate_series(1, %(count)s) n
JOIN (SELECT id, project_id, row_number() OVER (ORDER BY id) - 1 AS number FROM workspaces_workspace
      WHERE name = 'bench-rating') w ON w.number = n %% %(projects)s
CROSS JOIN LATERAL (SELECT %(from)s + (n::bigint * 7919 %% %(seconds)s) * interval '1 second' AS at) s
"""
BY_HAND = """
SELECT project_id, flavor_id, price_micro, sum(units) AS unit_seconds,
       div(2 * sum(units) * price_micro + 36000000, 72000000) AS cents
FROM (
    SELECT u.project_id, u.flavor_id, r.price_micro,
           u.quantity * extract(EPOCH FROM least(u.ended_at, r.valid_to, %(ends)s) - greatest(u.started_at, r.valid_from, %(starts)s))
               ::bigint AS units
    FROM metering_usageinterval u
    JOIN (SELECT flavor_id, meter, price_micro, valid_from, coalesce(valid_to, 'infinity') AS valid_to FROM billing_rate) r
        ON r.flavor_id = u.flavor_id AND r.meter = u.meter AND r.valid_from < least(u.ended_at, %(ends)s)
        AND r.valid_to > greatest(u.started_at, %(starts)s)
    WHERE u.started_at < %(ends)s AND u.ended_at > %(starts)s
) p
GROUP BY project_id, flavor_id, price_micro
"""


def measure() -> list[Measured]:
    _stage()
    span = month_span(MONTH)
    slots = Slots([MONTH], [span])
    by_hand, ours = [], []
    for _ in range(ROUNDS):
        by_hand.append(_seconds(lambda: _by_hand(span.starts_at, span.ends_at)))
        ours.append(_seconds(lambda: rate_usage(slots=slots, now=NOW, projects=None)))
    expected = {
        (row[0], row[1], row[2]): (int(row[3]), int(row[4])) for row in _by_hand(span.starts_at, span.ends_at)
    }
    found = {
        (cell.project_id, cell.flavor_id, int((cell.unit_price or 0) * 1_000_000)): (
            cell.unit_seconds,
            cell.amount,
        )
        for cell in rate_usage(slots=slots, now=NOW, projects=None)
    }
    assert found == {key: (units, amount_of(cents, "EUR")) for key, (units, cents) in expected.items()}
    what = f"{INTERVALS:,} intervals, two changes of price → lines"
    note = f"{len(found)} lines, the same to the cent"
    return [
        Measured(what, "s", min(ours), min(by_hand), "hand-written SQL", higher_is_better=False, note=note)
    ]


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _by_hand(starts: datetime, ends: datetime) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(BY_HAND, {"starts": starts, "ends": ends})
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _stage() -> None:
    span = month_span(MONTH)
    flavors = [FlavorFactory.create(slug=f"bench-{number}") for number in range(4)]
    user = UserFactory.create(username="bench-rating")
    site = flavors[0].pool.site
    for number in range(PROJECTS):
        Workspace.objects.create(
            project=ProjectFactory.create(slug=f"bench-rating-{number}"),
            site=site,
            name="bench-rating",
            lease_ends_at=NOW,
            created_by=user,
            created_at=span.starts_at,
        )
    _prices(flavors)
    with connection.cursor() as cursor:
        cursor.execute(
            FILL,
            {
                "site": site.pk,
                "flavors": [flavor.pk for flavor in flavors],
                "count": INTERVALS,
                "projects": PROJECTS,
                "from": span.starts_at,
                "seconds": span.seconds,
            },
        )
        cursor.execute("VACUUM ANALYZE")


def _prices(flavors: list[Flavor]) -> None:
    card = RateCard.objects.create(slug="bench", name="Bench", currency="EUR")
    bounds = [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 10, 10, tzinfo=UTC),
        datetime(2026, 10, 20, tzinfo=UTC),
    ]
    for number, start in enumerate(bounds):
        version = RateCardVersion.objects.create(
            card=card, number=number + 1, valid_from=start, published_by="bench"
        )
        for flavor in flavors:
            version.rates.create(
                id=uuid7(),
                card=card,
                flavor=flavor,
                meter="gpu_allocated",
                price_micro=2_400_000 + number * 100_001,
                valid_from=start,
                valid_to=bounds[number + 1] if number < 2 else None,
                created_by="bench",
            )

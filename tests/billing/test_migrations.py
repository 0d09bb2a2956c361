"""Migration 0003 on a database that has prices: they get their versions, hold as before, and charge the same.

In a database of its own, so that whatever happens here the others' stays as it is.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from billing.models import Rate, RateCard, RateCardVersion
from billing.months import month_span
from billing.rating import Slots, rate_usage
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.factories.catalog import stock_site
from tests.factories.tenants import ProjectFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = ("billing", "0002_rates_do_not_overlap")
MARCH, MAY = utc("2026-03-01"), utc("2026-05-10 12:00:00")


@contextmanager
def own_database() -> Iterator[str]:
    name = f"{connection.settings_dict['NAME']}_moved"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    try:
        yield name
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def inside(name: str, work: Callable[[], None]) -> None:
    """Connections belong to threads: in this one the portal's database is the other one."""
    failed: list[BaseException] = []

    def run() -> None:
        own: Any = connections.create_connection("default")
        own.settings_dict = {**own.settings_dict, "NAME": name}
        connections["default"] = own
        try:
            work()
        except BaseException as error:  # noqa: BLE001  told to the thread that waits
            failed.append(error)
        finally:
            own.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def migrate_until(billing: tuple[str, str]) -> Any:
    """All rooms to their newest, billing to `billing`; the models as they were then."""
    executor = MigrationExecutor(connection)
    targets = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] != "billing"]
    return executor.migrate([*targets, billing]).apps


def old_prices(apps: Any, h100: Flavor, l40s: Flavor) -> None:
    """H100 at 2.40, from the 10th of May 3.00; L40S at 0.95 throughout; storage from May on."""
    card = apps.get_model("billing", "RateCard").objects.create(
        slug="standard", name="Standard", currency="EUR", is_default=True
    )
    rows = (
        (h100.pk, "gpu_held", 2_400_000, MARCH, MAY),
        (h100.pk, "gpu_held", 3_000_000, MAY, None),
        (l40s.pk, "gpu_held", 950_000, MARCH, None),
        (None, "storage_held", 120, MAY, None),
    )
    for flavor, meter, micro, start, end in rows:
        apps.get_model("billing", "Rate").objects.create(
            card=card,
            flavor_id=flavor,
            meter=meter,
            price_micro=micro,
            valid_from=start,
            valid_to=end,
            created_by="olga",
        )


def kept() -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, card_id, flavor_id, meter, price_class, price_micro, valid_from, valid_to, created_by "
            "FROM billing_rate ORDER BY id"
        )
        return list(cursor.fetchall())


def charged() -> dict[str, Decimal | None]:
    """May, by unit price."""
    span = month_span(date(2026, 5, 1))
    cells = rate_usage(slots=Slots([span.day], [span]), now=clock.now(), projects=None)
    return {f"{cell.flavor} at {cell.unit_price}": cell.amount for cell in cells}


def test_prices_of_before_versions_hold_and_charge_the_same() -> None:
    def work() -> None:
        apps = migrate_until(BEFORE)
        site: Site = stock_site()
        h100, l40s = Flavor.objects.get(slug="h100.1"), Flavor.objects.get(slug="l40s.1")
        old_prices(apps, h100, l40s)
        before = kept()

        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
        assert kept() == before
        versions = RateCardVersion.objects.order_by("number")
        assert [(row.number, row.valid_from) for row in versions] == [(1, MARCH), (2, MAY)]
        assert all(rate.version.valid_from == rate.valid_from for rate in Rate.objects.all())
        card = RateCard.objects.get()
        assert (card.slug, card.organization_id) == ("standard", None)

        project: Project = ProjectFactory.create()
        user: User = UserFactory.create()
        for flavor in (h100, l40s):
            used = workspace_make(project, flavor, user, name=flavor.slug.replace(".", "-"))
            interval_make(used, flavor, utc("2026-05-10 02:00:00"), utc("2026-05-10 22:00:00"))
        assert site.pk == h100.pool.site_id
        assert charged() == {
            "h100.1 at 2.40": Decimal("24.00"),
            "h100.1 at 3.00": Decimal("30.00"),
            "l40s.1 at 0.95": Decimal("19.00"),
        }

    with own_database() as name:
        inside(name, work)

"""The history of capacity: a row where something changed, none where nothing did, and nobody knows what nobody saw."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from django.db import DatabaseError, connections, transaction

from gpuaas.catalog.models import GpuPool, Site
from quotas.history import capacity_history_write
from quotas.models import CapacityStretch, CapacityWatch
from quotas.tasks import capacity_sync
from tests.billing.stage import utc

T0 = utc("2026-11-01 10:00:00")
Told = tuple[int, bool, int | None, int | None]


def look(site: Site, seconds: int, devices: int) -> None:
    """A probe has written what it found of the H100s."""
    at = T0 + timedelta(seconds=seconds, microseconds=300_000)
    GpuPool.objects.filter(site=site, gpu_type__slug="h100-sxm-80gb").update(healthy=devices, observed_at=at)


def history(site: Site, slug: str = "h100-sxm-80gb") -> list[Told]:
    """(devices, known, from, to), in seconds."""
    rows = CapacityStretch.objects.filter(site=site, gpu_type__slug=slug).order_by("starts_at", "ends_at")
    return [(row.devices, row.known, seconds(row.starts_at), seconds(row.ends_at)) for row in rows]


def seconds(at: datetime | None) -> int | None:
    return None if at is None else int((at - T0).total_seconds())


def looks(site: Site, found: Sequence[tuple[int, int]]) -> None:
    for at, devices in found:
        look(site, at, devices)
        capacity_sync(str(site.pk))


def test_a_row_begins_where_something_changed_and_nowhere_else(site: Site) -> None:
    looks(site, [(0, 16), (20, 16), (40, 16), (60, 15), (80, 15), (100, 16)])
    assert history(site) == [(16, True, 0, 60), (15, True, 60, 100), (16, True, 100, None)]
    assert CapacityWatch.objects.get(site=site).seen_at == T0 + timedelta(seconds=100)
    assert history(site, "l40s-48gb") == []  # never looked at


def test_time_in_which_nobody_looked_is_not_known(site: Site) -> None:
    looks(site, [(0, 16), (100, 16), (1000, 16), (1100, 12)])
    assert history(site) == [
        (16, True, 0, 100),
        (16, False, 100, 1000),
        (16, True, 1000, 1100),
        (12, True, 1100, None),
    ]


def test_a_site_that_goes_silent_right_after_a_look(site: Site) -> None:
    looks(site, [(0, 16), (1000, 12)])
    assert history(site) == [(16, True, 0, 0), (16, False, 0, 1000), (12, True, 1000, None)]


def test_a_look_that_is_told_again_or_too_late_changes_nothing(site: Site) -> None:
    looks(site, [(0, 16), (60, 12)])
    before = history(site)
    looks(site, [(60, 12), (60, 9), (30, 4)])
    assert history(site) == before


def test_a_type_that_the_site_no_longer_has_is_none_of_it(site: Site) -> None:
    looks(site, [(0, 16), (20, 0)])
    assert history(site) == [(16, True, 0, 20), (0, True, 20, None)]


def test_the_database_refuses_to_change_the_past(site: Site) -> None:
    looks(site, [(0, 16), (60, 12)])
    rows = CapacityStretch.objects.filter(site=site)
    for change in (
        {"devices": 3},
        {"ends_at": T0 + timedelta(hours=1)},
        {"starts_at": T0 - timedelta(hours=1)},
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            rows.filter(ends_at__isnull=False).update(**change)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows.filter(ends_at=None).update(devices=3, ends_at=T0 + timedelta(hours=1))
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows.delete()


@pytest.mark.django_db(transaction=True)
def test_two_syncs_at_once_write_one_history(site: Site) -> None:
    for number in range(6):
        look(site, 20 * number, 16 - number % 2)
        ready = threading.Barrier(3)
        wrong: list[Exception] = []

        def sync(ready: threading.Barrier = ready, wrong: list[Exception] = wrong) -> None:
            try:
                ready.wait(30)
                capacity_history_write(site=site)
            except DatabaseError as error:
                wrong.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=sync) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []
    starts = [0, 20, 40, 60, 80, 100]
    ends = [*starts[1:], None]
    assert history(site) == [
        (16 - n % 2, True, start, end) for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]

"""Keepers and meters at once, on real connections: nothing is kept that lacks a change, and nothing is kept twice."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F

from billing.models import KeptDay, KeptHolder, KeptMonth
from billing.months import month_of
from billing.services.keeping import LATE, Due, kept_check, month_keep, past_until, usage_keep
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_keeping import DAYS, cells

pytestmark = pytest.mark.django_db(transaction=True)
BEGAN = utc("2026-11-01 09:00:00")
NOW = utc("2026-11-20 11:00:00")
WAITS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@pytest.fixture
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    row = workspace_make(project, h100, alice)
    interval_make(row, h100, BEGAN, None)
    interval_make(row, None, BEGAN, NOW, meter=Meter.VCPU_HELD, resource="vcpu", quantity=16)
    return row


def due(workspace: Workspace) -> Due:
    return Due(workspace.project_id, month_of(BEGAN), past_until(NOW))


def kept_now() -> bool:
    return KeptMonth.objects.filter(until__gt=F("starts_at")).exists()


def end_late() -> None:
    """A proof of life that is days old."""
    rows = UsageInterval.objects.filter(meter=Meter.GPU_HELD)
    rows.update(ended_at=NOW - timedelta(days=5), ended_by="proof_of_life")


def in_thread(work: object) -> threading.Thread:
    def run() -> None:
        try:
            work()  # type: ignore[operator]
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def until_somebody_waits() -> None:
    with connection.cursor() as cursor:
        waiting = 0
        while not waiting:
            cursor.execute(WAITS)
            waiting = cursor.fetchall()[0][0]


def test_a_change_that_the_keeper_could_not_see_voids_what_it_kept(workspace: Workspace) -> None:
    with transaction.atomic():
        assert month_keep(due(workspace))
        writer = in_thread(end_late)
        until_somebody_waits()
    writer.join()

    assert not kept_now()
    assert usage_keep(now=NOW) == 1
    assert kept_now()
    assert kept_check() == []


def test_what_is_being_written_is_kept_later(workspace: Workspace) -> None:
    written, go = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            end_late()
            written.set()
            go.wait()

    writer = in_thread(write)
    written.wait()
    assert usage_keep(now=NOW) == 0  # at once: nobody waits for a meter
    go.set()
    writer.join()

    assert usage_keep(now=NOW) == 1
    assert kept_check() == []


def test_two_look_while_one_writes(workspace: Workspace, project: Project) -> None:
    """Each look has its own snapshot, in which what is kept and what is counted anew are the same."""
    done = threading.Event()
    looks: list[bool] = []

    def write() -> None:
        """Ends of this day and of the day before, some of them known late, and some taken back."""
        try:
            for number in range(24):
                at = NOW - timedelta(minutes=47 * number + 25)
                late = interval_make(
                    workspace, None, at, at + timedelta(minutes=9), meter=Meter.VCPU_HELD, resource="vcpu"
                )
                if number % 3 == 2:
                    late.delete()
        finally:
            done.set()

    def look() -> None:
        while not done.is_set() or len(looks) < 4:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                kept, anew = (cells(project, DAYS, NOW, False, stored=stored) for stored in (True, False))
            looks.append(kept == anew)

    def keep() -> None:
        while not done.is_set():
            usage_keep(now=NOW, many=1)

    for thread in [in_thread(work) for work in (look, look, keep, write)]:
        thread.join()

    assert all(looks)
    usage_keep(now=NOW, many=1)
    assert KeptMonth.objects.filter(month=NOW.date(), until__gt=F("starts_at")).exists()
    assert cells(project, DAYS, NOW, False, stored=True) == cells(project, DAYS, NOW, False, stored=False)
    assert kept_check() == []


def test_many_keepers_keep_once(workspace: Workspace) -> None:
    gate = threading.Barrier(8)

    def keep(_: int) -> int:
        try:
            connection.ensure_connection()
            gate.wait()
            return usage_keep(now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(keep, range(8))) >= 1

    assert usage_keep(now=NOW) == 0
    assert KeptMonth.objects.count() == 1
    assert KeptDay.objects.count() == 19 * 2
    assert KeptHolder.objects.count() == 2
    assert kept_check() == []


def test_a_keeper_that_dies_leaves_what_was_there(workspace: Workspace) -> None:
    usage_keep(now=NOW - timedelta(days=3))
    before = list(KeptDay.objects.order_by("pk").values_list("pk", "unit_seconds"))

    with transaction.atomic():
        month_keep(due(workspace))
        transaction.set_rollback(True)

    assert list(KeptDay.objects.order_by("pk").values_list("pk", "unit_seconds")) == before
    assert kept_check() == []
    assert usage_keep(now=NOW) == 1
    assert kept_check() == []


def test_a_day_is_kept_an_hour_after_it_ended(workspace: Workspace) -> None:
    midnight = utc("2026-11-19 23:00:00")

    usage_keep(now=midnight + LATE - timedelta(seconds=1))
    assert KeptMonth.objects.get().until == midnight - timedelta(days=1)

    usage_keep(now=midnight + LATE)
    assert KeptMonth.objects.get().until == midnight


def test_what_only_lives_on_or_ends_after_it_voids_nothing(workspace: Workspace) -> None:
    usage_keep(now=NOW)

    UsageInterval.objects.update(last_seen_at=NOW)
    UsageInterval.objects.filter(meter=Meter.GPU_HELD).update(ended_at=NOW, ended_by="observed")
    interval_make(workspace, None, NOW, None, meter=Meter.STORAGE_HELD, resource="storage")

    assert kept_now()
    assert kept_check() == []


def test_a_wrong_sum_is_found_and_added_up_anew(workspace: Workspace) -> None:
    usage_keep(now=NOW)
    KeptDay.objects.filter(pk=KeptDay.objects.order_by("pk").first().pk).update(unit_seconds=1)  # type: ignore[union-attr]

    assert [row.project for row in kept_check()] == [workspace.project]
    assert not kept_now()
    usage_keep(now=NOW)
    assert kept_check() == []

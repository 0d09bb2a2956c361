"""Tokens become intervals: a day is one second, and the days of an endpoint add up to what it has counted, whatever has happened."""

import threading
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.conf import settings as portal
from django.db import OperationalError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.services.keeping import PART
from gpuaas.core import clock
from gpuaas.environments.models import Environment, TokenDay
from gpuaas.environments.tokens import COUNT_MOST, Counts
from gpuaas.metering.models import FinalMonth, Meter, UsageInterval
from gpuaas.metering.services import TOKENS, tokens_sync
from gpuaas.metering.tasks import held_sync_all
from gpuaas.metering.tasks import tokens_sync as tokens_sync_task
from gpuaas.workspaces.models import Workspace
from tests.billing.closed import deadly
from tests.environments.stage import row_in
from tests.metering.stage import utc
from tests.workspaces.test_races import at_once

MILLION, HOUR = 1_000_000, 3600
# the clock changes in Berlin in the night to the 29th
FIRST = date(2026, 3, 27)
QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
amounts = st.one_of(st.integers(0, 1000), st.integers(0, 10**9), st.just(COUNT_MOST // 100))
days = st.integers(0, 6)
# what the server does, on which day its counters are read, and from which day on a round looks
steps = st.lists(
    st.tuples(
        st.sampled_from(["serve", "serve", "restart", "read", "read", "sync", "sync all"]),
        days,
        amounts,
        amounts,
    ),
    min_size=1,
    max_size=25,
)


@pytest.fixture
def endpoint(workspace: Workspace) -> Environment:
    return row_in(workspace, "chat")


def counted(row: Environment, day: date, tokens_in: int, tokens_out: int = 0) -> None:
    """Added to what the day has, as the reader of counters does."""
    found, _ = TokenDay.objects.get_or_create(
        environment=row, day=day, defaults={"requests": 0, "tokens_in": 0, "tokens_out": 0}
    )
    found.tokens_in, found.tokens_out = found.tokens_in + tokens_in, found.tokens_out + tokens_out
    found.save()


def seconds(row: UsageInterval) -> int:
    return row.quantity * int(((row.ended_at or row.started_at) - row.started_at).total_seconds())


def charged(row: Environment, meter: Meter) -> dict[date, int]:
    """Unit-seconds by day."""
    rows = UsageInterval.objects.filter(consumer_uid__startswith=f"tokens:{row.pk}:", meter=meter)
    return {clock.billing_day(each.started_at): seconds(each) for each in rows if seconds(each)}


@given(steps=steps)
@QUICK
@pytest.mark.django_db
def test_days_add_up_to_what_is_whole_in_all(
    workspace: Workspace, steps: list[tuple[str, int, int, int]]
) -> None:
    """In any order of days, repeated, with servers that begin anew, and with rounds that look at late days alone."""
    UsageInterval.objects.all().delete()
    TokenDay.objects.all().delete()
    row = Environment.objects.filter(name="chat").first() or row_in(workspace, "chat")
    served, server, seen = Counts(), Counts(), Counts()
    for what, number, tokens_in, tokens_out in steps:
        day = FIRST + timedelta(days=number)
        if what == "serve":
            server, served = (
                Counts(0, each.tokens_in + tokens_in, each.tokens_out + tokens_out)
                for each in (server, served)
            )
        elif what == "restart":
            server = Counts()
        elif what == "read":
            more, seen = server.since(seen), server
            counted(row, day, more.tokens_in, more.tokens_out)
        else:
            tokens_sync(since=day if what == "sync" else None)
    tokens_sync()
    assert tokens_sync() == 0
    for meter, all_served in ((Meter.TOKENS_IN, served.tokens_in), (Meter.TOKENS_OUT, served.tokens_out)):
        found, reached = charged(row, meter), 0
        for day in (FIRST + timedelta(days=number) for number in range(7)):
            reached += sum(getattr(each, meter.value) for each in TokenDay.objects.filter(day=day))
            assert sum(units for each, units in found.items() if each <= day) == reached * HOUR // MILLION
        assert reached <= all_served


@pytest.mark.django_db
def test_a_million_tokens_are_one_second_of_an_hours_units_at_the_beginning_of_its_day(
    endpoint: Environment, workspace: Workspace
) -> None:
    counted(endpoint, date(2026, 10, 1), 2 * MILLION, 500_000)
    assert tokens_sync(now=utc("2026-10-01 10:00:00")) == 2
    coming, made = UsageInterval.objects.order_by("meter")
    assert (coming.quantity, made.quantity) == (7200, 1800)
    midnight = utc("2026-09-30 22:00:00")  # of Berlin
    assert (coming.started_at, coming.ended_at) == (midnight, midnight + timedelta(seconds=1))
    assert (coming.workspace, coming.project, coming.site) == (workspace, workspace.project, workspace.site)
    assert (coming.consumer_name, coming.flavor, coming.resource_name) == ("chat", None, "tokens_in")


@pytest.mark.django_db
def test_what_is_counted_later_on_the_day_is_added_and_repeating_changes_nothing(
    endpoint: Environment,
) -> None:
    day = date(2026, 10, 1)
    counted(endpoint, day, MILLION)
    assert [tokens_sync(), tokens_sync()] == [1, 0]
    counted(endpoint, day, MILLION)
    assert [tokens_sync(), tokens_sync()] == [1, 0]
    assert charged(endpoint, Meter.TOKENS_IN) == {day: 7200}
    assert UsageInterval.objects.count() == 1


@pytest.mark.django_db
def test_a_day_that_late_tokens_of_an_earlier_one_leave_without_a_unit_has_no_length(
    endpoint: Environment,
) -> None:
    first, second = date(2026, 10, 1), date(2026, 10, 2)
    counted(endpoint, first, 200)
    counted(endpoint, second, 100)  # 300 are 1.08 units
    tokens_sync()
    assert charged(endpoint, Meter.TOKENS_IN) == {second: 1}
    counted(endpoint, first, 100)  # 300 then, and 400 with the second
    assert tokens_sync() == 2
    assert charged(endpoint, Meter.TOKENS_IN) == {first: 1}
    assert [row.millions for row in UsageInterval.objects.order_by("started_at")] == [Decimal(1) / 3600, 0]
    assert tokens_sync() == 0


@pytest.mark.django_db
def test_the_frequent_round_looks_at_two_days_and_the_daily_one_at_all(endpoint: Environment) -> None:
    today = clock.billing_day(clock.now())
    for age in (0, 2, 3):
        counted(endpoint, today - timedelta(days=age), MILLION)
    tokens_sync_task()
    assert set(charged(endpoint, Meter.TOKENS_IN)) == {today, today - timedelta(days=2)}
    held_sync_all()
    assert len(charged(endpoint, Meter.TOKENS_IN)) == 3


def test_the_frequent_round_comes_no_more_often_than_today_is_added_up() -> None:
    """Each one voids what is kept of today, of every project with an endpoint that is asked."""
    assert portal.CELERY_BEAT_SCHEDULE["metering-tokens"]["schedule"] >= PART.total_seconds()


@pytest.mark.django_db
def test_days_of_final_months_stay_as_they_are(endpoint: Environment) -> None:
    october, november = date(2026, 10, 31), date(2026, 11, 1)
    counted(endpoint, october, MILLION)
    tokens_sync()
    ends_at = utc("2026-10-31 23:00:00")
    FinalMonth.objects.create(month=date(2026, 10, 1), ends_at=ends_at, marked_at=ends_at, marked_by="olga")
    counted(endpoint, october, MILLION)
    counted(endpoint, october - timedelta(days=1), MILLION)
    counted(endpoint, november, MILLION)
    assert tokens_sync() == 1
    assert charged(endpoint, Meter.TOKENS_IN) == {october: 3600, november: 3600}


@pytest.mark.django_db(transaction=True)
def test_a_round_that_is_killed_leaves_nothing_or_all(endpoint: Environment) -> None:
    counted(endpoint, date(2026, 10, 1), MILLION, MILLION)
    for statement in (1, 2):
        with pytest.raises(OperationalError), connection.execute_wrapper(deadly(statement)):
            tokens_sync()
        assert UsageInterval.objects.count() == 0
    tokens_sync()
    assert UsageInterval.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_eight_rounds_at_once_count_once(endpoint: Environment) -> None:
    for number in range(1, 4):
        counted(endpoint, date(2026, 10, number), MILLION, 500)
        assert at_once(8, lambda _: tokens_sync()) == {"done": 8}
    assert charged(endpoint, Meter.TOKENS_IN) == {date(2026, 10, number): 3600 for number in range(1, 4)}
    assert sum(charged(endpoint, Meter.TOKENS_OUT).values()) == 1500 * HOUR // MILLION


@pytest.mark.django_db(transaction=True)
def test_a_round_that_waited_for_another_writes_what_was_counted_meanwhile(endpoint: Environment) -> None:
    """Else it would take back what the other one has written."""
    day = date(2026, 10, 1)
    counted(endpoint, day, MILLION)

    def round_() -> None:
        tokens_sync()
        connection.close()

    waiting = threading.Thread(target=round_)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", TOKENS)
        waiting.start()
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if cursor.fetchall()[0][0]:
                break
        counted(endpoint, day, MILLION)
        tokens_sync()
    waiting.join()
    assert charged(endpoint, Meter.TOKENS_IN) == {day: 7200}

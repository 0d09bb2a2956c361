"""A heartbeat says that a process is alive and keeps its claims; without it they end within seconds."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from gpuaas.catalog.models import Site
from gpuaas.core import claims, clock, pulse
from gpuaas.core.models import Process, ProcessKind
from gpuaas.core.pulse import ALIVE_SECONDS, Pulse
from tests.factories.catalog import SiteFactory
from tests.lab.fixtures import until

ALIVE = timedelta(seconds=ALIVE_SECONDS)
MOST = timedelta(seconds=claims.CLAIM_SECONDS)


@pytest.fixture
def beating() -> Iterator[Pulse]:
    """A process with a heartbeat whose rounds the test makes by hand."""
    pulse._beating.set()
    yield Pulse(ProcessKind.WORKER)
    pulse._beating.clear()
    pulse._held.clear()


@pytest.mark.django_db
class TestClaims:
    def test_work_that_goes_on_keeps_its_claim_up_to_its_limit(self, beating: Pulse) -> None:
        site, began = SiteFactory.create(), clock.now()
        ends = []

        def work(row: Site) -> bool:
            for seconds in (0, 5, 100, claims.CLAIM_SECONDS - 2, 10_000):
                pulse.renew(now=began + timedelta(seconds=seconds))
                row.refresh_from_db()
                assert row.claim_until is not None
                ends.append(row.claim_until - began)
            return True

        assert claims.claimed(Site, site.pk, work)
        assert ends[:3] == [ALIVE, ALIVE + timedelta(seconds=5), ALIVE + timedelta(seconds=100)]
        assert all(abs(end - MOST) < timedelta(seconds=5) for end in ends[3:])
        assert pulse._held == {}

    def test_what_a_dead_process_claimed_is_free_within_seconds(self, beating: Pulse) -> None:
        site = SiteFactory.create()

        class Killed(BaseException):
            """Nothing after it runs, as after kill -9."""

        def work(row: Site) -> bool:
            raise Killed

        with pytest.raises(Killed):
            claims.claimed(Site, site.pk, work)
        beating.beat()
        later = clock.now() + ALIVE
        assert claims.claim(Site, site.pk, now=later - timedelta(seconds=3), seconds=60) is None
        assert claims.claim(Site, site.pk, now=later, seconds=60) is not None

    def test_a_claim_that_was_lost_is_not_renewed(self, beating: Pulse) -> None:
        site = SiteFactory.create()

        def work(row: Site) -> bool:
            taken = claims.claim(Site, row.pk, now=clock.now() + ALIVE, seconds=60)
            assert taken is not None
            pulse.renew(now=clock.now() + timedelta(seconds=60))
            found = Site.objects.get(pk=row.pk)
            assert (found.claim_token, found.claim_until) == (taken.claim_token, taken.claim_until)
            claims.extend(row)
            pytest.fail("it was lost")

        assert not claims.claimed(Site, site.pk, work)
        assert pulse._held == {}

    def test_an_extension_moves_the_limit(self, beating: Pulse) -> None:
        site = SiteFactory.create()

        def work(row: Site) -> bool:
            claims.extend(row, seconds=1000)
            pulse.renew(now=clock.now() + timedelta(seconds=900))
            row.refresh_from_db()
            assert row.claim_until is not None
            return row.claim_until > clock.now() + timedelta(seconds=900)

        assert claims.claimed(Site, site.pk, work, seconds=10)

    def test_without_a_heartbeat_a_claim_lasts_to_its_limit(self) -> None:
        site = SiteFactory.create()

        def work(row: Site) -> bool:
            return row.claim_until is not None and row.claim_until > clock.now() + timedelta(seconds=100)

        assert claims.claimed(Site, site.pk, work)


@pytest.mark.django_db
def test_a_round_says_since_when_the_oldest_claim_is_held(beating: Pulse) -> None:
    def since() -> datetime | None:
        beating.beat()
        return Process.objects.get().claim_since

    def work(row: Site) -> bool:
        began = since()
        assert began is not None
        claims.extend(row, seconds=1000)
        assert claims.claimed(Site, SiteFactory.create().pk, lambda _row: since() == began)
        return since() == began

    assert since() is None
    assert claims.claimed(Site, SiteFactory.create().pk, work)
    assert since() is None


@pytest.mark.django_db
def test_a_round_says_when_it_was_seen_and_comes_back_after_its_row_was_lost(beating: Pulse) -> None:
    beating.beat()
    first = Process.objects.get()
    assert (first.kind, first.pid) == ("worker", os.getpid())
    Process.objects.all().delete()
    beating.beat()
    again = Process.objects.get()
    assert again.pk == first.pk
    assert again.started_at == first.started_at < again.seen_at


@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [0, 100, -100])
def test_a_round_says_how_the_clock_differs_from_the_databases(
    beating: Pulse, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    right = clock.now
    monkeypatch.setattr(clock, "now", lambda: right() + timedelta(seconds=seconds))
    beating.beat()
    skew = Process.objects.get().skew_seconds
    assert skew is not None
    assert abs(skew) <= abs(seconds)
    assert abs(skew - seconds) < 5, "less by what the question took"


@pytest.mark.django_db
def test_what_was_not_seen_for_a_day_is_forgotten() -> None:
    now = clock.now()
    for hours in (1, 23, 25, 700):
        seen = now - timedelta(hours=hours)
        Process.objects.create(kind="web", host="a", pid=hours, version="1", started_at=seen, seen_at=seen)
    assert pulse.processes_forget() == 2
    assert {row.pid for row in Process.objects.all()} == {1, 23}


@pytest.mark.django_db
def test_a_last_round_while_it_ends_does_not_extend_a_claim_to_its_limit(
    beating: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []

    def last_round() -> None:
        now = clock.now()
        ends.append(pulse.claim_end(now=now, limit=now + MOST) - now)

    monkeypatch.setattr(beating, "_end", last_round)
    monkeypatch.setattr(beating, "beat", last_round)
    beating.start()
    beating.stop()
    assert set(ends) == {ALIVE}
    assert not pulse._beating.is_set()


def test_no_error_ends_the_heartbeat(
    beating: Pulse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> None:
    """And whoever watches its file sees it live, whatever became of the database."""
    rounds: list[int] = []
    settings.ALIVE_FILE = str(tmp_path / "alive")

    def broken() -> None:
        rounds.append(1)
        raise RuntimeError("as where a connection cannot be closed")

    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(beating, "beat", broken)
    monkeypatch.setattr(beating, "_end", lambda: None)
    monkeypatch.setattr("gpuaas.core.pulse.connection", SimpleNamespace(close=broken))
    beating.start()
    until(lambda: len(rounds) > 4, "it goes on")
    (tmp_path / "alive").unlink()
    until((tmp_path / "alive").exists, "its file is touched in each round")
    assert beating._thread.is_alive()
    beating.stop()


def test_a_lost_beat_is_logged_with_its_reason(beating: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OperationalError("connection refused\n")

    monkeypatch.setattr("gpuaas.core.pulse.connection", SimpleNamespace(close=lambda: None))
    with capture_logs() as logged:
        for do in (broken, broken, lambda: None):
            beating._round(do)
        beating._beaten -= ALIVE_SECONDS + 3
        beating._round(lambda: None)
        beating._round(lambda: None)
    assert [{key: each[key] for key in each.keys() - {"silent_seconds"}} for each in logged] == [
        {
            "event": "pulse_lost",
            "log_level": "warning",
            "error": "OperationalError",
            "reason": "connection refused",
            "rounds": 2,
        },
        {"event": "pulse_lost", "log_level": "warning", "reason": "the beat was late"},
    ]
    assert ALIVE_SECONDS + 3 <= logged[1]["silent_seconds"] < ALIVE_SECONDS + 8


@pytest.mark.django_db(transaction=True)
def test_it_beats_while_the_server_runs_and_leaves_no_row() -> None:
    """The thread itself, by the messages of ASGI's lifespan protocol."""
    sent: list[dict[str, Any]] = []

    async def serve() -> None:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await messages.put({"type": "lifespan.startup"})
        running = asyncio.create_task(pulse.lifespan(ProcessKind.WEB)({}, messages.get, send))
        seen = await asyncio.to_thread(until, _seen, "it is alive")
        assert seen.kind == "web"
        await messages.put({"type": "lifespan.shutdown"})
        await running

    asyncio.run(serve())
    assert [message["type"] for message in sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert not Process.objects.exists()
    assert pulse.claim_end(now=clock.now(), limit=clock.now() + MOST) > clock.now() + ALIVE


def _seen() -> Process | None:
    from django.db import connection

    try:
        return Process.objects.first()
    finally:
        connection.close()


def test_a_token_that_is_not_held_is_let_go_quietly() -> None:
    pulse.let_go(uuid.uuid4())

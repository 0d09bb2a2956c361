"""Small things: conditions, ids, waiting times, seconds, logs."""

import random
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.core import backoff, clock, ids
from gpuaas.core.conditions import Status, Stored, condition_set, conditions_read
from gpuaas.core.logs import mask_secrets

NOON = datetime(2027, 11, 21, 12, tzinfo=UTC)


def reachable(stored: Stored, status: Status, at: datetime) -> Stored:
    return condition_set(stored, type="Reachable", status=status, reason="R", message="M", now=at)


def test_since_moves_only_with_the_status() -> None:
    first = reachable({}, Status.TRUE, NOON)
    same = reachable(first, Status.TRUE, NOON + timedelta(hours=1))
    changed = reachable(same, Status.FALSE, NOON + timedelta(hours=2))
    assert conditions_read(same)[0].since == NOON
    assert conditions_read(changed)[0].since == NOON + timedelta(hours=2)
    assert conditions_read(first)[0].status == Status.TRUE, "the old mapping is left as it was"
    assert conditions_read({}) == []


def test_ids_are_version_7_and_sort_by_time() -> None:
    made = [ids.uuid7() for _ in range(200)]
    assert len(set(made)) == 200
    assert {each.version for each in made} == {7}
    assert {each.variant for each in made} == {uuid.RFC_4122}
    stamps = [each.int >> 80 for each in made]
    assert stamps == sorted(stamps)
    assert len({ids.short(each) for each in made}) == 200


@given(attempt=st.integers(1, 10_000), seed=st.integers())
def test_waiting_grows_to_a_cap_and_never_vanishes(attempt: int, seed: int) -> None:
    full = min(backoff.CAP_SECONDS, 2.0 ** min(attempt - 1, 16))
    assert full / 2 <= backoff.delay(attempt, rng=random.Random(seed)) <= full


@given(moment=st.datetimes(timezones=st.just(timezone(timedelta(hours=5, minutes=30)))))
def test_whole_seconds_are_utc_and_cut(moment: datetime) -> None:
    whole = clock.whole_second(moment)
    assert whole.tzinfo is UTC
    assert timedelta(0) <= moment - whole < timedelta(seconds=1)


def test_secrets_are_masked_however_deep() -> None:
    event: dict[str, Any] = {
        "event": "site_created",
        "api_token": "s3cret",
        "site": {"slug": "ber-1", "credentials": {"any": "s3cret"}, "list": [{"Password": "s3cret"}]},
    }
    shown = mask_secrets(None, "info", event)
    assert "s3cret" not in str(shown)
    assert shown["event"] == "site_created"
    assert shown["site"]["slug"] == "ber-1"

"""Whatever the order, however often, wherever it is killed: the same rows."""

import uuid
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.metering.models import SiteMeter, UsageInterval
from gpuaas.metering.services import meter_claim, meter_flush, usage_apply
from gpuaas.providers.base import UsageEvent
from gpuaas.workspaces.models import Workspace
from tests.metering.stage import bookmark, gone, listed, pod, rows_of, seen, utc

START = utc("2026-11-30 23:59:00")
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

life = st.tuples(
    st.integers(0, 60),  # scheduled at
    st.integers(0, 90),  # lives for
    st.integers(1, 8),  # GPUs
    st.sampled_from(["finishes", "deleted", "torn away", "lives"]),
)


def segments_of(workspace: Workspace, lives: list[Any], cuts: list[int]) -> list[list[UsageEvent]]:
    """What a watch tells of these lives, cut by barriers at the seconds `cuts`; the last barrier is a list of the living."""
    told: list[tuple[int, UsageEvent]] = []
    living = []
    for number, (start, lasts, gpus, fate) in enumerate(lives):
        first, last = START + timedelta(seconds=start), START + timedelta(seconds=start + lasts)
        running = pod(f"pod-{number}", start=first, gpus=gpus)
        ended = pod(f"pod-{number}", start=first, end=last, gpus=gpus)
        told.append((start, seen(workspace, running, first)))
        if fate == "finishes":
            told.append((start + lasts, seen(workspace, ended, last)))
        if fate in {"finishes", "deleted"}:
            told.append((start + lasts, gone(workspace, ended, last + timedelta(seconds=1))))
        if fate == "torn away":
            told.append((start + lasts, gone(workspace, running, last)))
        if fate == "lives":
            living.append(seen(workspace, running, START + timedelta(seconds=300)))
    made, begin = [], 0
    for cut in [*sorted(set(cuts)), 200]:
        inside = [event for at, event in told if begin <= at < cut]
        made.append([*inside, bookmark(START + timedelta(seconds=cut))])
        begin = cut
    return [*made, listed(START + timedelta(seconds=300), *living)]


def fresh(workspace: Workspace) -> None:
    UsageInterval.objects.all().delete()
    SiteMeter.objects.all().delete()


@given(
    data=st.data(),
    lives=st.lists(life, min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 150), max_size=3),
)
@QUICK
def test_order_and_duplicates_change_nothing(
    workspace: Workspace, data: st.DataObject, lives: list[Any], cuts: list[int]
) -> None:
    """Events come shuffled between barriers, twice, and any earlier one again at any time, in batches of any size."""
    site_id = workspace.site_id
    segments = segments_of(workspace, lives, cuts)
    fresh(workspace)
    for segment in segments:
        usage_apply(site_id=site_id, events=segment)
    expected = rows_of(site_id)
    fresh(workspace)
    before: list[UsageEvent] = []
    for *events, barrier in segments[:-1]:
        again = data.draw(st.lists(st.sampled_from(before), max_size=3)) if before else []
        shuffled = data.draw(st.permutations([*events, *events, *again]))
        size = data.draw(st.integers(1, 4))
        for cut in range(0, len(shuffled), size):
            usage_apply(site_id=site_id, events=shuffled[cut : cut + size])
        usage_apply(site_id=site_id, events=[barrier, barrier])
        before += events
    usage_apply(site_id=site_id, events=segments[-1])
    usage_apply(site_id=site_id, events=segments[-1])
    assert rows_of(site_id) == expected


@given(lives=st.lists(life, min_size=1, max_size=6))
@QUICK
def test_every_life_is_one_row_of_its_own_seconds(workspace: Workspace, lives: list[Any]) -> None:
    fresh(workspace)
    for segment in segments_of(workspace, lives, []):
        usage_apply(site_id=workspace.site_id, events=segment)
    assert len(rows_of(workspace.site_id)) == len(lives)
    for number, (start, lasts, gpus, fate) in enumerate(lives):
        row = UsageInterval.objects.get(consumer_uid=f"pod-{number}")
        assert (row.started_at, row.quantity) == (START + timedelta(seconds=start), gpus)
        assert (row.ended_at is None) == (fate == "lives")
        if row.ended_at is not None:
            assert row.ended_at - row.started_at == timedelta(seconds=lasts)
            assert row.last_seen_at == row.ended_at


class Killed(Exception):
    pass


def _die_if(killed: bool) -> None:
    if killed:
        raise Killed


@given(
    data=st.data(),
    lives=st.lists(life, min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 150), max_size=3),
)
@QUICK
def test_a_kill_between_or_inside_flushes_changes_nothing(
    workspace: Workspace, data: st.DataObject, lives: list[Any], cuts: list[int]
) -> None:
    """A flush is lost whole with its cursor; the next process reads again from the stored cursor."""
    site_id = workspace.site_id
    segments = segments_of(workspace, lives, cuts)
    fresh(workspace)
    for segment in segments:
        usage_apply(site_id=site_id, events=segment)
    expected = rows_of(site_id)
    fresh(workspace)
    numbered = [
        [*events, _with_cursor(barrier, str(number + 1))]
        for number, (*events, barrier) in enumerate(segments)
    ]
    kills = data.draw(st.integers(0, 4))
    while True:
        holder = uuid.uuid4().hex
        meter = meter_claim(site_id=site_id, holder=holder, now=START, seconds=0)
        assert meter is not None
        position = int(meter.cursor or 0)
        if position == len(numbered):
            break
        part = data.draw(st.integers(1, len(numbered[position]))) if position < len(numbered) - 1 else None
        flush = numbered[position][:part]
        killed = kills > 0 and data.draw(st.booleans())
        kills -= killed
        try:
            with transaction.atomic():
                meter_flush(site_id=site_id, holder=holder, events=flush, now=START, claim_seconds=0)
                _die_if(killed)
        except Killed:
            continue
        if part is not None:
            meter_flush(
                site_id=site_id, holder=holder, events=numbered[position][part:], now=START, claim_seconds=0
            )
    assert rows_of(site_id) == expected


def _with_cursor(event: UsageEvent, cursor: str) -> UsageEvent:
    return UsageEvent(event.kind, event.at, cursor=cursor)


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_is_the_same_as_one_by_one(workspace: Workspace, count: int) -> None:
    lives = [(n, 61, n + 1, "torn away") for n in range(count)]
    events = [event for segment in segments_of(workspace, lives, []) for event in segment]
    usage_apply(site_id=workspace.site_id, events=events)
    expected = rows_of(workspace.site_id)
    fresh(workspace)
    for event in events[:-2]:
        usage_apply(site_id=workspace.site_id, events=[event])
    usage_apply(site_id=workspace.site_id, events=events[-2:])
    assert rows_of(workspace.site_id) == expected


@given(order=st.permutations(range(5)), cuts=st.sets(st.integers(1, 4)))
@QUICK
def test_what_made_a_consumer_is_named_whichever_was_told_first(
    workspace: Workspace, order: list[int], cuts: set[int]
) -> None:
    """A claim may be told of, and its end too, before the pod that it was made for is known."""
    fresh(workspace)
    running, second = pod("claim:1", start=START), timedelta(seconds=1)
    ended = replace(running, ended_at=START + 7 * second)
    told = [
        seen(workspace, replace(running, owner="Pod/train-x"), START + 2 * second),
        seen(workspace, replace(running, owner="Job/train"), START + 2 * second),
        gone(workspace, replace(running, owner="Pod/train-x"), START + 9 * second),
        gone(workspace, replace(running, owner="Job/train"), START + 9 * second),
        gone(workspace, replace(ended, owner="Pod/train-x"), START + 9 * second),
    ]
    events = [told[number] for number in order]
    for first, last in pairwise([0, *sorted(cuts), len(events)]):
        usage_apply(site_id=workspace.site_id, events=events[first:last])
    row = UsageInterval.objects.get(consumer_uid="claim:1")
    assert (row.owner, row.ended_at, row.last_seen_at, row.ended_by) == (
        "Job/train",
        ended.ended_at,
        ended.ended_at,
        "observed",
    )

"""What is past its first deadline is counted no longer, whatever the site tells of it later: a dead node's pods and their replacements
are never counted both."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.core import clock
from gpuaas.metering.facts import facts_merge
from gpuaas.metering.models import SiteMeter, UsageInterval
from gpuaas.metering.services import meter_claim, meter_flush, usage_apply
from gpuaas.providers.base import ObservedConsumer, UsageEvent
from gpuaas.workspaces.models import Workspace
from tests.metering.stage import bookmark, gone, listed, pod, seconds_of, seen, utc

pytestmark = pytest.mark.django_db
START = utc("2026-11-02 10:00:00")
BOUGHT = 2


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def leaving(uid: str, deadline: float, *, end: float | None = None) -> ObservedConsumer:
    made = pod(uid, start=START, end=None if end is None else later(end))
    return replace(made, phase="Terminating", deadline_at=later(deadline), uncharged_at=later(deadline + 30))


def flush(workspace: Workspace, at: float, *events: UsageEvent) -> None:
    site_id = workspace.site_id
    meter_claim(site_id=site_id, holder="m", now=clock.now(), seconds=60)
    meter_flush(site_id=site_id, holder="m", events=list(events), now=later(at), claim_seconds=60)


def test_one_on_a_dead_node_ends_at_its_deadline_while_it_lasts(workspace: Workspace) -> None:
    flush(workspace, 0, seen(workspace, pod(start=START), later(0)))
    flush(workspace, 10, seen(workspace, leaving("pod-1", 40), later(10)))
    row = UsageInterval.objects.get()
    assert (row.ended_at, row.deadline_at) == (None, later(40))
    flush(workspace, 39, bookmark(later(39)))
    assert UsageInterval.objects.get().ended_at is None
    flush(workspace, 40)  # nothing is heard, as of a site that is quiet
    assert seconds_of("pod-1") == 40
    flush(
        workspace,
        99,
        bookmark(later(99)),
        *listed(later(99), seen(workspace, leaving("pod-1", 40), later(99))),
    )
    assert seconds_of("pod-1") == 40


@pytest.mark.parametrize("restarted", [False, True], ids=["one batch", "after a restart"])
def test_a_deletion_by_force_moves_nothing(workspace: Workspace, *, restarted: bool) -> None:
    """Kubernetes sets the deadline to the moment of the force, and tells of it before it tells that the pod is gone."""
    told = [
        seen(workspace, pod(start=START), later(0)),
        seen(workspace, leaving("pod-1", 40), later(10)),
        seen(workspace, leaving("pod-1", 600), later(600)),
        gone(workspace, leaving("pod-1", 600, end=600), later(600)),
    ]
    for batch in [[event] for event in told] if restarted else [told]:
        usage_apply(site_id=workspace.site_id, events=batch)
    assert seconds_of("pod-1") == 40


def test_an_earlier_deadline_counts_and_so_does_an_earlier_end(workspace: Workspace) -> None:
    """A shorter period was given; and its last container had ended before, which its node told only when it was back."""
    flush(workspace, 10, seen(workspace, leaving("pod-1", 300), later(10)))
    flush(workspace, 20, seen(workspace, leaving("pod-1", 50), later(20)))
    flush(workspace, 60, bookmark(later(60)))
    assert seconds_of("pod-1") == 50
    flush(workspace, 90, gone(workspace, leaving("pod-1", 50, end=25), later(90)))
    assert seconds_of("pod-1") == 25
    flush(workspace, 95, gone(workspace, leaving("pod-1", 50, end=45), later(95)))
    assert seconds_of("pod-1") == 25


def test_one_that_ends_in_time_ends_when_it_ends(workspace: Workspace) -> None:
    flush(workspace, 10, seen(workspace, leaving("pod-1", 40), later(10)))
    flush(workspace, 14, gone(workspace, leaving("pod-1", 40, end=12), later(14)))
    flush(workspace, 60, bookmark(later(60)))
    assert seconds_of("pod-1") == 12


def test_what_a_list_lacks_ended_by_its_deadline(workspace: Workspace) -> None:
    flush(workspace, 10, seen(workspace, leaving("pod-1", 40), later(10)))
    flush(workspace, 200, *listed(later(200)))
    assert seconds_of("pod-1") == 10, "at the last proof of life, which is before"


# A pod: it is asked for after so many seconds; deleted after so many, with such a period; its end is told after so many more, or
# it is taken by force after so many, or never heard of again.
life = st.tuples(
    st.integers(0, 40),
    st.integers(1, 120),
    st.sampled_from([0, 1, 30, 60]),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(0, 900)),
)


def told_of(
    workspace: Workspace, lives: list[tuple[int, int, int, int | None, int | None]]
) -> list[tuple[int, UsageEvent]]:
    """As a site tells whose quota lets in as many as were bought; it counts one until it ended, or twice its period has passed."""
    charged: list[int] = []
    told: list[tuple[int, UsageEvent]] = []
    for number, (asked, lasts, grace, ends, forced) in enumerate(lives):
        start = max(asked, sorted(charged)[-BOUGHT] if len(charged) >= BOUGHT else 0)
        uid, deleted, deadline = f"pod-{number}", start + lasts, start + lasts + grace
        running = pod(uid, start=later(start))
        going = replace(running, deadline_at=later(deadline))
        told += [
            (start, seen(workspace, running, later(start))),
            (deleted, seen(workspace, going, later(deleted))),
        ]
        last = deadline + grace
        if ends is not None and ends <= grace:
            last = deleted + ends
            told.append((last, gone(workspace, replace(going, ended_at=later(last)), later(last))))
        elif forced is not None:
            at = deadline + forced
            by_force = replace(going, deadline_at=later(at))
            told += [
                (at, seen(workspace, by_force, later(at))),
                (at, gone(workspace, replace(by_force, ended_at=later(at)), later(at))),
            ]
            last = min(last, at)
        charged.append(last)
    return sorted(told, key=lambda each: each[0])


@given(lives=st.lists(life, min_size=2, max_size=7), data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_in_one_batch_a_deadline_ends_its_own_pod_alone(
    workspace: Workspace, lives: list[tuple[int, int, int, int | None, int | None]], data: st.DataObject
) -> None:
    events = data.draw(st.permutations([event for _, event in told_of(workspace, lives)]))
    alone = [
        fact
        for number in range(len(lives))
        for fact in facts_merge(
            each for each in events if each.consumer and each.consumer.uid == f"pod-{number}"
        )
    ]
    together = facts_merge(events)
    assert {fact.key: fact for fact in together} == {fact.key: fact for fact in alone}
    assert len(together) == len(alone)


def counted(moment: datetime) -> int:
    rows = UsageInterval.objects.filter(started_at__lte=moment)
    return sum(row.quantity for row in rows if row.ended_at is None or row.ended_at > moment)


@given(lives=st.lists(life, min_size=1, max_size=7), looks=st.lists(st.integers(0, 1500), max_size=6))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_never_more_than_was_bought_neither_meanwhile_nor_afterwards(
    workspace: Workspace, lives: list[tuple[int, int, int, int | None, int | None]], looks: list[int]
) -> None:
    UsageInterval.objects.all().delete()
    SiteMeter.objects.all().delete()
    told = told_of(workspace, lives)
    done = 0
    for look in sorted({*looks, *(at for at, _ in told)}):
        events = [event for at, event in told[done:] if at <= look]
        done += len(events)
        flush(workspace, look, *events)
        assert counted(later(look)) <= BOUGHT
    flush(workspace, 5000, bookmark(later(5000)))
    starts = UsageInterval.objects.values_list("started_at", flat=True)
    assert all(counted(start) <= BOUGHT for start in starts)

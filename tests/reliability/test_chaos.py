"""The whole portal under load while everything breaks at random: in the end nothing is lost, doubled, orphaned or miscounted.

The seed is printed with what was done; GPUAAS_CHAOS_SEED repeats one.
"""

import json
import logging
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab.fixtures import PATIENCE
from tests.reliability.chaos import Chaos
from tests.reliability.load import Load, wishes
from tests.reliability.portal import Fleet
from tests.reliability.world import SICK

pytestmark = pytest.mark.timeout(1800)

log = logging.getLogger(__name__)

COUNT, HUNDREDS = 100, 500
REQUESTS_PER_DEED = 5
SLOW_MS, VERY_SLOW_MS = 8_000, 30_000  # each call to the sick site
SETTLED_SECONDS = 120  # times PATIENCE


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Not in pytest's own folder, which every session closes to other users again: root's PostgreSQL is one."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-rel-") as name:
        made = Fleet.begin(Path(name) / "portal")
        try:
            yield made
        finally:
            made.end()


def test_whatever_breaks_all_is_whole_again(fleet: Fleet) -> None:
    survives(fleet, seed_of(COUNT), count=COUNT, slow_ms=SLOW_MS)


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_so_it_is_with_hundreds(fleet: Fleet, turn: int) -> None:
    del turn  # each has a seed of its own
    seed = seed_of(random.randrange(10**6))
    survives(fleet, seed, count=HUNDREDS, slow_ms=VERY_SLOW_MS)


def seed_of(given: int) -> int:
    return int(os.environ.get("GPUAAS_CHAOS_SEED") or given)


def survives(fleet: Fleet, seed: int, *, count: int, slow_ms: int) -> None:
    world = json.loads((fleet.folder / "world.json").read_text())
    load = Load(fleet.urls, world["tokens"], world["flavors"], random.Random(seed))
    chaos, over = Chaos(fleet, random.Random(seed)), threading.Event()
    fleet.dial(SICK, latency_ms=slow_ms)
    log.info("GPUAAS_CHAOS_SEED=%d: %d requests; start %.1f s", seed, count, fleet.seconds_to_start)
    jobs = fleet.helper("pods", str(seed))
    began = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        breaking = thread.submit(chaos.run, over, at_least=count // REQUESTS_PER_DEED)
        try:
            load.send(wishes(random.Random(seed), count))
            chaos.calm(SICK)
            load.suspend()
        finally:
            over.set()
            jobs.terminate()
        breaking.result()
    jobs.wait()
    sent = time.monotonic() - began
    (fleet.folder / "expected.json").write_text(json.dumps(load.accepted))
    fleet.run_for("settled", str(SETTLED_SECONDS * PATIENCE))
    found = json.loads((fleet.folder / "settled.json").read_text())
    log.info(
        "accepted %d, refused %s, sent again %d; %.0f s",
        len(load.accepted),
        load.refused,
        load.repeated,
        sent,
    )
    log.info("%s, %s", dict(chaos.deeds), found["took"])
    assert found["wrong"] == []
    assert load.refused.keys() <= {"quota_exceeded"}

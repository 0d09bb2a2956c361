"""kill -9 of the processes that visit a workspace while a slow site is being asked: others take the work over."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpuaas.lifecycle.visits import CLAIM_SECONDS
from tests.e2e.pieces import Pieces
from tests.e2e.portal import Client, wait_until
from tests.e2e.tenant import Tenant

pytestmark = pytest.mark.timeout(900)

log = logging.getLogger(__name__)

FLAVOR = "h100-sxm-80gb.1"
SLOW_MS = 6_000  # longer than it takes to see the visit and to kill; probes of the sites keep the workers busy as long


def claim(portal: Pieces, command: str, words: str) -> str:
    return portal.run("-m", "tests.e2e.claim", command, words).strip()


@pytest.fixture
def slow_sites(portal: Pieces) -> Iterator[None]:
    before = claim(portal, "slow", str(SLOW_MS))
    yield
    claim(portal, "slow", before)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children(portal: Pieces) -> list[int]:
    """The processes that a worker gives its tasks to."""
    workers = portal.processes("manage.py worker")
    found = [pid for pid in workers if parent_of(pid) in workers]
    assert found
    return found


@pytest.mark.usefixtures("slow_sites")
def test_the_work_of_a_killed_process_is_taken_over_long_before_its_claim_could_end(
    portal: Pieces, tmp_path: Path
) -> None:
    """A visit may ask a site for CLAIM_SECONDS. Without a heartbeat its claim would last as long, less what had passed of it
    before the kill, which is at most SLOW_MS."""
    assert CLAIM_SECONDS / 2 < CLAIM_SECONDS - SLOW_MS / 1000
    alice = Tenant(Client(portal, "alice"), tmp_path)
    made = alice.request(FLAVOR, 1)
    before = wait_until("a visit", lambda: claim(portal, "held", made["id"]))
    for pid in children(portal):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    assert claim(portal, "changed", f"{made['id']}/{before}") != before
    seconds = time.monotonic() - killed
    log.info("taken over %.1f s after the kill", seconds)
    assert seconds < CLAIM_SECONDS / 2
    claim(portal, "slow", "0")
    alice.in_state(made["id"], "ready", seconds=90)
    alice.delete(made["id"])
    alice.in_state(made["id"], "deleted", seconds=90)

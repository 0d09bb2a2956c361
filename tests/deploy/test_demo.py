"""The demo while it is stopped: its servers may be gone before its processes are, and are not started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.embedded.environment import ROOT

# Redis answers as long as the file is there; the one process takes two looks to end.
DEMO = """
import sys, time
from pathlib import Path
from deploy.embedded import demo, redis

demo.announce = lambda url, started: print("ready", flush=True)
demo.redis.answers = lambda url: Path(sys.argv[1]).exists()
demo.redis.start = lambda folder: Path(sys.argv[1]).touch()
with demo.kept({"GPUAAS_BROKER_URL"}) as over:
    demo.serve(time.monotonic(), sys.argv[2], over)
"""
# The same with seconds that a test can wait for.
HASTY = """
import sys, threading, time
import honcho.manager
from deploy.embedded import demo

honcho.manager.KILL_WAIT = 0.2
demo.ENDING_SECONDS = float(sys.argv[2])
demo.announce = lambda url, started: None
demo.serve(time.monotonic(), sys.argv[1], threading.Event())
"""
# The same with one process that takes a second to start, and hears the signal meanwhile as all of the terminal's do.
LATE = """
import time
import honcho.process

run = honcho.process.Process.run
honcho.process.Process.run = lambda self, *args: (time.sleep(self.name == "late"), run(self, *args))
"""
SLOW = "trap '' TERM; echo runs; n=0; while [ $n -lt 25 ]; do n=$((n+1)); sleep 0.1; done\n"


def printed_until_stopped(
    folder: Path, script: str, *args: str, once: tuple[str, ...], meanwhile: Callable[[], None] = lambda: None
) -> str:
    """What the demo prints in all, where it is interrupted as soon as it has printed all of `once`."""
    demo = subprocess.Popen(
        [sys.executable, "-c", script, *args],
        cwd=ROOT,
        env={**os.environ, "GPUAAS_DEMO_FOLDER": str(folder), "GPUAAS_BROKER_URL": "redis://", "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    assert demo.stdout is not None
    printed = ""
    for line in demo.stdout:
        printed += line
        if all(words in printed for words in once):
            meanwhile()
            os.killpg(demo.pid, signal.SIGINT)
            break
    printed += "".join(demo.stdout)
    assert demo.wait(timeout=20) == 0
    return printed


def test_a_server_that_leaves_with_the_demo_is_not_started_again(tmp_path: Path) -> None:
    there, procfile, slow = (tmp_path / name for name in ("redis", "Procfile", "slow"))
    there.touch()
    slow.write_text(SLOW)
    procfile.write_text(f"slow: sh {slow}\n")
    printed = printed_until_stopped(
        tmp_path, DEMO, str(there), str(procfile), once=("runs",), meanwhile=there.unlink
    )
    assert "SIGINT received" in printed
    assert "started again" not in printed
    assert not there.exists()


@pytest.mark.parametrize(("seconds", "killed"), [(20, False), (0.5, True)])
def test_who_is_late_is_named_and_waited_for(tmp_path: Path, seconds: float, killed: bool) -> None:
    procfile, slow = tmp_path / "Procfile", tmp_path / "slow"
    slow.write_text(SLOW + "echo finished\n")
    procfile.write_text(f"quick: sleep 60\nslow: sh {slow}\n")
    once = ("quick started", "slow started", "runs")
    printed = printed_until_stopped(tmp_path, HASTY, str(procfile), str(seconds), once=once)
    assert "Waiting for slow to finish what is under way" in printed
    assert ("sending SIGKILL to slow" in printed, "finished" in printed) == (killed, not killed)


def test_what_is_still_starting_is_stopped_once_it_has_started(tmp_path: Path) -> None:
    procfile = tmp_path / "Procfile"
    procfile.write_text("quick: sleep 60\nlate: sleep 60\n")
    printed = printed_until_stopped(tmp_path, LATE + HASTY, str(procfile), "20", once=("quick started",))
    assert "Traceback" not in printed
    assert "sending SIGTERM to quick" in printed
    assert "sending SIGTERM to late" in printed


def test_only_the_process_in_front_is_told_to_stop_and_what_it_left_ends_after_it(tmp_path: Path) -> None:
    """As a worker and its pool: the pool finishes what is under way, and the worker waits for it."""
    procfile, pool, worker = (tmp_path / name for name in ("Procfile", "pool", "worker"))
    pool.write_text("sleep 0.7; echo the task is done\n")
    worker.write_text(f"sleep 60 & trap 'wait $pool; exit 0' TERM; sh {pool} & pool=$!; echo runs; wait $pool\n")
    procfile.write_text(f"worker: sh {worker}\n")
    printed = printed_until_stopped(tmp_path, HASTY, str(procfile), "20", once=("worker started", "runs"))
    assert "the task is done" in printed
    assert "worker stopped (rc=0)" in printed

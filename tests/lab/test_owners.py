"""What a run leaves when it is over: nothing. Real runs, which are killed, with programs that do not want to end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.lab import holds
from deploy.lab.holds import HOME, OWNER, disowned, hold, is_over, owner_of
from deploy.lab.identity import identity
from deploy.lab.leftovers import leftovers, of_lab
from deploy.lab.owners import KEEP, orphans_end
from deploy.lab.processes import Process
from tests.lab.fixtures import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SLEEP = ["/bin/sleep", "300"]
# two, one of them in a session of its own
ESCAPES = ["/bin/sh", "-c", "setsid sleep 301 & exec sleep 300"]
NOBODY = "1@of-another-boot:1"
RUN = """
import subprocess, sys
from pathlib import Path
from deploy.lab import owners
from deploy.lab.processes import Process
owners.own()
Process(Path(sys.argv[1]), "program").start(sys.argv[2:])
print(subprocess.Popen(["sleep", "302"], stdout=subprocess.DEVNULL).pid, flush=True)
sys.stdin.read()  # until the test is gone
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where these runs have their files, and no others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (OWNER, KEEP):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(holds, "FOLDER", tmp_path / "gpuaas-lab-processes")
    return tmp_path / "gpuaas-lab-processes"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "lab"
    yield made
    for pid, _ in list(leftovers(of_lab(made))):
        os.kill(pid, signal.SIGKILL)


class Run:
    """What a test run is: it owns labs, and has started something else besides."""

    def __init__(self, home: Path, *command: str) -> None:
        words = [sys.executable, "-c", RUN, str(home), *(command or SLEEP)]
        self.process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline())

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=60)

    @property
    def keeper(self) -> int:
        ours = f"deploy.lab.keeper\0{self.process.pid}@".encode()
        found = (path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if ours in _read(path))
        return int(next(found).name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def stop() -> str:
    words = [sys.executable, "-m", "tests.lab.stop"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def running(home: Path) -> int:
    return sum(1 for _ in leftovers(of_lab(home)))


def soon(look: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE * 10
    while not look() and time.monotonic() < end:
        time.sleep(0.02)
    return look()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_run_that_was_killed(number: signal.Signals, home: Path, folder: Path) -> None:
    run = Run(home, *ESCAPES)
    assert soon(lambda: running(home) == 2)
    run.end(number)
    assert soon(lambda: running(home) == 0)
    assert soon(lambda: identity(run.child) is None)
    assert soon(lambda: not list(folder.glob("*.json")))


def test_a_lab_that_another_run_uses_goes_on_until_that_is_over(home: Path) -> None:
    first = Run(home)
    second = Run(home / "part")
    keepers = [first.keeper, second.keeper]
    first.end()
    assert soon(lambda: identity(keepers[0]) is None)
    assert running(home) == 2
    second.end()
    assert soon(lambda: running(home) == 0)


def test_what_a_killed_keeper_did_not_end_is_ended_by_the_next(home: Path) -> None:
    run = Run(home, *ESCAPES)
    keeper = run.keeper
    os.kill(keeper, signal.SIGKILL)
    run.end()
    assert soon(lambda: running(home) == 2)
    said = stop()
    assert running(home) == 0
    assert identity(run.child) is None
    assert re.fullmatch(r"Processes of the labs that were ended: [1-9][0-9]*\n", said)


def test_the_own_run_ends_its_labs_before_it_is_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWNER, owner_of(os.getpid()))
    Process(home, "program").start(SLEEP)
    orphans_end()
    assert running(home) == 1
    stop()
    assert running(home) == 0


def test_what_a_person_started_is_left(home: Path, folder: Path) -> None:
    process = Process(home, "program")
    process.start(SLEEP)
    orphans_end()
    assert process.pid()
    assert not folder.exists()
    process.stop()


def test_what_other_runs_use_too_is_not_the_run_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PostgreSQL: nothing in its environment says whose it is."""
    monkeypatch.setenv(OWNER, NOBODY)
    with disowned(), subprocess.Popen(SLEEP) as shared:
        orphans_end()
        assert shared.poll() is None
        shared.kill()
    assert os.environ[OWNER] == NOBODY


def test_whoever_has_the_number_of_a_process_by_now_is_left(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subprocess.Popen(SLEEP)
    monkeypatch.setenv(OWNER, NOBODY)
    process = Process(home, "program")
    process.start(SLEEP)
    record = home / "run" / "program.json"
    started = process.pid()
    saved = json.loads(record.read_text())
    record.write_text(json.dumps({**saved, "pid": other.pid, "identity": f"{saved['identity']}0"}))
    monkeypatch.delenv(OWNER)
    orphans_end()
    assert identity(started or 0) is None
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_run_is_over_when_its_number_is_another_process() -> None:
    own = owner_of(os.getpid())
    assert not is_over(own)
    assert is_over(f"{own}0")
    assert is_over(NOBODY)
    assert is_over("")


def test_the_class_of_a_lab_that_is_gone_from_this_checkout_is_no_hindrance(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWNER, NOBODY)
    hold(home, "deploy.lab.elsewhere:Lab")
    Process(home, "program").start(SLEEP)
    monkeypatch.delenv(OWNER)
    orphans_end()
    assert running(home) == 0


def test_a_paused_program_and_one_that_hears_nothing_end_too(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.lab.leftovers.STOP_LIMIT_S", 0.2)
    deaf = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"],
        env={**os.environ, HOME: str(home)},
        stdout=subprocess.PIPE,
    )
    assert deaf.stdout is not None
    deaf.stdout.readline()
    paused = subprocess.Popen(SLEEP, env={**os.environ, HOME: str(home)})
    paused.send_signal(signal.SIGSTOP)
    monkeypatch.setenv(OWNER, NOBODY)
    hold(home)
    monkeypatch.delenv(OWNER)
    orphans_end()
    assert deaf.wait(10) == -signal.SIGKILL
    assert paused.wait(10) == -signal.SIGTERM

"""The demo while it is stopped: its servers may be gone before its processes are, and are not started again."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deploy.embedded import demo
from deploy.embedded.environment import ROOT, DemoEnvironment

# Redis answers as long as the file is there; the one process takes two looks to end.
DEMO = """
import sys, time
from pathlib import Path
from deploy.embedded import demo, redis

demo.announce = lambda *_: print("ready", flush=True)
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
demo.announce = lambda *_: None
demo.serve(time.monotonic(), sys.argv[1], threading.Event())
"""
# The same with one process that takes a second to start, and hears the signal meanwhile as all of the terminal's do.
LATE = """
import time
from deploy.embedded.kept import Kept

run = Kept.run
Kept.run = lambda self, *args: (time.sleep(self.name == "late"), run(self, *args))
"""
# Before it: the folder of the worker is there for so many starts. The system refuses as it does without memory or processes.
REFUSED = """
from deploy.embedded.kept import Kept

begin, begun = Kept._begin, []

def begins(self, events):
    if self.name == "worker":
        begun.append(self)
        self._folder = self._folder if len(begun) <= STARTS else "/gone"
    return begin(self, events)

Kept._begin = begins
"""
# What is before the processes, where each step takes as long as it is told to, and the services are words.
BEFORE = """
import subprocess, sys
from types import SimpleNamespace
from deploy.embedded import demo

def services():
    subprocess.run(["sh", "-c", "echo begins; sleep 0.5; echo answers"], check=True)
    return SimpleNamespace(database_url="", redis_url="")

python = demo.python
demo.python = lambda *words: python("-c", "import sys, time; print(sys.argv, flush=True); time.sleep(60)", *words)
demo.demo_environment, demo.demo_stop = services, lambda: print("nothing runs", flush=True)
sys.exit(demo.up())
"""
IMPORTS = """
import builtins, runpy, sys, time

def slowly(name, *args, **named):
    if name == "deploy.embedded":
        print("imports", flush=True)
        time.sleep(60)
    return known(name, *args, **named)

known, builtins.__import__ = builtins.__import__, slowly
sys.argv = ["demo", "up"]
runpy.run_module("deploy.demo", run_name="__main__")
"""
SLOW = "trap '' TERM; echo runs; n=0; while [ $n -lt 25 ]; do n=$((n+1)); sleep 0.1; done\n"


def printed_until_stopped(
    folder: Path,
    script: str,
    *args: str,
    once: tuple[str, ...],
    meanwhile: Callable[[], None] = lambda: None,
    deeds: Sequence[tuple[Callable[[str], None], str]] = (),
) -> str:
    """What the demo prints in all, where it is interrupted as soon as it has printed all of `once`. deeds: done before, each as soon
    as it has printed what the one before asks for."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *args],
        cwd=ROOT,
        env={**os.environ, "GPUAAS_DEMO_FOLDER": str(folder), "GPUAAS_BROKER_URL": "redis://", "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    printed, left = "", list(deeds)
    for line in process.stdout:
        printed += line
        if all(words in printed for words in once):
            if left:
                deed, more = left.pop(0)
                deed(printed)
                once = (*once, more)
                continue
            meanwhile()
            os.killpg(process.pid, signal.SIGINT)
            break
    printed += "".join(process.stdout)
    assert process.wait(timeout=20) == 0
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


def failing(folder: Path) -> Path:
    """A process that fails the first time, and then runs."""
    once, script, procfile = folder / "once", folder / "worker", folder / "Procfile"
    script.write_text(f"[ -f {once} ] || {{ touch {once}; exit 3; }}; echo runs; sleep 60\n")
    procfile.write_text(f"worker: sh {script}\n")
    return procfile


def test_what_fails_after_a_while_is_started_again(tmp_path: Path) -> None:
    """As a worker does whose broker was lost amid something that Celery cannot put in order."""
    script = f"from deploy.embedded import kept\nkept.RAN_SECONDS = 0\n{HASTY}"
    printed = printed_until_stopped(tmp_path, script, str(failing(tmp_path)), "20", once=("runs",))
    assert "worker ended with 3, and is started again" in printed


def to_its_end(folder: Path, procfile: Path, before: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-c",
            before + HASTY.replace("demo.serve", "code = demo.serve") + "sys.exit(code)",
            str(procfile),
            "20",
        ],
        cwd=ROOT,
        env={**os.environ, "GPUAAS_DEMO_FOLDER": str(folder), "PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_fails_at_once_ends_the_demo(tmp_path: Path) -> None:
    done = to_its_end(tmp_path, failing(tmp_path))
    assert done.returncode == 3
    assert "worker stopped (rc=3)" in done.stdout + done.stderr
    assert "started again" not in done.stdout


def ends(pid: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"{pid} is left"
        time.sleep(0.05)


def tree(folder: Path) -> Path:
    """A process with a child that holds its output open, and ignores that it is told to stop."""
    procfile, worker, pool = folder / "Procfile", folder / "worker", folder / "pool"
    pool.write_text(f"trap '' TERM; echo $$ >> {folder}/pools; while :; do sleep 0.1; done\n")
    worker.write_text(f"sh {pool} & while [ ! -s {folder}/pools ]; do sleep 0.05; done; echo runs; wait\n")
    procfile.write_text(f"worker: sh {worker}\n")
    return procfile


@pytest.mark.parametrize("whole", [False, True], ids=["in front", "the group"])
def test_what_is_killed_is_noticed_and_started_again_without_what_it_left(
    tmp_path: Path, whole: bool
) -> None:
    """Its child holds the output open meanwhile."""
    procfile, seen = tree(tmp_path), list[float]()

    def kill(printed: str) -> None:
        pid = int(re.findall(r"worker started \(pid=(\d+)\)", printed)[-1])
        seen.append(time.monotonic())
        (os.killpg if whole else os.kill)(pid, signal.SIGKILL)

    def again(_: str) -> None:
        seen.append(time.monotonic())
        ends(int((tmp_path / "pools").read_text().split()[0]))

    printed = printed_until_stopped(
        tmp_path,
        HASTY,
        str(procfile),
        "20",
        once=("worker started", "runs"),
        deeds=[(kill, "worker was killed by signal 9, and is started again"), (again, "")],
    )
    assert printed.count("is started again") == 1
    assert len(re.findall(r"worker started", printed)) == 2
    assert seen[1] - seen[0] < 4, "without anybody's deed"
    for pid in (tmp_path / "pools").read_text().split():
        ends(int(pid))


def test_what_dies_again_and_again_ends_the_demo(tmp_path: Path) -> None:
    procfile = tmp_path / "Procfile"
    procfile.write_text("web: sleep 60\nworker: sh -c 'sleep 0.1; kill -9 $$'\n")
    done = to_its_end(tmp_path, procfile)
    assert done.returncode == 137
    assert done.stdout.count("worker was killed by signal 9, and is started again") == 4
    assert "worker was killed by signal 9, 5 times within 60 s: the demo ends" in done.stdout
    assert "sending SIGTERM to web" in done.stdout


@pytest.mark.parametrize("seconds", [10, 0], ids=["at once", "after a while"])
def test_an_exit_code_of_its_own_is_no_signal(tmp_path: Path, seconds: int) -> None:
    """129 to 255 are what shells make of signals, and any program may end with them."""
    procfile = tmp_path / "Procfile"
    procfile.write_text("worker: sh -c 'exit 255'\n")
    done = to_its_end(tmp_path, procfile, f"from deploy.embedded import kept\nkept.RAN_SECONDS = {seconds}\n")
    assert done.returncode == 255
    assert "signal" not in done.stdout
    assert done.stdout.count("worker ended with 255, and is started again") == (0 if seconds else 4)


@pytest.mark.parametrize("starts", [0, 1], ids=["at first", "again"])
def test_what_cannot_be_started_ends_the_demo(tmp_path: Path, starts: int) -> None:
    """Without what it says, the demo would wait for it and could not be stopped."""
    procfile = tmp_path / "Procfile"
    procfile.write_text("web: sleep 60\nworker: sh -c 'sleep 0.1; kill -9 $$'\n")
    done = to_its_end(tmp_path, procfile, REFUSED.replace("STARTS", str(starts)))
    assert done.returncode == 1
    assert "worker cannot be started: [Errno 2]" in done.stdout
    assert "worker stopped (rc=1)" in done.stdout
    assert "sending SIGTERM to web" in done.stdout


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
    worker.write_text(
        f"sleep 60 & trap 'wait $pool; exit 0' TERM; sh {pool} & pool=$!; echo runs; wait $pool\n"
    )
    procfile.write_text(f"worker: sh {worker}\n")
    printed = printed_until_stopped(tmp_path, HASTY, str(procfile), "20", once=("worker started", "runs"))
    assert "the task is done" in printed
    assert "worker stopped (rc=0)" in printed


@pytest.mark.parametrize(
    ("script", "once", "last"),
    [
        (IMPORTS, "imports", ["Stopped."]),
        (BEFORE, "begins", ["answers", "nothing runs"]),
        (BEFORE, "migrate", ["nothing runs"]),
    ],
    ids=["imports", "services", "tables"],
)
def test_before_its_processes_start_it_ends_in_a_sentence(
    tmp_path: Path, script: str, once: str, last: list[str]
) -> None:
    printed = printed_until_stopped(tmp_path, script, once=(once,))
    assert "Traceback" not in printed
    ready = [] if script == IMPORTS else ["Stopped before the portal was ready; `make demo` starts it again."]
    assert printed.splitlines()[-len(last + ready) :] == last + ready


def test_sample_data_that_was_not_made_whole_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    began: list[bool] = []

    def services() -> DemoEnvironment:
        (folder / "postgres").mkdir(parents=True, exist_ok=True)
        return DemoEnvironment("postgres://", "redis://", "", "")

    def python(*words: str) -> None:
        half = folder / "postgres" / "half"
        if "migrate" in words:
            began.append(half.exists())
            half.touch()
        elif len(began) == 1:
            raise KeyboardInterrupt

    for name, value in {"FOLDER": folder, "demo_environment": services, "python": python}.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(KeyboardInterrupt):
        demo.prepare({"GPUAAS_DATABASE_URL"})
    assert "anew" not in capsys.readouterr().out
    demo.prepare({"GPUAAS_DATABASE_URL"})
    assert "The last start ended before the sample data was made: it is made anew." in capsys.readouterr().out
    demo.prepare({"GPUAAS_DATABASE_URL"})
    assert "anew" not in capsys.readouterr().out
    assert began == [False, False, True], "what was made whole stays"


class Late(BaseHTTPRequestHandler):
    """Answers 503 as long as nothing is ready."""

    ready = False

    def do_GET(self) -> None:
        self.send_response(200 if self.ready else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_slow_portal_is_announced_when_it_answers_however_late(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(Late, "ready", False)
    over = threading.Event()
    with HTTPServer(("127.0.0.1", 0), Late) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        waiting = threading.Thread(target=demo.announce, args=(url, time.monotonic(), over))
        waiting.start()
        waiting.join(timeout=0.6)
        assert waiting.is_alive(), "it goes on asking"
        assert capfd.readouterr().out.count(f"{url} does not answer yet.") == 1
        monkeypatch.setattr(Late, "ready", True)
        waiting.join(timeout=20)
        assert f"gpuaas is ready at {url}" in capfd.readouterr().out
        server.shutdown()
    waiting = threading.Thread(target=demo.announce, args=(url, time.monotonic(), over))
    waiting.start()
    over.set()
    waiting.join(timeout=20)
    assert not waiting.is_alive(), "nobody waits for a demo that is being stopped"

"""The demo's processes started one by one, so that a test may kill one and start it again."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from deploy.embedded.environment import demo_stop
from deploy.embedded.redis import free_port
from tests.e2e.portal import ROOT, Portal, python, settings_of, wait_until

MIGRATE = ("manage.py", "migrate", "--verbosity", "0")


class Pieces(Portal):
    """A portal without the launcher that would end all when one ends. Commands are those of the Procfile; of a second
    process of a kind ("worker-2") that of the kind."""

    SEED: ClassVar[str] = "deploy.embedded.seed"  # the module that brings the data

    @classmethod
    def prepare(cls, folder: Path, tables_of: str = "") -> Self:
        """Services, tables and data, and the web process. tables_of: the URL of a database that is migrated already; without it they
        are made by `migrate`."""
        began = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        python(folder, *(("-m", "tests.e2e.tables", tables_of) if tables_of else MIGRATE))
        python(folder, "-m", cls.SEED)
        port = free_port()
        pieces = cls(folder, cls.spawn(folder, "web", PORT=str(port)), f"http://127.0.0.1:{port}", 0.0)
        pieces.running = {"web": pieces.process}
        wait_until("the sign-in page", pieces.answers, seconds=60)
        state = {"url": pieces.url, "pid": os.getpid()}
        (folder / "running.json").write_text(json.dumps(state))  # where `make lab` looks for a demo
        pieces.seconds_to_answer = time.monotonic() - began
        return pieces

    running: dict[str, "subprocess.Popen[bytes]"]

    @staticmethod
    def spawn(folder: Path, name: str, *words: str, **environment: str) -> "subprocess.Popen[bytes]":
        lines = (ROOT / "Procfile").read_text().splitlines()
        commands = dict(line.split(": ", 1) for line in lines if line.strip())
        path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "GPUAAS_BEAT_SCHEDULE": str(folder / "beat"), **environment}
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", " ".join(("exec", commands[name.partition("-")[0]], *words))],
                cwd=ROOT,
                env={**settings_of(folder), **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _address(self) -> str | None:
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log()[-3000:]}"
        return self.url

    def start_piece(self, name: str) -> None:
        self.running[name] = self.spawn(self.folder, name)

    def kill(self, name: str) -> None:
        """-9, the process and all its children at once."""
        process = self.running.pop(name)
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for name in list(self.running):
            try:
                self.running[name].wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill(name)
        demo_stop(self.folder)
        self.nothing_gathered()

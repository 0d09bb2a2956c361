"""The portal in many processes, each of which may be killed, paused and restarted; so may its PostgreSQL and its Redis."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

import psycopg

from deploy.embedded import postgres, redis
from deploy.embedded.environment import demo_environment
from deploy.embedded.redis import free_port
from tests.e2e.pieces import Pieces
from tests.e2e.portal import ROOT, settings_of, wait_until

KINDS = ("web", "web-2", "worker", "worker-2", "worker-slow", "scheduler", "meter", "meter-2")
QUEUES = {"worker": "celery", "worker-2": "celery", "worker-slow": "slow"}
SMALL_DISK = "1g"
CLOCK = Path(__file__).with_name("clock.c")


class Fleet(Pieces):
    """Pieces that are told where the services are, as in production: none of them starts one itself."""

    SEED: ClassVar[str] = "tests.reliability.world"
    database_url: str
    redis_url: str
    ports: dict[str, int]
    seconds_to_start: float  # all at once, on this machine now

    @classmethod
    def begin(cls, folder: Path) -> Self:
        """On a disk of its own for PostgreSQL where we may mount one (`has_disk`)."""
        (folder / "postgres").mkdir(parents=True)
        disk_mount(folder / "postgres")
        try:
            fleet = cls.prepare(folder)
        except BaseException:
            disk_unmount(folder / "postgres")
            raise
        found = demo_environment(folder)
        fleet.database_url, fleet.redis_url = found.database_url, found.redis_url
        fleet.ports = {"web": int(fleet.url.rpartition(":")[2]), "web-2": free_port()}
        if compiler := shutil.which("cc"):
            subprocess.run(
                [compiler, "-shared", "-fPIC", "-O2", "-o", str(folder / "clock.so"), str(CLOCK)], check=True
            )
        fleet.kill("web")  # it was started with the services that it found itself
        began = time.monotonic()
        for name in KINDS:
            fleet.start_piece(name)
        wait_until("the web processes", fleet.answers, seconds=60)
        fleet.seconds_to_start = time.monotonic() - began
        return fleet

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    def start_piece(self, name: str) -> None:
        port = {"PORT": str(self.ports[name])} if name in self.ports else {}
        words = ("--queues", QUEUES[name]) if name in QUEUES else ()
        self.running[name] = self.spawn(
            self.folder, name, *words, **port, **self._services(), **self._clock(name)
        )

    def _clock(self, name: str) -> dict[str, str]:
        """A clock of its own, where there is a C compiler."""
        if not self.has_clocks:
            return {}
        self.clock_set(name, 0)
        return {"LD_PRELOAD": str(self.folder / "clock.so"), "GPUAAS_TEST_CLOCK": str(self.clock_file(name))}

    @property
    def has_clocks(self) -> bool:
        return (self.folder / "clock.so").exists()

    def clock_file(self, name: str) -> Path:
        return self.folder / f"clock-{name}"

    def clock_set(self, name: str, seconds: int) -> None:
        """Wrong by so many seconds from now on. Written in place: processes have it mapped."""
        self.clock_file(name).touch()
        with self.clock_file(name).open("r+b") as file:
            file.write(struct.pack("q", seconds))

    def signal_piece(self, name: str, number: signal.Signals) -> None:
        """The process and its children; what has ended hears nothing."""
        with suppress(ProcessLookupError):
            os.killpg(self.running[name].pid, number)

    def restart_piece(self, name: str) -> None:
        """In order; what does not end within seconds is killed."""
        self.running[name].terminate()
        with suppress(subprocess.TimeoutExpired):
            self.running[name].wait(timeout=10)
        self.kill(name)
        self.start_piece(name)

    def ended(self) -> list[str]:
        """Pieces that are not running, though nobody killed them."""
        return [name for name, process in self.running.items() if process.poll() is not None]

    # -- PostgreSQL and Redis -------------------------------------------------------------------------------------

    @property
    def data(self) -> Path:
        return self.folder / "postgres"

    def database_pids(self) -> list[int]:
        """The server and its processes; [] where it does not run."""
        try:
            server = int((self.data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        except (OSError, ValueError, IndexError):
            return []
        return [server, *map(int, children)]

    def database_stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT: at once and without a checkpoint, so that the next start is a recovery from a crash."""
        if pids := self.database_pids():
            os.kill(pids[0], how)
            wait_until("PostgreSQL to stop", lambda: not self.database_pids(), seconds=30)

    def database_start(self) -> None:
        def started() -> bool:
            try:
                return postgres.start(self.data, postgres.DEMO_OPTIONS) == self.database_url
            except (subprocess.SubprocessError, AssertionError):
                return False  # pg_ctl gives a recovery ten seconds

        wait_until("PostgreSQL at its old address", started, seconds=60)

    def database_whole(self) -> bool:
        """Whether it takes writes."""
        try:
            with psycopg.connect(self.dsn, connect_timeout=5) as connection:
                connection.execute("CREATE TEMPORARY TABLE whole AS SELECT 1")
        except psycopg.Error:
            return False
        return True

    @property
    def dsn(self) -> str:
        return f"host={self.data} user=postgres dbname=postgres options='-c lock_timeout=1s'"

    def redis_pid(self) -> int | None:
        try:
            return int((self.folder / "redis" / "redis.pid").read_text())
        except (OSError, ValueError):
            return None

    def redis_signal(self, number: signal.Signals) -> None:
        if pid := self.redis_pid():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def redis_start(self) -> None:
        assert redis.start(self.folder / "redis") == self.redis_url

    def redis_flush(self) -> None:
        port = int(self.redis_url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            connection.recv(64)

    def dial(self, site: str, **dials: int | bool) -> None:
        """The switches of a simulated site, from outside of the portal's processes. Raises psycopg's errors, also where
        a process that is paused has the site."""
        columns = ", ".join(f"{name} = %({name})s" for name in dials)
        with psycopg.connect(self.dsn, connect_timeout=2) as connection:
            done = connection.execute(
                f"UPDATE sandbox_sandboxsite SET {columns} WHERE slug = %(slug)s", {**dials, "slug": site}
            )
            assert done.rowcount == 1, site

    def helper(self, *words: str) -> "subprocess.Popen[bytes]":
        """`python -m tests.reliability.world`, beside the portal."""
        with (self.folder / "helper.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", self.SEED, *words],
                cwd=ROOT,
                env={**settings_of(self.folder), **self._services()},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run_for(self, *words: str) -> None:
        """The same, waited for."""
        assert self.helper(*words).wait() == 0, (self.folder / "helper.log").read_text()[-3000:]

    def _services(self) -> dict[str, str]:
        return {"GPUAAS_DATABASE_URL": self.database_url, "GPUAAS_BROKER_URL": self.redis_url}

    @property
    def has_disk(self) -> bool:
        return os.path.ismount(self.data)

    def end(self) -> None:
        """Also after a test that was interrupted while something was broken."""
        for pid in (*self.database_pids(), self.redis_pid()):
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        for name in self.running:
            self.signal_piece(name, signal.SIGCONT)
        try:
            self.stop()
        finally:
            for line in self.left_of(self.folder):
                with suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)
            disk_unmount(self.data)


def disk_mount(place: Path) -> None:
    """A small disk in memory. Where we may not mount, the place stays a folder, and no disk is ever full."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(place)]
    if os.geteuid() == 0:
        subprocess.run(words, check=False, capture_output=True)


def disk_unmount(place: Path) -> None:
    if os.path.ismount(place):
        subprocess.run(["umount", "--lazy", str(place)], check=False)

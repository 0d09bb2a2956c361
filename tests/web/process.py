"""The web process as the Procfile starts it, in a process of its own, on the database of the test."""

import contextlib
import os
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.portal import GATHERED, ROOT, wait_until
from tests.frontend.pages.server import free_port
from tests.metering.meters import environment_here


@dataclass(frozen=True)
class Web:
    url: str
    pid: int
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def memory(self) -> int:
        """The most that it ever held, in KiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])


def command() -> str:
    lines = (ROOT / "Procfile").read_text("utf-8").splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("web: "))


def answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")
    try:
        with urllib.request.urlopen(f"{url}/api/v1/", timeout=20):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextlib.contextmanager
def web_process(**changes: str) -> Iterator[Web]:
    """Answers when it is handed over; what it said of gathered answers fails the test that stops it."""
    port = free_port()
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**environment_here(), "PORT": str(port), "PATH": path, **changes}
    with tempfile.TemporaryDirectory(prefix="gpuaas-web-") as folder:
        log = Path(folder) / "web.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command()}"],
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until("the web process", lambda: answers(process, url, log), seconds=60)
            yield Web(url, process.pid, log)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=20)
        assert not GATHERED.search(log.read_text(errors="replace")), log.read_text(errors="replace")

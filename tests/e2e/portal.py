"""The whole portal as a new user starts it: `python -m deploy.demo up` in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, TypeVar

from tests.lab.fixtures import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
Found = TypeVar("Found")
# what Django says of an answer that it must gather in memory before it can send the first byte
GATHERED = re.compile(r"must consume (a)?synchronous iterators")


def wait_until(what: str, look: Callable[[], Found | None], *, seconds: float = 60.0) -> Found:
    """The first truthy answer of `look`; fails with `what` after PATIENCE times the seconds."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.1)


def settings_of(folder: Path) -> dict[str, str]:
    """The environment of the demo in `folder`."""
    settings = {"GPUAAS_DEMO_FOLDER": str(folder), "DJANGO_SETTINGS_MODULE": "gpuaas.settings.demo"}
    return {**os.environ, **settings}


def python(folder: Path, *words: str, **environment: str) -> str:
    """Python with these words, in the environment of the demo in `folder`: what it said."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**settings_of(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Portal:
    """One running demo; `stop` is Ctrl-C."""

    folder: Path
    process: subprocess.Popen[bytes]
    url: str
    seconds_to_answer: float

    @classmethod
    def start(cls, folder: Path, **environment: str) -> "Portal":
        began = time.monotonic()
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "deploy.demo", "up"],
                cwd=ROOT,
                env={**settings_of(folder), "PORT": "0", **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        portal = cls(folder, process, "", 0.0)
        portal.url = wait_until("the portal's address", portal._address, seconds=300)
        wait_until("the sign-in page", portal.answers, seconds=60)
        portal.seconds_to_answer = time.monotonic() - began
        return portal

    def _address(self) -> str | None:
        if self.process.poll() is not None:
            raise AssertionError(f"the demo ended with {self.process.returncode}:\n{self.log()[-3000:]}")
        state = self.folder / "running.json"
        return str(json.loads(state.read_text())["url"]) if state.exists() else None

    def answers(self) -> bool:
        self._address()
        try:
            with urllib.request.urlopen(f"{self.url}/accounts/login/", timeout=5):
                return True
        except OSError:
            return False

    def run(self, *words: str, **environment: str) -> str:
        """Python with these words, in the environment of this portal: what it said."""
        return python(self.folder, *words, **environment)

    def log(self) -> str:
        return (self.folder.parent / f"{self.folder.name}.log").read_text(errors="replace")

    @staticmethod
    def left_of(folder: Path, pattern: str = "") -> list[str]:
        """Processes of the demo in `folder`, this launcher's or not: `pid command`."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            ours = f"GPUAAS_DEMO_FOLDER={folder}\0" in environment or f"{folder}/" in command
            if command and ours and re.search(pattern, command):
                found.append(f"{entry.name} {command[:120]}")
        return found

    def processes(self, pattern: str) -> list[int]:
        """Pids of the demo's processes whose command line matches."""
        return [int(line.split()[0]) for line in self.left_of(self.folder, pattern)]

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=60)
        self.nothing_gathered()

    def nothing_gathered(self) -> None:
        """Whatever was asked of it, no answer was made whole before it was sent."""
        said = [line for line in self.log().splitlines() if GATHERED.search(line)]
        assert said == []


class Answer:
    def __init__(self, status: int, body: bytes, headers: Any) -> None:
        self.status, self.body, self.headers = status, body, headers

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A person at the REST API: signed in with a session, as the browser would be."""

    def __init__(self, portal: Portal, username: str, password: str = "demo") -> None:
        self.portal = portal
        self.jar = CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        page = self.opener.open(f"{portal.url}/accounts/login/").read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, "the sign-in page has a form"
        form = f"csrfmiddlewaretoken={token.group(1)}&login={username}&password={password}".encode()
        request = urllib.request.Request(f"{portal.url}/accounts/login/", form, {"Referer": portal.url})
        self.opener.open(request).read()
        assert any(cookie.name == "sessionid" for cookie in self.jar), "signed in"

    def call(self, method: str, path: str, body: object = None) -> Answer:
        token = next((cookie.value for cookie in self.jar if cookie.name == "csrftoken"), "") or ""
        headers = {"Content-Type": "application/json", "X-CSRFToken": token, "Referer": self.portal.url}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.portal.url}/api/v1{path}", data, headers, method=method)
        try:
            with self.opener.open(request, timeout=30) as response:
                return Answer(response.status, response.read(), response.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), error.headers)

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

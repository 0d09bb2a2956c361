"""The proxy of the compose file, by its very Caddyfile: TLS, and nobody refused while web is replaced."""

import json
import os
import shutil
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded.environment import ROOT
from deploy.lab.debian import unpack
from deploy.lab.files import CACHE
from deploy.lab.locks import locked
from tests.e2e.portal import wait_until
from tests.frontend.pages.server import free_port
from tests.metering.meters import environment_here

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not shutil.which("apt-get"), reason="Caddy is fetched from Debian"),
]


@pytest.fixture(scope="session")
def caddy() -> Path:
    found = shutil.which("caddy")
    if found:
        return Path(found)
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "gpuaas-caddy.lock", limit=300):
        if not (CACHE / "gpuaas-caddy").exists():
            unpack(["caddy"], CACHE / "gpuaas-caddy")
    return CACHE / "gpuaas-caddy/usr/bin/caddy"


class Web:
    """As `docker compose up` replaces it: one ends, then another begins at the same address."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        words = ["manage.py", "web", "--host", "127.0.0.1", "--port", str(self.port), "--grace", "5"]
        environment = {**environment_here(), "GPUAAS_TRUSTED_PROXIES": "127.0.0.1"}
        return subprocess.Popen([ROOT / ".venv/bin/python", *words], cwd=ROOT, env=environment)

    def replace(self) -> None:
        self.stop()
        self._process = self._started()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.stop()


@pytest.fixture
def proxy(caddy: Path, web: Web, tmp_path: Path) -> Iterator[Any]:
    """Asks it for a path by HTTPS, as a browser would that trusts its authority."""
    port = free_port()
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PORTAL_HOST": "localhost",
        "PORTAL_HTTP_PORT": str(free_port()),
        "PORTAL_HTTPS_PORT": str(port),
        "PORTAL_WEB": f"127.0.0.1:{web.port}",
    }
    file = ROOT / "deploy/compose/Caddyfile"
    running = subprocess.Popen(
        [caddy, "run", "--adapter", "caddyfile", "--config", file], env=environment, stderr=subprocess.DEVNULL
    )
    authority = tmp_path / "caddy/pki/authorities/local/root.crt"

    def ask(path: str, **headers: str) -> Any:
        request = urllib.request.Request(f"https://localhost:{port}{path}", headers=headers)
        return urllib.request.urlopen(
            request, timeout=90, context=ssl.create_default_context(cafile=authority)
        )

    def answers() -> bool:
        try:
            return bool(ask("/health/ready").status == 200)
        except OSError:
            return False

    try:
        wait_until("the proxy", answers)
        yield ask
    finally:
        running.terminate()
        running.wait(timeout=60)


def test_nobody_is_refused_while_web_is_replaced(proxy: Any, web: Web) -> None:
    over, seen = threading.Event(), list[object]()

    def ask_on() -> None:
        while not over.is_set():
            try:
                with proxy("/health/ready") as answer:
                    seen.append(answer.status)
            except OSError as error:
                seen.append(error)

    askers = [threading.Thread(target=ask_on) for _ in range(4)]
    for each in askers:
        each.start()
    try:
        wait_until("answers", partial(reaches, seen, 20))
        web.replace()
        wait_until("answers of the second", partial(reaches, seen, len(seen) + 20))
    finally:
        over.set()
        for each in askers:
            each.join()
    assert set(seen) == {200}


@pytest.mark.parametrize(
    ("line", "chosen"), [("", []), ("tls /data/portal.pem /data/portal.key", ["/data/portal.pem"])]
)
def test_the_certificate_is_the_one_that_is_named(caddy: Path, line: str, chosen: list[str]) -> None:
    adapted = subprocess.run(
        [caddy, "adapt", "--adapter", "caddyfile", "--config", ROOT / "deploy/compose/Caddyfile"],
        env={**os.environ, "PORTAL_HOST": "gpu.example.org", "PORTAL_TLS": line},
        capture_output=True,
        check=True,
    )
    loaded = json.loads(adapted.stdout)["apps"].get("tls", {}).get("certificates", {}).get("load_files", [])
    assert [each["certificate"] for each in loaded] == chosen


def reaches(seen: list[object], most: int) -> bool:
    return len(seen) >= most

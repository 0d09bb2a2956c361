"""`make audit` against services of advisories in the process of the test: it asks for every locked package, and fails for a known
hole, and where it gets no answer."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from deploy.embedded.environment import ROOT
from tests.served import served

LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\$", re.MULTILINE)  # for every Python and system
BULK = "/-/npm/v1/security/advisories/bulk"
NOBODY = "http://127.0.0.1:9"
TELLING = {"title": "It says too much.", "url": "https://advisories.invalid/1", "severity": "high"}


@dataclass
class Advisories:
    """OSV's query and npm's list, as far as the two programs ask. holes: names of packages; asked: (name, version)."""

    holes: set[str] = field(default_factory=set)
    asked: set[tuple[str, str]] = field(default_factory=set)
    url: str = ""

    def osv(self, query: dict[str, Any]) -> dict[str, Any]:
        name = query["package"]["name"]
        self.asked.add((name, query["version"]))
        hole = {"id": "GHSA-made-up", "summary": TELLING["title"], "affected": []}
        return {"vulns": [hole]} if name in self.holes else {}

    def npm(self, packages: dict[str, list[str]]) -> dict[str, Any]:
        self.asked |= {(name, version) for name, versions in packages.items() for version in versions}
        hole = {**TELLING, "id": 1, "vulnerable_versions": "*", "cwe": [], "cvss": {"score": 0}}
        return {name: [hole] for name in packages if name in self.holes}


@contextmanager
def advisories(*holes: str) -> Iterator[Advisories]:
    found = Advisories(set(holes))

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = json.loads(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
            self._answer(found.npm(asked) if self.path == BULK else found.osv(asked))

        def do_GET(self) -> None:
            """What npm asks for to name a version without the hole: there is none."""
            self._answer({"name": self.path.strip("/"), "versions": {}, "dist-tags": {}})

        def _answer(self, what: dict[str, Any]) -> None:
            body = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with served(Door) as found.url:
        yield found


def audit(osv: str, npm: str, cache: Path) -> "subprocess.CompletedProcess[str]":
    options = f"--vulnerability-service osv --osv-url {osv}/v1/query --cache-dir {cache}"
    environment = {**os.environ, "npm_config_registry": npm, "npm_config_cache": str(cache)}
    words = ["make", "--assume-old=.venv/.stamps/test", "audit", f"AUDIT={options}"]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_locked_package_is_asked_for(tmp_path: Path) -> None:
    with advisories() as found:
        done = audit(found.url, found.url, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    locked = {
        (name.lower(), version)
        for lock in ("base", "traces", "door", "test", "bootstrap")
        for name, version in LOCKED.findall((ROOT / f"requirements/{lock}.txt").read_text("utf-8"))
    }
    assert len(locked) > 150
    assert locked - found.asked == set()
    packages = json.loads((ROOT / "frontend/package-lock.json").read_text("utf-8"))["packages"]
    shipped = {
        name.removeprefix("node_modules/"): row for name, row in packages.items() if not row.get("dev")
    }
    assert {name for name in shipped if name} - {name for name, _ in found.asked} == set()


def test_a_known_hole_fails_it_by_name(tmp_path: Path) -> None:
    with advisories("cryptography", "chart.js") as found:
        python = audit(found.url, found.url, tmp_path)
        found.holes = {"chart.js"}
        npm = audit(found.url, found.url, tmp_path)
    assert python.returncode != 0
    assert re.search(r"^cryptography +\S+ +GHSA-made-up", python.stdout, re.MULTILINE)
    assert npm.returncode != 0
    assert "chart.js" in npm.stdout
    assert TELLING["title"] in npm.stdout


def test_no_answer_is_no_good_news(tmp_path: Path) -> None:
    with advisories() as found:
        assert audit(NOBODY, found.url, tmp_path).returncode != 0
        assert audit(found.url, NOBODY, tmp_path).returncode != 0

"""The last release's web process and worker on the new tables, beside the new ones, while tenants are at work.

`deploy/RELEASED` names the commit of the last release: the one whose migrations `tests/architecture/released.txt` lists. The new
release on old tables waits until they are migrated (decision 0072).
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded.redis import free_port
from tests.architecture import migrations
from tests.e2e.pieces import Pieces
from tests.e2e.portal import ROOT, Client, Portal, python, settings_of, wait_until
from tests.e2e.tenant import HOME, Tenant

pytestmark = pytest.mark.timeout(600)

FLAVOR = "h100-sxm-80gb.1"
AT_ONCE = 3
TOKEN = "token-for-prometheus-alone"
KINDS = ("web", "worker", "scheduler", "meter")
COUNT = "from gpuaas.backup.contents import rows_count; print('ROWS', sorted(rows_count().items()))"
BUILT = "frontend/static/frontend"  # of the front end; not in git
# Celery drops a task that only the new release has; the next round of the new one does what it would have done
UNKNOWN = "Received unregistered task"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last release."""
    commit = (ROOT / "deploy" / "RELEASED").read_text("utf-8").strip()
    folder = tmp_path_factory.mktemp("released")
    known = shutil.which("git") and run("git", "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
    if not known:
        pytest.skip(f"this checkout does not have the last release, {commit[:12]}, in its history")
    made = run("git", "archive", "--format=zip", f"--output={folder}/tree.zip", commit)
    assert made.returncode == 0, made.stderr
    shutil.unpack_archive(folder / "tree.zip", folder / "tree")
    if (ROOT / BUILT).is_dir():
        (folder / "tree" / BUILT).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / BUILT).symlink_to(ROOT / BUILT)
    return folder / "tree"


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_the_list_of_its_migrations_is_that_of_its_commit(released: Path) -> None:
    found = {f"{path.parts[-3]}.{path.stem}" for path in released.rglob("migrations/0*.py")}
    assert found == migrations.released()


class Old:
    """Processes of the last release on the services of `portal`."""

    def __init__(self, portal: Pieces, tree: Path) -> None:
        self.portal, self.tree, self.log = portal, tree, tree.parent / "old.log"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, **environment: str) -> None:
        lines = (self.tree / "Procfile").read_text().splitlines()
        command = dict(line.split(": ", 1) for line in lines if line.strip())[name]
        path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with self.log.open("ab") as log:
            self.running[name] = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                cwd=self.tree,
                env={**settings_of(self.portal.folder), "PATH": path, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        assert process.poll() is None, self.log.read_text(errors="replace")[-3000:]
        process.terminate()  # not its children, which end what they have begun
        process.wait(timeout=60)

    def web(self) -> Portal:
        port = free_port()
        self.start("web", PORT=str(port))
        web = Portal(self.portal.folder, self.running["web"], f"http://127.0.0.1:{port}", 0.0)
        wait_until("the old sign-in page", lambda: answers(web), seconds=60)
        return web


def answers(web: Portal) -> bool:
    try:
        return bool(Client(web, "alice").get("/me"))
    except OSError:
        return False


@pytest.fixture
def old(portal: Pieces, released: Path) -> Iterator[Old]:
    made = Old(portal, released)
    yield made
    for process in made.running.values():
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    if "worker" not in portal.running:
        portal.start_piece("worker")


def resized(tenant: Tenant, key: str, count: int) -> Any:
    def look() -> Any:
        found = tenant.workspace(key)
        assert found["state"] != "failed", found
        return found if found["state"] == "ready" and found["items"][0]["count"] == count else None

    return wait_until(f"{key} to have {count}", look, seconds=60)


def life(one: Tenant, other: Tenant) -> str:
    """Of one workspace: each change is made at one release and seen at the other."""
    key = str(one.request(FLAVOR, 1)["id"])
    other.in_state(key, "ready", seconds=90)
    changed = other.client.call("PATCH", f"{HOME}/{key}", {"items": [{"flavor": FLAVOR, "count": 2}]})
    assert changed.status == 202, changed.body
    resized(one, key, 2)
    assert one.client.get(HOME)["results"]
    one.delete(key)
    other.in_state(key, "deleted", seconds=90)
    return key


def busy(one: Tenant, other: Tenant) -> None:
    """Several at once, at the one and at the other."""
    with ThreadPoolExecutor(AT_ONCE) as people:
        lives = [people.submit(life, *((one, other) if n % 2 else (other, one))) for n in range(AT_ONCE)]
        assert len({each.result() for each in lives}) == AT_ONCE


def test_the_last_release_works_on_the_new_tables_beside_the_new_one(
    portal: Pieces, old: Old, tmp_path: Path
) -> None:
    """First only workers of the last release, then both, then only new ones: what one release began the other ends."""
    at_new = Tenant(Client(portal, "alice"), tmp_path)
    at_old = Tenant(Client(old.web(), "alice"), tmp_path)
    before = at_new.used()
    portal.kill("worker")
    old.start("worker")
    busy(at_new, at_old)
    portal.start_piece("worker")
    busy(at_new, at_old)
    begun = at_old.request(FLAVOR, 1)
    old.stop("worker")
    at_new.in_state(begun["id"], "ready", seconds=90)
    busy(at_new, at_old)
    at_new.delete(begun["id"])
    at_old.in_state(begun["id"], "deleted", seconds=90)
    assert at_new.used() == at_old.used() == before
    old.stop("web")
    wrong = [line for line in old.log.read_text(errors="replace").splitlines() if "Traceback" in line]
    assert [line for line in wrong if UNKNOWN not in line] == []


@pytest.fixture
def unmigrated(released: Path) -> Iterator[Pieces]:
    """Processes of this release on the tables of the last one."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-e2e-") as parent:
        folder = Path(parent, "old-tables")
        folder.mkdir()
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        done = subprocess.run(
            command,
            cwd=released,
            env=settings_of(folder),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        port = free_port()
        running = {
            name: Pieces.spawn(folder, name, PORT=str(port), GPUAAS_METRICS_TOKEN=TOKEN) for name in KINDS
        }
        pieces = Pieces(folder, running["web"], f"http://127.0.0.1:{port}", 0.0)
        pieces.running = running
        try:
            yield pieces
        finally:
            pieces.stop()


def health(portal: Portal, path: str) -> tuple[int, str]:
    asked = urllib.request.Request(f"{portal.url}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def rows(portal: Portal) -> str:
    said = python(portal.folder, "manage.py", "shell", "--no-imports", "-c", COUNT)
    return next(line for line in said.splitlines() if line.startswith("ROWS "))


def test_the_new_release_waits_for_its_tables_and_says_so(unmigrated: Pieces) -> None:
    """It takes no requests, writes nothing, and begins by itself once they are there."""
    portal, before = unmigrated, rows(unmigrated)
    wait_until("the web process", lambda: health(portal, "/health/live")[0] == 200, seconds=60)
    assert health(portal, "/health/ready") == (503, "not ready\n")
    status, words = health(portal, "/health/parts")
    assert status == 503
    assert "not applied yet" in words
    assert "gpuaas-portal migrate" in words
    assert rows(portal) == before
    python(portal.folder, "manage.py", "migrate", "--verbosity", "0")
    wait_until("it is ready", lambda: health(portal, "/health/ready")[0] == 200, seconds=60)
    wait_until("every process is seen", lambda: health(portal, "/health/parts")[0] == 200, seconds=60)
    assert {name: each.poll() for name, each in portal.running.items()} == dict.fromkeys(KINDS)

"""code-server and TensorBoard themselves behind the door, in the versions of their shipped kinds, in a real Chromium."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page

from deploy.lab.environments.programs import CodeServer, TensorBoard
from gpuaas.core import clock
from gpuaas.environments.activity import told_by
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import FOR_SPEC
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.members import member_set
from tenants.actors import Actor
from tenants.models import User
from tests.environments.door.programs import Pod, known, of_kind, opened, running
from tests.environments.door.stage import Running
from tests.lab.fixtures import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.django_db(transaction=True)
# writes what a training run of five steps would
RUN = """
import sys
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter(sys.argv[1])
for step in range(5):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, wall_time=1_800_000_000 + step, summary=Summary(value=[value])))
writer.close()
"""
# before what the door and the portal know people by
SECRETS = (b"__Host-gpuaas-", b"sessionid=", b"csrftoken=")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def editor(as_alice: Actor, workspace: Workspace, bob: User) -> Environment:
    """Of alice's; bob may edit the workspace that it is in."""
    member_set(actor=as_alice, workspace=workspace, username=bob.username, role="edit")
    return of_kind(as_alice, workspace, "code-server")


@pytest.fixture
def editor_pod(editor: Environment, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    (home / "notes.txt").write_text("before\n")
    with running(editor, CodeServer().command, home) as pod:
        monkeypatch.setattr(SandboxEnvironments, "reach", lambda *_: pod.carry)
        yield pod


def test_an_editor_saves_and_has_a_terminal(
    door: Running, editor: Environment, editor_pod: Pod, chromium: "Browser", alice: User
) -> None:
    notes, written = editor_pod.home / "notes.txt", editor_pod.home / "written.txt"
    with opened(chromium, door, alice, known(door, editor)) as page:
        _trusted(page)
        page.get_by_role("treeitem", name="notes.txt").dblclick()
        page.locator(".monaco-editor .view-line", has_text="before").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("after")
        page.keyboard.press("Control+S")
        until(lambda: notes.read_text() == "before\nafter", "the file is saved", seconds=60)
        page.keyboard.press("Control+`")
        page.locator(".terminal-wrapper .xterm-helper-textarea").wait_for(state="attached")
        page.locator(".terminal-wrapper.active .xterm-screen").click()
        page.keyboard.type("echo $((6 * 7)) > written.txt\n", delay=20)
        until(lambda: written.exists() and written.read_text() == "42\n", "the terminal ran it", seconds=60)
    heard = bytes(editor_pod.heard)
    assert b"upgrade: websocket" in heard.lower()
    assert b"x-gpuaas-user: alice" in heard
    assert [secret for secret in SECRETS if secret in heard] == []


def _trusted(page: Page) -> None:
    """Of the folder, which its editor asks about first."""
    page.get_by_role("button", name="Yes, I trust the authors").click()


def test_who_comes_in_to_an_editor(
    door: Running, editor: Environment, editor_pod: Pod, bob: User, charlie: User
) -> None:
    host = known(door, editor)
    answer = door.visitor(bob).opens(host)
    assert (answer.status, "code-server" in answer.text) == (200, True)
    before = len(editor_pod.heard)
    assert door.visitor(charlie).opens(host).status == 404
    assert len(editor_pod.heard) == before, "of who stays out it hears nothing"
    assert b"x-gpuaas-user: bob" in editor_pod.heard
    told = told_by(Environment.objects.select_related(*FOR_SPEC).get(pk=editor.pk))
    assert told.at is not None
    assert abs((clock.now() - told.at).total_seconds()) < 600, "its heart has beaten"


def test_tensorboard_shows_a_run(
    door: Running,
    workspace: Workspace,
    as_alice: Actor,
    alice: User,
    home: Path,
    chromium: "Browser",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row, program = of_kind(as_alice, workspace, "tensorboard"), TensorBoard().command
    subprocess.run([program[0], "-c", RUN, str(home / "logs" / "first-run")], check=True, timeout=120)
    with running(row, program, home) as pod:
        monkeypatch.setattr(SandboxEnvironments, "reach", lambda *_: pod.carry)
        with opened(chromium, door, alice, known(door, row)) as page:
            page.get_by_text("first-run").first.wait_for()
            page.get_by_text("loss").first.wait_for()
        heard = bytes(pod.heard)
    assert b"x-gpuaas-user: alice" in heard
    assert [secret for secret in SECRETS if secret in heard] == []

"""The door's way in by SSH, asked by the real client of OpenSSH: who gets in, what runs, and who is cut off."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.environments.door import process, ssh
from gpuaas.environments.door.hostkey import host_key
from gpuaas.environments.door.passes import Shown, Verdict, admissions_by_ssh
from gpuaas.environments.models import Environment, SshKey
from gpuaas.environments.services import environment_change, environment_create, environment_stop, kind_create
from gpuaas.workspaces.machines.keys import fingerprint_of, keypair_add, keypair_remove
from gpuaas.workspaces.machines.models import PublicKey
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.members import member_remove, member_set
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, User
from tenants.selectors import actor_for
from tests.environments import stage
from tests.environments.door.laptop import Laptop, laptop_of
from tests.environments.door.stage import DOMAIN, Running, host_of
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until

CUT_SECONDS = 5


@pytest.fixture
def ssh_port(settings: Any) -> int:
    """Before the door begins, which reads it then."""
    port = free_port()
    settings.DOOR_SSH, settings.DOOR_SSH_BIND = ("127.0.0.1", port), ("127.0.0.1", port)
    return port


@pytest.fixture
def alices(ssh_port: int, host: str, alice: User, tmp_path: Path) -> Laptop:
    """With the door up, and the environment known to it."""
    del host
    return laptop_of(alice, ssh_port, tmp_path / "alice")


@pytest.mark.django_db(transaction=True)
def test_a_command_runs_with_its_input_and_its_exit_code(
    alices: Laptop, notebook: Environment, door: Running, alice: User
) -> None:
    label = notebook.label or ""
    content = bytes(range(256)) * 8_000
    asked = alices.asks(label, "train --epochs '3 4'", given=content)
    assert (asked.returncode, asked.stdout) == (0, content)
    assert b"It was asked for: train --epochs '3 4'" in asked.stderr
    assert alices.asks(label, "exit 7").returncode == 7
    notebook.refresh_from_db()
    assert notebook.last_used_at is not None
    entry = AuditEntry.objects.filter(action="environment.open").latest("at")
    assert (entry.actor, entry.ip) == (alice.username, "127.0.0.1")
    gate = door.door.gate
    assert gate is not None
    until(lambda: not gate.inside, "nobody is in any more")


@pytest.mark.django_db(transaction=True)
def test_one_without_a_port_has_a_shell_and_no_address(
    alices: Laptop, notebook: Environment, door: Running, as_alice: Actor
) -> None:
    kind_create(actor=SYSTEM, slug="shell", name="Shell", document=stage.SHELL)
    made = environment_create(actor=as_alice, workspace=notebook.workspace, kind="shell", name="sh", gpus=0)
    row = stage.settle(made)
    until(lambda: alices.asks(row.label or "", "exit 3").returncode == 3, "it is entered")
    row.refresh_from_db()
    assert row.last_used_at is not None
    answers = [door.visitor().ask(host) for host in (host_of(row), f"{'0' * 32}.{DOMAIN}")]
    assert answers[0].status == answers[1].status == 401
    assert answers[0].text == answers[1].text


@pytest.mark.django_db(transaction=True)
def test_an_open_shell_is_use(alices: Laptop, notebook: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OPEN_SECONDS", 0)
    shell = subprocess.Popen(
        alices.command(notebook.label or "", "sleep"), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert shell.stderr is not None
        assert b"simulated" in shell.stderr.readline()
        Environment.objects.filter(pk=notebook.pk).update(last_used_at=None)
        until(lambda: Environment.objects.get(pk=notebook.pk).last_used_at, "it is noted that somebody is in")
    finally:
        shell.kill()
        shell.communicate()


@pytest.mark.django_db(transaction=True)
def test_a_terminal(alices: Laptop, notebook: Environment) -> None:
    asked = alices.asks(notebook.label or "", given=b"hello\rexit\r", options=("-tt",))
    assert asked.returncode == 0
    assert b"It repeats each line until `exit`." in asked.stdout
    assert b"\r\nhello\r\n$ " in asked.stdout


@pytest.mark.django_db(transaction=True)
def test_a_port_inside_it_is_forwarded_and_no_other_place(alices: Laptop, notebook: Environment) -> None:
    label, request = notebook.label or "", b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert alices.answered(label, 8888, request) == b"HTTP/1.1 200 OK\r\n"
    for place in ("10.0.0.1:80", "169.254.169.254:80", "portal:5432"):
        refused = alices.asks(label, options=("-W", place))
        assert refused.returncode == 255
        assert b"only to ports of the environment" in refused.stderr


@pytest.mark.django_db(transaction=True)
def test_strangers_stay_outside(
    alices: Laptop, notebook: Environment, charlie: User, ssh_port: int, tmp_path: Path
) -> None:
    """An outsider with a key, somebody without one, a wrong label: the same words for all of them."""
    charlies = laptop_of(charlie, ssh_port, tmp_path / "charlie")
    nobodys = laptop_of(None, ssh_port, tmp_path / "nobody")
    label = notebook.label or ""
    answers = {
        (asked.returncode, asked.stderr.replace(name.encode(), b"it"))
        for laptop, name in ((charlies, label), (nobodys, label), (alices, "0" * 32), (alices, "root"))
        for asked in (laptop.asks(name, "id"),)
    }
    assert answers == {(255, b"it@127.0.0.1: Permission denied (publickey).\r\n")}


@pytest.mark.django_db(transaction=True)
def test_those_who_say_nothing_do_not_keep_others_out(
    alices: Laptop, notebook: Environment, door: Running
) -> None:
    """Of one network so many may wait, and the next ones are ended."""
    gate = door.door.gate
    assert gate is not None
    silent = [
        socket.create_connection(("127.0.0.1", alices.port), 20) for _ in range(ssh.OF_NETWORK_MOST + 5)
    ]
    try:
        until(lambda: len(gate.strangers) == ssh.OF_NETWORK_MOST, "as many wait as may")
        assert alices.asks(notebook.label or "", "id").returncode == 255
    finally:
        for each in silent:
            each.close()
    until(lambda: not gate.strangers, "they have gone")
    assert alices.asks(notebook.label or "", "id").returncode == 0


@pytest.mark.django_db(transaction=True)
def test_guesses_are_counted(
    alices: Laptop, notebook: Environment, ssh_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of keys that open nothing; those that do are never slowed by them, as they are given back."""
    monkeypatch.setattr(ssh, "TRIES", 3)
    label, nobodys = notebook.label or "", laptop_of(None, ssh_port, tmp_path / "nobody")
    for _ in range(5):
        assert alices.asks(label, "exit 0").returncode == 0
    for _ in range(3):
        assert nobodys.asks(label, "exit 0").returncode == 255
    assert alices.asks(label, "exit 0").returncode == 255, "of the same network"


@pytest.mark.django_db(transaction=True)
def test_one_that_is_stopped_says_so(alices: Laptop, notebook: Environment, as_alice: Actor) -> None:
    environment_stop(actor=as_alice, environment=notebook)
    asked = alices.asks(notebook.label or "", "id")
    assert (asked.returncode, asked.stderr) == (
        255,
        b"gpuaas: the environment does not run: start it in the portal\r\n",
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["member", "key", "private", "disabled"])
def test_who_may_no_longer_stay_is_cut_off(
    how: str,
    alices: Laptop,
    notebook: Environment,
    workspace: Workspace,
    as_alice: Actor,
    bob: User,
    ssh_port: int,
    tmp_path: Path,
) -> None:
    bobs = laptop_of(bob, ssh_port, tmp_path / "bob")
    both = [
        subprocess.Popen(
            each.command(notebook.label or "", "sleep"), stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for each in (alices, bobs)
    ]
    try:
        for each in both:
            assert each.stderr is not None
            assert b"simulated" in each.stderr.readline()
        began = time.monotonic()
        if how == "member":
            workspace.project.memberships.filter(user=bob).delete()
            member_remove(actor=as_alice, workspace=workspace, username=bob.username)
        elif how == "key":
            keypair_remove(actor=actor_for(user=bob), key=PublicKey.objects.get(user=bob))
        elif how == "private":
            environment_change(actor=as_alice, environment=notebook, access="private")
        else:
            User.objects.filter(pk=bob.pk).update(is_active=False)
        assert both[1].wait(20) == 255
        assert time.monotonic() - began < CUT_SECONDS * 2, "twice the promise, on a busy machine"
        assert both[0].poll() is None, "others stay"
        assert bobs.asks(notebook.label or "", "id").returncode == 255
    finally:
        for each in both:
            each.kill()
            each.communicate()


# -- what a key is worth -------------------------------------------------------------------------------------------

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


@pytest.mark.django_db
def test_one_key_of_two_people_is_whose_may_enter(
    notebook: Environment, as_alice: Actor, charlie: User, alice: User, bob: User
) -> None:
    """That anybody can add a key that is not theirs to their account does not keep its owner out, and lets nobody in."""
    shown = Shown(notebook.label or "", fingerprint_of(KEY))
    assert admissions_by_ssh([shown]) == {}
    keypair_add(actor=actor_for(user=charlie), name="stolen", public_key=KEY)
    assert admissions_by_ssh([shown]) == {}
    keypair_add(actor=actor_for(user=bob), name="mine", public_key=KEY)
    found = admissions_by_ssh([shown])[shown]
    assert (found.user, found.verdict) == (bob.username, Verdict.ADMITTED)


@pytest.mark.django_db
def test_guests_of_an_environment_have_no_shell_in_it(
    notebook: Environment, organization: Any, charlie: User, as_alice: Actor
) -> None:
    organization.memberships.create(user=charlie, role="billing")
    Environment.objects.filter(pk=notebook.pk).update(access="organization")
    keypair_add(actor=actor_for(user=charlie), name="mine", public_key=KEY)
    assert admissions_by_ssh([Shown(notebook.label or "", fingerprint_of(KEY))]) == {}


@pytest.mark.django_db
def test_the_queries_do_not_grow(
    notebook: Environment, as_alice: Actor, workspace: Workspace, bob: User
) -> None:
    other = stage.ready(as_alice, workspace, name="second", gpus=0)
    keypair_add(actor=actor_for(user=bob), name="mine", public_key=KEY)
    member_set(actor=as_alice, workspace=workspace, username=bob.username, role="edit")
    one, two = (Shown(row.label or "", fingerprint_of(KEY)) for row in (notebook, other))
    with CaptureQueriesContext(connection) as alone:
        admissions_by_ssh([one])
    with CaptureQueriesContext(connection) as several:
        assert len(admissions_by_ssh([one, two])) == 2
    assert len(several) == len(alone) <= 6


@pytest.mark.django_db
def test_the_door_keeps_its_key(notebook: Environment) -> None:
    del notebook
    first = host_key()
    assert first == host_key()
    assert first not in SshKey.objects.get().secret

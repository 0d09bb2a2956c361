"""A door that goes on: its Envoy killed, another door beside it, a new certificate; and what asking costs."""

import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.crypto import get_random_string

from deploy.embedded.certificate import certificate_make
from deploy.embedded.environment import ROOT
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.environments.door.passes import (
    Verdict,
    admissions,
    passes_forget,
    ticket_use,
    ticket_write,
    use_note,
)
from gpuaas.environments.door.process import place_made
from gpuaas.environments.models import DoorPass, Environment
from gpuaas.environments.services import environment_stop
from gpuaas.environments.services.access import hashed
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, User
from tenants.selectors import actor_for
from tests.environments import stage
from tests.environments.door.stage import DOMAIN, Running, door_running, envoys
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.metering.meters import environment_here
from tests.workspaces.test_races import at_once


@pytest.mark.django_db(transaction=True)
def test_an_envoy_that_was_killed_is_started_again_and_passes_stay(
    door: Running, host: str, alice: User
) -> None:
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200
    (before,) = envoys()
    os.kill(before, signal.SIGKILL)
    until(lambda: envoys() not in ([], [before]), "another Envoy runs")

    def answers() -> bool:
        try:
            return visitor.ask(host, "/api").status == 200
        except OSError:
            return False

    until(answers, "who was in is in")


@pytest.mark.django_db(transaction=True)
def test_it_may_have_as_many_connections_as_its_account_allows(tmp_path: Path) -> None:
    """What a shell or systemd gives at first is enough for some five hundred of them."""
    certificate, key = map(str, certificate_make(tmp_path, DOMAIN))
    given = {"DOMAIN": DOMAIN, "CERTIFICATE": certificate, "KEY": key, "BIND": f"127.0.0.1:{free_port()}"}
    command = ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", sys.executable, "manage.py", "door"]
    named = {f"GPUAAS_DOOR_{name}": value for name, value in given.items()}
    with subprocess.Popen(command, cwd=ROOT, env={**environment_here(), **named}) as process:
        try:
            until(lambda: envoys(process.pid), "it has an Envoy")
            assert re.search(r"open files +(\d+) +\1 ", Path(f"/proc/{process.pid}/limits").read_text())
        finally:
            process.terminate()


@pytest.mark.django_db(transaction=True)
def test_two_doors_beside_each_other(door: Running, host: str, alice: User) -> None:
    """At the same port, as while one takes over from the other: the kernel gives connections to both."""
    visitor = door.visitor(alice)
    assert visitor.opens(host).status == 200
    with door_running(door.port) as other:
        until(lambda: host.partition(".")[0] in other.door.ways, "the second one knows the environment")
        until(lambda: len(envoys()) == 2, "both have an Envoy")

        def both_asked() -> bool:
            assert visitor.ask(host, "/api").status == 200
            return bool(door.door.inside and other.door.inside)

        until(both_asked, "both let somebody in")
    assert other.door.place.folder != door.door.place.folder
    assert not other.door.place.folder.exists()
    assert visitor.ask(host, "/api").status == 200


@pytest.mark.django_db(transaction=True)
def test_use_of_a_new_certificate(door: Running, host: str, settings: Any) -> None:
    """Envoy reads the files again after the door has seen that they are new."""
    link = door.door.place.folder / "tls" / "certificate.pem"
    before = link.lstat().st_ino
    os.utime(settings.DOOR_CERTIFICATE, (0, 0))
    until(lambda: link.lstat().st_ino != before, "the link is a new one")
    assert door.visitor().ask(host).status == 401


@pytest.mark.parametrize("name", ["DOMAIN", "CERTIFICATE", "KEY", "BIND"])
def test_what_is_missing_is_named(settings: Any, name: str) -> None:
    settings.DOOR_DOMAIN, settings.DOOR_CERTIFICATE, settings.DOOR_KEY = "apps.test", "c", "k"
    setattr(settings, f"DOOR_{name}", "")
    with pytest.raises(ImproperlyConfigured, match=f"GPUAAS_DOOR_{name}"), place_made():
        pass


# -- passes --------------------------------------------------------------------------------------------------------


def ticket(row: Environment, user: User, browser: str = "b" * 43) -> str:
    session = Session.objects.create(
        session_key=get_random_string(32), session_data="", expire_date=clock.now() + timedelta(hours=1)
    )
    return ticket_write(
        actor=actor_for(user=user),
        user=user,
        environment=row,
        session_key=session.pk,
        browser=hashed(browser),
    )


def enter(row: Environment, user: User) -> DoorPass:
    cookie = ticket_use(label=row.label or "", ticket=ticket(row, user), browser="b" * 43)
    return DoorPass.objects.get(cookie=hashed(cookie or ""))


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    return stage.ready(as_alice, workspace, gpus=0)


@pytest.mark.django_db
def test_what_a_look_costs_does_not_grow(notebook: Environment, alice: User, olga: User) -> None:
    def look() -> int:
        with CaptureQueriesContext(connection) as queries:
            found = admissions(DoorPass.objects.all())
        assert {each.verdict for each in found} == {Verdict.ADMITTED}
        return len(queries)

    enter(notebook, alice)
    one = look()
    for user in (alice, olga, alice):
        enter(notebook, user)
    assert (one, look()) == (2, 2)


@pytest.mark.django_db
def test_who_gets_a_ticket(notebook: Environment, alice: User, bob: User, charlie: User, olga: User) -> None:
    assert ticket(notebook, alice)
    assert ticket(notebook, olga)
    with pytest.raises(Forbidden):
        ticket(notebook, bob)
    with pytest.raises(NotFound):
        ticket(notebook, charlie)
    environment_stop(actor=SYSTEM, environment=notebook)
    notebook.refresh_from_db()
    with pytest.raises(Conflict):
        ticket(notebook, alice)


@pytest.mark.django_db
def test_a_new_password_and_an_ended_session_end_a_pass(notebook: Environment, alice: User) -> None:
    first, second = enter(notebook, alice), enter(notebook, alice)
    Session.objects.filter(pk=first.session_key).delete()
    found = {each.secret: each.verdict for each in admissions(DoorPass.objects.all())}
    assert found == {first.cookie: Verdict.ENDED, second.cookie: Verdict.ADMITTED}
    alice.set_password("another long word")
    alice.save()
    assert [each.verdict for each in admissions(DoorPass.objects.filter(pk=second.pk))] == [Verdict.ENDED]


@pytest.mark.django_db
def test_what_is_over_is_forgotten(notebook: Environment, alice: User) -> None:
    over, kept = enter(notebook, alice), enter(notebook, alice)
    Session.objects.filter(pk=over.session_key).delete()
    ticket(notebook, alice)
    unused = DoorPass.objects.exclude(ticket=None)
    unused.update(created_at=clock.now() - timedelta(hours=1))
    assert passes_forget() == 2
    assert list(DoorPass.objects.all()) == [kept]


@pytest.mark.django_db
def test_use_is_noted_at_most_once_a_minute(notebook: Environment) -> None:
    use_note([notebook.pk])
    first = Environment.objects.get(pk=notebook.pk).last_used_at
    use_note([notebook.pk])
    assert first
    assert Environment.objects.get(pk=notebook.pk).last_used_at == first
    Environment.objects.filter(pk=notebook.pk).update(last_used_at=first - timedelta(seconds=61))
    use_note([notebook.pk])
    later = Environment.objects.get(pk=notebook.pk)
    assert later.last_used_at
    assert later.last_used_at >= first
    assert later.version == notebook.version


@pytest.mark.django_db(transaction=True)
def test_of_two_who_show_the_same_ticket_one_gets_in(notebook: Environment, alice: User) -> None:
    shown = ticket(notebook, alice)
    got: list[str | None] = []
    at_once(4, lambda _: got.append(ticket_use(label=notebook.label or "", ticket=shown, browser="b" * 43)))
    assert len(got) == 4
    assert len(list(filter(None, got))) == 1
    (told,) = AuditEntry.objects.filter(action="environment.open")
    assert (told.actor, told.target_id) == ("alice", str(notebook.pk))

"""Files of a home through the services: who may, when, how much, and what the audit log says. The site is simulated."""

import asyncio
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from gpuaas.environments.home import FILE_MOST
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_access_set, environment_delete, environment_stop, files
from gpuaas.environments.spec import ENVIRONMENTS
from gpuaas.providers.base import Streams
from gpuaas.providers.sandbox import homes
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from gpuaas.providers.sandbox.models import SandboxFile, SandboxPod
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, User
from tenants.selectors import actor_for
from tests.environments.stage import kind, ready, settle
from tests.factories.tenants import ProjectMembershipFactory, UserFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab(as_alice: Actor, workspace: Workspace) -> Environment:
    kind(access=["workspace", "private", "organization"])
    return ready(as_alice, workspace, gpus=0)


def names(actor: Actor, lab: Environment, path: str = "") -> list[str]:
    return [each.name for each in files.folder_list(actor=actor, environment=lab, path=path).entries]


def written() -> list[tuple[str, Any]]:
    rows = AuditEntry.objects.filter(action__contains="file").order_by("pk")
    return [(row.action, row.after or row.before) for row in rows]


def test_up_and_down(as_alice: Actor, lab: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": lab}
    content = bytes(range(256)) * 1000
    files.folder_make(**given, path=".data")
    files.file_write(**given, path=".data/notes", content=content)
    files.file_write(**given, path="zero", content=b"")
    assert (names(as_alice, lab), names(as_alice, lab, ".data")) == ([".data", "zero"], ["notes"])
    assert files.file_read(**given, path=".data/notes") == content
    with pytest.raises(Conflict, match="already"):
        files.file_write(**given, path=".data/notes", content=b"new")
    files.file_write(**given, path=".data/notes", content=b"new", overwrite=True)
    assert files.file_read(**given, path=".data/notes") == b"new"
    for path, words in ((".data", "not empty"), ("zero/x", "not a folder")):
        with pytest.raises(Conflict, match=words):
            files.file_remove(**given, path=path)
    files.file_remove(**given, path=".data/notes")
    files.file_remove(**given, path=".data")
    assert names(as_alice, lab) == ["zero"]
    assert written() == [
        ("environment.file_upload", {"path": ".data/notes", "bytes": 256_000, "overwrite": False}),
        ("environment.file_upload", {"path": "zero", "bytes": 0, "overwrite": False}),
        ("environment.file_upload", {"path": ".data/notes", "bytes": 3, "overwrite": True}),
        ("environment.file_remove", {"path": ".data/notes"}),
        ("environment.file_remove", {"path": ".data"}),
    ]
    lab.refresh_from_db()
    assert lab.last_used_at is not None, "it is in use"


def test_who_may_enter_it_may(as_alice: Actor, lab: Environment, bob: User, charlie: User) -> None:
    """Guests of the organization open its address, and have neither shell nor files."""
    dora: User = UserFactory.create(username="dora")
    ProjectMembershipFactory.create(project=lab.project, user=dora, role="viewer")
    environment_access_set(actor=as_alice, environment=lab, access="organization")
    for user, kind_of in ((charlie, NotFound), (dora, Forbidden)):
        actor = actor_for(user=user)
        with pytest.raises(kind_of):
            files.folder_list(actor=actor, environment=lab)
        with pytest.raises(kind_of):
            files.file_write(actor=actor, environment=lab, path="x", content=b"")
    lab.workspace.members.create(user=bob, role="edit")
    as_bob = actor_for(user=bob)
    files.file_write(actor=as_bob, environment=lab, path="x", content=b"")
    assert names(as_bob, lab) == ["x"]
    environment_access_set(actor=as_alice, environment=lab, access="private")
    lab.refresh_from_db()
    with pytest.raises(Forbidden, match="private"):
        files.file_read(actor=as_bob, environment=lab, path="x")
    assert files.file_read(actor=as_alice, environment=lab, path="x") == b""


def test_it_has_to_run(as_alice: Actor, lab: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": lab}
    SandboxPod.objects.all().delete()
    with pytest.raises(Conflict, match="cannot be asked now"):
        files.folder_list(**given)
    environment_stop(**given)
    for _ in range(2):
        with pytest.raises(Conflict, match="cannot be done while the environment is stopp"):
            files.file_write(**given, path="x", content=b"")
        settle(lab)
    assert (SandboxFile.objects.exists(), written()) == (False, [])


def test_its_files_end_with_it(as_alice: Actor, lab: Environment) -> None:
    """A stop keeps them."""
    files.file_write(actor=as_alice, environment=lab, path="x", content=b"x")
    environment_stop(actor=as_alice, environment=lab)
    settle(lab)
    assert SandboxFile.objects.exists()
    environment_delete(actor=as_alice, environment=lab)
    settle(lab)
    assert not SandboxFile.objects.exists()


def test_how_much(as_alice: Actor, lab: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": lab}
    with pytest.raises(Conflict, match="more than 16 MiB"):
        files.file_write(**given, path="x", content=bytes(FILE_MOST + 1))
    files.file_write(**given, path="x", content=b"x")
    SandboxFile.objects.update(content=bytes(FILE_MOST + 1))
    with pytest.raises(Conflict, match="copy it by scp"):
        files.file_read(**given, path="x")
    for path in ("", "../x", "/x"):
        with pytest.raises(Invalid):
            files.file_read(**given, path=path)


def told(lab: Environment, monkeypatch: pytest.MonkeyPatch, does: Any) -> None:
    """The program in the pod does this instead."""
    assert isinstance(ENVIRONMENTS.at(lab.site), SandboxEnvironments)
    monkeypatch.setattr(SandboxEnvironments, "run", lambda *given, **named: does)


def test_a_program_that_writes_for_ever_is_cut_off(
    as_alice: Actor, lab: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": lab}

    async def floods(streams: Streams) -> int:
        while True:
            await streams.write(b"/ 81a4 1 0 ./%d\n" * 1000 % tuple(range(1000)), is_error=False)
            await streams.write(b"noise" * 1000, is_error=True)

    told(lab, monkeypatch, floods)
    found = files.folder_list(**given)
    assert (len(found.entries), found.cut) == (1000, True)
    with pytest.raises(Conflict, match="larger meanwhile"):
        files.file_read(**given, path="x")
    with pytest.raises(Conflict, match="not known whether"):
        files.file_remove(**given, path="x")
    assert written() == []


def test_one_that_hangs_is_not_waited_for(
    as_alice: Actor, lab: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is no longer under way after it."""

    async def hangs(streams: Streams) -> int:
        while True:
            await streams.read()
            await asyncio.sleep(0.01)

    told(lab, monkeypatch, hangs)
    monkeypatch.setattr(files, "SECONDS", 0.1)
    for _ in range(files.AT_ONCE + 1):
        with pytest.raises(Unavailable, match="does not answer within"):
            files.folder_list(actor=as_alice, environment=lab)


def test_few_at_once(as_alice: Actor, lab: Environment) -> None:
    place, refused = files._places.place, pytest.raises(Unavailable, match="in a moment")
    with place(lab.pk), place(lab.pk), refused:
        files.folder_list(actor=as_alice, environment=lab)
    assert names(as_alice, lab) == []


def test_a_new_name_can_be_read(as_alice: Actor, lab: Environment) -> None:
    """Also where a file may be replaced; an odd one that is there is replaced."""
    given: dict[str, Any] = {"actor": as_alice, "environment": lab, "path": "odd\x07name", "overwrite": True}
    with pytest.raises(Invalid, match="no control characters"):
        files.file_write(**given, content=b"x")
    files.file_write(actor=as_alice, environment=lab, path="x", content=b"x")
    SandboxFile.objects.update(path="odd\x07name")
    files.file_write(**given, content=b"new")
    assert files.file_read(actor=as_alice, environment=lab, path="odd\x07name") == b"new"


def test_a_simulated_home_has_an_end(
    as_alice: Actor, lab: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replaced does not count twice; a list reads no contents."""
    given: dict[str, Any] = {"actor": as_alice, "environment": lab}
    monkeypatch.setattr(homes, "ROOM", 3 * homes.SHOWN)
    files.file_write(**given, path="x", content=bytes(homes.SHOWN))
    with pytest.raises(Conflict, match="no room left"):
        files.file_write(**given, path="y", content=b"y")
    files.file_write(**given, path="x", content=bytes(homes.SHOWN), overwrite=True)
    files.folder_make(**given, path="z")
    with pytest.raises(Conflict, match="no room left"):
        files.folder_make(**given, path="y")
    with CaptureQueriesContext(connection) as asked:
        assert names(as_alice, lab) == ["z", "x"]
    selected = [each["sql"] for each in asked if "sandbox_sandboxfile" in each["sql"]]
    assert [
        sql for sql in selected if '"content"' in sql.replace('LENGTH("sandbox_sandboxfile"."content")', "")
    ] == []
    assert selected


def test_no_lock_waits_for_the_site(as_alice: Actor, lab: Environment) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        files.folder_list(actor=as_alice, environment=lab)

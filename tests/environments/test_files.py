"""Files of a home through the services: who may, when, how much, and what the audit log says. The site is simulated."""

import asyncio
from collections.abc import Callable
from io import BytesIO
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
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    kind(access=["workspace", "private", "organization"])
    return ready(as_alice, workspace, gpus=0)


def names(actor: Actor, notebook: Environment, path: str = "") -> list[str]:
    return [each.name for each in files.folder_list(actor=actor, environment=notebook, path=path).entries]


def written() -> list[tuple[str, Any]]:
    rows = AuditEntry.objects.filter(action__contains="file").order_by("pk")
    return [(row.action, row.after or row.before) for row in rows]


def test_up_and_down(as_alice: Actor, notebook: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}
    content = bytes(range(256)) * 1000
    files.folder_make(**given, path=".data")
    files.file_write(**given, path=".data/notes", read=BytesIO(content).read)
    files.file_write(**given, path="zero", read=BytesIO(b"").read)
    assert (names(as_alice, notebook), names(as_alice, notebook, ".data")) == ([".data", "zero"], ["notes"])
    assert files.file_read(**given, path=".data/notes") == content
    with pytest.raises(Conflict, match="already"):
        files.file_write(**given, path=".data/notes", read=BytesIO(b"new").read)
    files.file_write(**given, path=".data/notes", read=BytesIO(b"new").read, overwrite=True)
    assert files.file_read(**given, path=".data/notes") == b"new"
    for path, words in ((".data", "not empty"), ("zero/x", "not a folder")):
        with pytest.raises(Conflict, match=words):
            files.file_remove(**given, path=path)
    files.file_remove(**given, path=".data/notes")
    files.file_remove(**given, path=".data")
    assert names(as_alice, notebook) == ["zero"]
    assert written() == [
        ("environment.file_upload", {"path": ".data/notes", "bytes": 256_000, "overwrite": False}),
        ("environment.file_upload", {"path": "zero", "bytes": 0, "overwrite": False}),
        ("environment.file_upload", {"path": ".data/notes", "bytes": 3, "overwrite": True}),
        ("environment.file_remove", {"path": ".data/notes"}),
        ("environment.file_remove", {"path": ".data"}),
    ]
    notebook.refresh_from_db()
    assert notebook.last_used_at is not None, "it is in use"


def test_who_may_enter_it_may(as_alice: Actor, notebook: Environment, bob: User, charlie: User) -> None:
    """Guests of the organization open its address, and have neither shell nor files."""
    dora: User = UserFactory.create(username="dora")
    ProjectMembershipFactory.create(project=notebook.project, user=dora, role="viewer")
    environment_access_set(actor=as_alice, environment=notebook, access="organization")
    for user, kind_of in ((charlie, NotFound), (dora, Forbidden)):
        actor = actor_for(user=user)
        with pytest.raises(kind_of):
            files.folder_list(actor=actor, environment=notebook)
        with pytest.raises(kind_of):
            files.file_write(actor=actor, environment=notebook, path="x", read=BytesIO(b"").read)
    notebook.workspace.members.create(user=bob, role="edit")
    as_bob = actor_for(user=bob)
    files.file_write(actor=as_bob, environment=notebook, path="x", read=BytesIO(b"").read)
    assert names(as_bob, notebook) == ["x"]
    environment_access_set(actor=as_alice, environment=notebook, access="private")
    notebook.refresh_from_db()
    with pytest.raises(Forbidden, match="private"):
        files.file_read(actor=as_bob, environment=notebook, path="x")
    assert files.file_read(actor=as_alice, environment=notebook, path="x") == b""


def test_it_has_to_run(as_alice: Actor, notebook: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}
    SandboxPod.objects.all().delete()
    with pytest.raises(Conflict, match="cannot be asked now"):
        files.folder_list(**given)
    environment_stop(**given)
    for _ in range(2):
        with pytest.raises(Conflict, match="cannot be done while the environment is stopp"):
            files.file_write(**given, path="x", read=BytesIO(b"").read)
        settle(notebook)
    assert (SandboxFile.objects.exists(), written()) == (False, [])


def test_its_files_end_with_it(as_alice: Actor, notebook: Environment) -> None:
    """A stop keeps them."""
    files.file_write(actor=as_alice, environment=notebook, path="x", read=BytesIO(b"x").read)
    environment_stop(actor=as_alice, environment=notebook)
    settle(notebook)
    assert SandboxFile.objects.exists()
    environment_delete(actor=as_alice, environment=notebook)
    settle(notebook)
    assert not SandboxFile.objects.exists()


def test_how_much(as_alice: Actor, notebook: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}
    with pytest.raises(Conflict, match="more than 16 MiB"):
        files.file_write(**given, path="x", read=BytesIO(bytes(FILE_MOST + 1)).read)
    files.file_write(**given, path="x", read=BytesIO(b"x").read)
    SandboxFile.objects.update(content=bytes(FILE_MOST + 1))
    with pytest.raises(Conflict, match="copy it by scp"):
        files.file_read(**given, path="x")
    for path in ("", "../x", "/x"):
        with pytest.raises(Invalid):
            files.file_read(**given, path=path)


def told(notebook: Environment, monkeypatch: pytest.MonkeyPatch, does: Any) -> None:
    """The program in the pod does this instead."""
    assert isinstance(ENVIRONMENTS.at(notebook.site), SandboxEnvironments)
    monkeypatch.setattr(SandboxEnvironments, "run", lambda *given, **named: does)


async def breaks(streams: Streams) -> int:
    await streams.read()
    raise Unavailable("the site ended the connection to the pod")


def test_a_program_that_writes_for_ever_is_cut_off(
    as_alice: Actor, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}

    async def floods(streams: Streams) -> int:
        while True:
            await streams.write(b"/ 81a4 1 0 ./%d\n" * 1000 % tuple(range(1000)), is_error=False)
            await streams.write(b"noise" * 1000, is_error=True)

    told(notebook, monkeypatch, floods)
    found = files.folder_list(**given)
    assert (len(found.entries), found.cut) == (1000, True)
    with pytest.raises(Conflict, match="larger meanwhile"):
        files.file_read(**given, path="x")
    with pytest.raises(Unavailable, match="not known whether"):
        files.file_remove(**given, path="x")
    assert written() == [("environment.file_remove", {"path": "x", "outcome": "not known"})]


def test_one_that_hangs_is_not_waited_for(
    as_alice: Actor, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is no longer under way after it."""

    async def hangs(streams: Streams) -> int:
        while True:
            await streams.read()
            await asyncio.sleep(0.01)

    told(notebook, monkeypatch, hangs)
    monkeypatch.setattr(files, "SECONDS", 0.1)
    for _ in range(files.AT_ONCE + 1):
        with pytest.raises(Unavailable, match="does not answer within"):
            files.folder_list(actor=as_alice, environment=notebook)


def test_what_perhaps_was_done_is_audited(
    as_alice: Actor, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}

    async def hangs(streams: Streams) -> int:
        while True:
            await streams.read()
            await asyncio.sleep(0.01)

    async def refuses(streams: Streams) -> int:
        raise Unavailable("the site's API server does not answer")

    monkeypatch.setattr(files, "SECONDS", 0.1)
    told(notebook, monkeypatch, hangs)
    with pytest.raises(
        Unavailable, match=r"not answer within 0.1 seconds: it is not known whether it was done"
    ):
        files.file_remove(**given, path="x")
    told(notebook, monkeypatch, breaks)
    with pytest.raises(Unavailable, match="ended the connection to the pod: it is not known"):
        files.file_write(**given, path="y", read=BytesIO(b"yes").read)
    told(notebook, monkeypatch, refuses)
    with pytest.raises(Unavailable, match=r"does not answer$"):
        files.file_remove(**given, path="z")
    assert written() == [
        ("environment.file_remove", {"path": "x", "outcome": "not known"}),
        (
            "environment.file_upload",
            {"path": "y", "bytes": 3, "overwrite": False, "outcome": "not known"},
        ),
    ]


def while_under_way(actor: Actor, rows: list[Environment], then: Callable[[], object]) -> None:
    """`then` is done while the actor uploads a file into each of them."""

    def read(most: int) -> bytes:
        while_under_way(actor, rows[1:], then)
        return b""

    if rows:
        files.file_write(actor=actor, environment=rows[0], path=f"file-{len(rows)}", read=read)
    else:
        then()


def test_few_at_once(as_alice: Actor, workspace: Workspace, notebook: Environment, bob: User) -> None:
    """In one environment, and of one person; what is sent is read only where there is a place."""
    more, last = (ready(as_alice, workspace, name, gpus=0) for name in ("more", "last"))
    workspace.members.create(user=bob, role="edit")
    as_bob = actor_for(user=bob)

    def refused(actor: Actor, row: Environment, words: str) -> None:
        with pytest.raises(Unavailable, match=words):
            files.file_write(actor=actor, environment=row, path="x", read=lambda most: pytest.fail("read"))

    def then() -> None:
        refused(as_alice, last, "you have 3 files or folders under way")
        refused(as_bob, notebook, "other files are being copied")
        assert names(as_bob, last) == []

    while_under_way(as_alice, [notebook, notebook, more], then)
    assert names(as_alice, notebook) == ["file-2", "file-3"]


def test_no_site_has_all_places(
    as_alice: Actor, workspace: Workspace, notebook: Environment, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.OF_PERSON < files.OF_SITE < files.AT_ONCE
    monkeypatch.setattr(files, "OF_SITE", 2)
    more = ready(as_alice, workspace, "more", gpus=0)
    workspace.members.create(user=bob, role="edit")

    def then() -> None:
        with pytest.raises(Unavailable, match="other files"):
            files.folder_list(actor=actor_for(user=bob), environment=more)

    while_under_way(as_alice, [notebook, notebook], then)
    assert names(actor_for(user=bob), more) == []


def test_a_new_name_can_be_read(as_alice: Actor, notebook: Environment) -> None:
    """Also where a file may be replaced; an odd one that is there is replaced."""
    given: dict[str, Any] = {
        "actor": as_alice,
        "environment": notebook,
        "path": "odd\x07name",
        "overwrite": True,
    }
    with pytest.raises(Invalid, match="no control characters"):
        files.file_write(**given, read=BytesIO(b"x").read)
    files.file_write(actor=as_alice, environment=notebook, path="x", read=BytesIO(b"x").read)
    SandboxFile.objects.update(path="odd\x07name")
    files.file_write(**given, read=BytesIO(b"new").read)
    assert files.file_read(actor=as_alice, environment=notebook, path="odd\x07name") == b"new"


def test_what_is_moved(as_alice: Actor, notebook: Environment) -> None:
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}
    files.folder_make(**given, path="a")
    files.folder_make(**given, path="a/b")
    files.file_write(**given, path="a/b/c", read=BytesIO(b"x").read)
    files.file_move(**given, path="a", to="ä")
    files.file_move(**given, path="ä/b/c", to="c")
    files.file_move(**given, path="ä/b", to="b")
    assert (names(as_alice, notebook), names(as_alice, notebook, "ä")) == (["b", "ä", "c"], [])
    assert files.file_read(**given, path="c") == b"x"
    for path, to, words in (("c", "b", "already"), ("b", "b/x", "of itself"), ("b", "c/x", "not a folder")):
        with pytest.raises(Conflict, match=words):
            files.file_move(**given, path=path, to=to)
    with pytest.raises(NotFound):
        files.file_move(**given, path="nothing", to="x")
    for to in ("../x", "odd\x07name", ""):
        with pytest.raises(Invalid) as refused:
            files.file_move(**given, path="c", to=to)
        assert list(refused.value.fields) == ["to"]
    assert written()[1:] == [
        ("environment.file_move", {"path": path, "to": to})
        for path, to in (("a", "ä"), ("ä/b/c", "c"), ("ä/b", "b"))
    ]


def test_a_simulated_home_has_an_end(
    as_alice: Actor, notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replaced does not count twice; a list reads no contents."""
    given: dict[str, Any] = {"actor": as_alice, "environment": notebook}
    monkeypatch.setattr(homes, "ROOM", 3 * homes.SHOWN)
    files.file_write(**given, path="x", read=BytesIO(bytes(homes.SHOWN)).read)
    with pytest.raises(Conflict, match="no room left"):
        files.file_write(**given, path="y", read=BytesIO(b"y").read)
    files.file_write(**given, path="x", read=BytesIO(bytes(homes.SHOWN)).read, overwrite=True)
    files.folder_make(**given, path="z")
    with pytest.raises(Conflict, match="no room left"):
        files.folder_make(**given, path="y")
    with CaptureQueriesContext(connection) as asked:
        assert names(as_alice, notebook) == ["z", "x"]
    selected = [each["sql"] for each in asked if "sandbox_sandboxfile" in each["sql"]]
    assert [
        sql for sql in selected if '"content"' in sql.replace('LENGTH("sandbox_sandboxfile"."content")', "")
    ] == []
    assert selected


def test_no_lock_waits_for_the_site(as_alice: Actor, notebook: Environment) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        files.folder_list(actor=as_alice, environment=notebook)

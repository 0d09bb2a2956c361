"""The page of an environment's files."""

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient, Client

from gpuaas.environments.home import FILE_MOST
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_access_set, environment_stop
from gpuaas.providers.sandbox.models import SandboxFile
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.environments.stage import kind, ready
from tests.environments.test_files import breaks, told
from tests.frontend.markup import comes_back, words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_environments import at, room
from tests.lasting import lasting

__all__ = ["room"]
pytestmark = pytest.mark.django_db
EVIL = "<img src=x onerror=alert(1)>.html"


@pytest.fixture
@lasting
def notebook(as_alice: Actor, room: Workspace) -> Environment:
    kind(access=["workspace", "private", "organization"])
    return ready(as_alice, room, gpus=0)


def named(text: bytes, name: str = "notes.txt") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, text)


def test_up_and_down(alice_at: Client, notebook: Environment, project: Project) -> None:
    page, upload = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_upload"))
    assert f'href="{page}"' in alice_at.get(at("environment", project, notebook.pk)).content.decode()
    assert "Nothing is here" in words(alice_at.get(page))
    made = alice_at.post(f"{at('environment_folder_new', project, notebook.pk)}", {"name": "my data"})
    assert (made.status_code, made["Location"]) == (302, page)
    inside = f"{page}?path=my+data"
    assert f'href="{inside}"' in alice_at.get(page).content.decode()
    sent = alice_at.post(f"{upload}?path=my+data", {"file": named(b"one")})
    assert (sent.status_code, sent["Location"]) == (302, inside)
    text = words(alice_at.get(inside))
    assert ("notes.txt uploaded." in text, "3 bytes" in text.replace("\xa0", " ")) == (True, True)
    again = alice_at.post(f"{upload}?path=my+data", {"file": named(b"two")})
    assert (again.status_code, "one of this name already" in words(again)) == (422, True)
    file = f"{at('environment_file', project, notebook.pk)}?path=my+data/notes.txt"
    assert alice_at.get(file).content == b"one"
    sure = {"file": named(b"two"), "overwrite": "on"}
    assert alice_at.post(f"{upload}?path=my+data", sure).status_code == 302
    found = alice_at.get(file)
    assert (found.content, found["X-Content-Type-Options"]) == (b"two", "nosniff")
    assert found["Content-Disposition"] == 'attachment; filename="notes.txt"'
    remove = f"{at('environment_file_remove', project, notebook.pk)}?path=my+data"
    full = alice_at.post(remove)
    assert (full.status_code, full["Location"]) == (302, page)
    assert "not empty" in words(alice_at.get(page))
    gone = alice_at.post(f"{remove}%2Fnotes.txt")
    assert (gone.status_code, gone["Location"]) == (302, inside)
    assert alice_at.post(remove).status_code == 302
    assert not SandboxFile.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_behind_asgi(alice: User, notebook: Environment, project: Project) -> None:
    """As it is served: the program's socket is on the loop, and the request waits in its thread."""
    client = AsyncClient()
    client.force_login(alice)
    page, upload = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_upload"))
    assert async_to_sync(client.post)(upload, {"file": named(b"one")}).status_code == 302
    assert "notes.txt" in async_to_sync(client.get)(page).content.decode()
    file = async_to_sync(client.get)(at("environment_file", project, notebook.pk), {"path": "notes.txt"})
    assert (file.status_code, file.content) == (200, b"one")


def test_a_name_is_text(alice_at: Client, notebook: Environment, project: Project) -> None:
    page, upload = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_upload"))
    assert alice_at.post(upload, {"file": named(b"<script>", EVIL)}).status_code == 302
    text = alice_at.get(page).content.decode()
    assert ("&lt;img" in text, "<img src=x" in text) == (True, False)
    SandboxFile.objects.update(path='a"b&c#d?.txt')
    assert "path=a%22b%26c%23d%3F.txt" in alice_at.get(page).content.decode()
    found = alice_at.get(at("environment_file", project, notebook.pk), {"path": 'a"b&c#d?.txt'})
    assert found["Content-Disposition"] == 'attachment; filename="a\\"b&c#d?.txt"'


def test_what_is_refused_is_said(
    alice_at: Client, as_alice: Actor, notebook: Environment, project: Project
) -> None:
    page, upload = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_upload"))
    new = at("environment_folder_new", project, notebook.pk)
    nothing, large = alice_at.post(upload), alice_at.post(upload, {"file": named(bytes(FILE_MOST + 1))})
    assert (nothing.status_code, "Choose a file." in words(nothing)) == (422, True)
    assert (large.status_code, "more than 16 MiB" in words(large)) == (422, True)
    for name in ("", "..", "a/b", "odd\x07name"):
        assert alice_at.post(new, {"name": name}).status_code == 422, name
    assert alice_at.get(page, {"path": "../x"}).status_code == 400
    assert alice_at.get(page, {"path": "nothing"}).status_code == 404
    environment_stop(actor=as_alice, environment=notebook)
    stopped = alice_at.get(page)
    assert (stopped.status_code, "cannot be done while" in words(stopped)) == (409, True)
    assert page not in alice_at.get(at("environment", project, notebook.pk)).content.decode()
    assert not SandboxFile.objects.exists()


def test_rename_and_move(alice_at: Client, notebook: Environment, project: Project) -> None:
    page, move = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_move"))
    alice_at.post(at("environment_folder_new", project, notebook.pk), {"name": "data"})
    alice_at.post(at("environment_file_upload", project, notebook.pk), {"file": named(b"x")})
    text = alice_at.get(page).content.decode()
    assert (f'action="{move}?path=notes.txt"' in text, 'value="notes.txt"' in text) == (True, True)
    moved = alice_at.post(f"{move}?path=notes.txt", {"to": "data/old.txt"})
    assert (moved.status_code, moved["Location"]) == (302, page)
    assert "notes.txt is now data/old.txt." in words(alice_at.get(page))
    for to, why in (
        ("", "enter a path"),
        ("data", "already"),
        ("../x", "neither . nor .."),
        ("gone/x", "there is no file or folder gone."),
    ):
        refused = alice_at.post(f"{move}?path=data%2Fold.txt", {"to": to})
        assert refused.status_code == 422
        assert not to or comes_back(refused, "move-1", to), to
        assert why in words(refused).lower(), to
        assert f'<a href="{page}?path=data">data</a>' in words(refused), "in its folder"
    assert SandboxFile.objects.filter(path="data/old.txt").exists()


def test_several_at_once(alice_at: Client, notebook: Environment, project: Project) -> None:
    """What is refused of them is named, and the others are there."""
    page, upload = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file_upload"))
    assert " multiple" in alice_at.get(page).content.decode()
    sent = alice_at.post(upload, {"file": [named(b"1", "one"), named(b"2", "two")]})
    assert (sent.status_code, sent["Location"]) == (302, page)
    assert "2 files uploaded." in words(alice_at.get(page))
    again = alice_at.post(upload, {"file": [named(b"x", "two"), named(b"3", "three"), named(b"x", "one")]})
    assert again.status_code == 422
    for text in ("three uploaded.", "of this name already: two.", "of this name already: one."):
        assert text in words(again)
    assert dict(SandboxFile.objects.values_list("path", "content")) == {
        "one": b"1",
        "two": b"2",
        "three": b"3",
    }
    half = bytes(FILE_MOST // 2 + 1)
    large = alice_at.post(upload, {"file": [named(half, "a"), named(half, "b")]})
    assert (large.status_code, "They have more than 16 MiB." in words(large)) == (422, True)
    assert SandboxFile.objects.count() == 3


def test_where_the_site_does_not_answer_one_stays_in_the_folder(
    alice_at: Client, notebook: Environment, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads that it may have been done."""
    page, upload, new, remove = (
        at(f"environment_{name}", project, notebook.pk)
        for name in ("files", "file_upload", "folder_new", "file_remove")
    )
    assert alice_at.post(new, {"name": "data"}).status_code == 302
    for address, sent in (
        (f"{upload}?path=data", {"file": named(b"one")}),
        (f"{new}?path=data", {"name": "more"}),
        (f"{remove}?path=data%2Fnotes.txt", {}),
    ):
        with monkeypatch.context() as away:
            told(notebook, away, breaks)
            tried = alice_at.post(address, sent)
        assert (tried.status_code, tried["Location"]) == (302, f"{page}?path=data")
        assert "it is not known whether it was done" in words(alice_at.get(tried["Location"]))


def test_what_is_too_large_is_no_link(alice_at: Client, notebook: Environment, project: Project) -> None:
    """And what the site refuses to send is a page with the reason, not a failed download."""
    page, file = (at(f"environment_{name}", project, notebook.pk) for name in ("files", "file"))
    assert (
        alice_at.post(at("environment_file_upload", project, notebook.pk), {"file": named(b"x")}).status_code
        == 302
    )
    assert f'<a href="{file}?path=notes.txt">notes.txt</a>' in alice_at.get(page).content.decode()
    SandboxFile.objects.update(content=bytes(FILE_MOST + 1))
    found = alice_at.get(page)
    assert f'href="{file}' not in found.content.decode()
    assert "more than 16 MiB: copy it by scp" in words(found)
    refused = alice_at.get(file, {"path": "notes.txt"})
    assert (refused.status_code, "more than 16 MiB: copy it by scp" in words(refused)) == (409, True)
    assert "Content-Disposition" not in refused


def test_who_may_not(
    as_alice: Actor, notebook: Environment, project: Project, bob: User, charlie: User, dora: User
) -> None:
    notebook.workspace.members.create(user=bob, role="edit")
    page = at("environment_files", project, notebook.pk)
    assert [signed_in(each).get(page).status_code for each in (bob, dora, charlie)] == [200, 403, 404]
    environment_access_set(actor=as_alice, environment=notebook, access="private")
    assert signed_in(bob).get(page).status_code == 403
    assert page not in signed_in(bob).get(at("environment", project, notebook.pk)).content.decode()

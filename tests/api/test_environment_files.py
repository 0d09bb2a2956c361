"""Files of an environment's home by REST."""

import pytest

from gpuaas.environments.home import FILE_MOST
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_stop
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Caller, token_for
from tests.environments.conftest import workspace
from tests.environments.stage import ready

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    return ready(as_alice, workspace, gpus=0)


@pytest.fixture
def place(notebook: Environment) -> str:
    return f"/api/v1/projects/weather-lm/environments/{notebook.pk}/files"


def test_a_file_up_and_down(alice: User, project: Project, place: str) -> None:
    """By a token, and as large as a file may be."""
    program = Caller(token=token_for(alice, project))
    content = bytes(range(256)) * (FILE_MOST // 256)
    assert program.put(f"{place}?path=data", None).status == 204
    assert program.put(f"{place}?path=data", None).status == 409
    assert program.put(f"{place}/content?path=data/big", content).status == 204
    assert program.put(f"{place}/content?path=data/big", content).status == 409
    assert program.put(f"{place}/content?path=data/big&overwrite=true", content).status == 204
    found = program.get(f"{place}/content?path=data/big")
    assert (found.status, found.content == content) == (200, True)
    listed = program.get(f"{place}?path=data").json
    (entry,) = listed["entries"]
    assert (listed["path"], listed["cut"]) == ("data", False)
    assert entry.pop("changed_at")
    assert entry == {"name": "big", "kind": "file", "size": FILE_MOST, "is_link": False, "named": True}
    assert [each["kind"] for each in program.get(place).json["entries"]] == ["folder"]
    assert program.patch(f"{place}?path=data/big", {"to": "data"}).status == 409
    assert program.patch(f"{place}?path=data/big", {"to": "../data"}).status == 400
    assert program.patch(f"{place}?path=data/big", {"to": "data/large"}).status == 204
    assert program.patch(f"{place}?path=data/large", {"to": "data/big"}).status == 204
    assert program.delete(f"{place}?path=data").status == 409
    assert program.delete(f"{place}?path=data/big").status == 204
    assert program.delete(f"{place}?path=data/big").status == 404
    assert program.delete(f"{place}?path=data").status == 204


def test_no_browser_shows_one(alices: Caller, place: str) -> None:
    """Whatever its name says; and a name is no way into the header."""
    names = {
        "page.html": 'attachment; filename="page.html"',
        'a"; filename=b.exe': 'attachment; filename="a\\"; filename=b.exe"',
        "ünï<script>.svg": "attachment; filename*=utf-8''%C3%BCn%C3%AF%3Cscript%3E.svg",
    }
    for name, disposition in names.items():
        at = f"{place}/content?path={name.replace('%', '%25').replace(';', '%3B')}"
        assert alices.put(at, b"<script>alert(1)</script>").status == 204
        found = alices.get(at)
        assert (found.status, found.content) == (200, b"<script>alert(1)</script>")
        assert found.headers["Content-Disposition"] == disposition
        assert found.headers["Content-Type"] == "application/octet-stream"
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "no-store" in found.headers["Cache-Control"]


def test_what_is_refused(alices: Caller, as_alice: Actor, notebook: Environment, place: str) -> None:
    for path in ("..", "../x", "/etc/passwd", "a//b", "a%00b", "%C3%28%FF/.."):
        for method, at in (("GET", place), ("GET", f"{place}/content"), ("PUT", place), ("DELETE", place)):
            assert alices.ask(method, f"{at}?path={path}").status == 400, (method, path)
    assert alices.get(f"{place}/content").status == 400
    assert alices.put(f"{place}?path=new%0Aline", None).status == 400
    assert alices.put(f"{place}/content?path=new%0Aline&overwrite=true", b"").status == 400
    assert alices.get(f"{place}/content?path=nothing").status == 404
    assert alices.put(f"{place}/content?path=x&overwrite=maybe", b"").status == 400
    large = alices.put(f"{place}/content?path=x", bytes(FILE_MOST + 1))
    assert (large.status, large.code, "16 MiB" in large.error["message"]) == (413, "too_large", True)
    environment_stop(actor=as_alice, environment=notebook)
    asleep = alices.get(place)
    assert (asleep.status, "while the environment is stopp" in asleep.error["message"]) == (409, True)

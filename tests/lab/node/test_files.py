"""Files of a home on a real kubelet, up and down, with an image that has BusyBox alone."""

import asyncio
import os
from io import BytesIO
from typing import Any

import pytest

from deploy.lab.node import Lab
from gpuaas.core.errors import Conflict, NotFound
from gpuaas.environments.home import ENTRIES_MOST, FILE_MOST, command
from gpuaas.environments.models import Environment
from gpuaas.environments.services import files
from gpuaas.environments.spec import ENVIRONMENTS, FOR_SPEC, spec_of
from gpuaas.providers.base import FileOver, FileVerb
from tenants.actors import Actor
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import Place
from tests.lab.node.test_environments import bought, unused  # noqa: F401  fixtures
from tests.providers.kubernetes.conftest import Room

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]


@pytest.mark.django_db(transaction=True)
def test_files_in_a_pod_that_runs(
    node_lab: Lab,
    bought: Room,  # noqa: F811
    unused: Environment,  # noqa: F811
    as_alice: Actor,
) -> None:
    """One walk, since the environment takes a minute."""
    place, pod = Place(Kubectl(node_lab.control), bought.spec.external_name), unused.external_name
    given: dict[str, Any] = {"actor": as_alice, "environment": unused}
    content = os.urandom(FILE_MOST)
    files.folder_make(**given, path="-d a'ta\"")
    files.file_write(**given, path="-d a'ta\"/$(id)", read=BytesIO(content).read)
    assert files.file_read(**given, path="-d a'ta\"/$(id)") == content
    (found,) = files.folder_list(**given, path="-d a'ta\"").entries
    assert (found.name, found.kind, found.size) == ("$(id)", "file", FILE_MOST)
    with pytest.raises(Conflict, match="already"):
        files.file_write(**given, path="-d a'ta\"/$(id)", read=BytesIO(b"").read)
    files.file_write(**given, path="-d a'ta\"/$(id)", read=BytesIO(b"").read, overwrite=True)
    assert files.file_read(**given, path="-d a'ta\"/$(id)") == b""
    files.file_move(**given, path="-d a'ta\"/$(id)", to="b")
    files.file_move(**given, path="b", to="-d a'ta\"/$(id)")
    with pytest.raises(Conflict, match="not empty"):
        files.file_remove(**given, path="-d a'ta\"")
    files.file_remove(**given, path="-d a'ta\"/$(id)")
    files.file_remove(**given, path="-d a'ta\"")
    with pytest.raises(NotFound):
        files.file_read(**given, path="-d a'ta\"/$(id)")
    links(given, place, pod)
    many(given, place, pod)
    broken(unused, place, pod)
    place.empty()
    with pytest.raises(Conflict, match="cannot be asked now"):
        files.folder_list(**given)


def links(given: dict[str, Any], place: Place, pod: str) -> None:
    place.execute(
        pod, "cd /home/user && ln -s /etc away && ln -s /etc/passwd names && echo x > a && ln -s a b"
    )
    for path in ("away/passwd", "names"):
        with pytest.raises(Conflict, match="leads out of the home"):
            files.file_read(**given, path=path)
    assert files.file_read(**given, path="b") == b"x\n"


def many(given: dict[str, Any], place: Place, pod: str) -> None:
    place.execute(pod, "mkdir /home/user/many && cd /home/user/many && seq 1 3000 | xargs touch")
    found = files.folder_list(**given, path="many")
    assert (len(found.entries), found.cut) == (ENTRIES_MOST, True)


class Leaves:
    """Whoever uploads, and is gone after a part of it."""

    async def read(self) -> bytes:
        await asyncio.sleep(0.2)
        raise asyncio.CancelledError

    async def write(self, content: bytes, *, is_error: bool) -> None:
        del content, is_error


def broken(row: Environment, place: Place, pod: str) -> None:
    """Nothing of it is left."""
    found = Environment.objects.select_related(*FOR_SPEC).get(pk=row.pk)
    spec = spec_of(found)
    words = command(spec.home, FileVerb.WRITE, ".", "half", "1000", ".gpuaas-half.part", FileOver.NOTHING)

    async def sent() -> None:
        run = ENVIRONMENTS.require(found.site).run(spec, words, terminal=False)
        async with asyncio.timeout(2):
            await run(Leaves())

    with pytest.raises(TimeoutError):
        asyncio.run(sent())
    until(lambda: "half" not in place.execute(pod, "ls -a /home/user"), "nothing is left of it", seconds=30)

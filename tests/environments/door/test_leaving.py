"""Whose leaving ends the connections of an environment: a door on the test's database, without an Envoy."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deploy.embedded.certificate import certificate_make
from gpuaas.core import clock
from gpuaas.core.connections import in_thread
from gpuaas.environments.door import base
from gpuaas.environments.door.desk import PASS, Asked
from gpuaas.environments.door.envoy import ADMIN, LISTENERS, TLS, Place, Route
from gpuaas.environments.door.passes import KEY_PASS_LASTS, USED_AGAIN, key_use
from gpuaas.environments.door.process import OPEN_MOST, Door
from gpuaas.environments.models import DoorKey, DoorPass, Environment
from gpuaas.environments.services import key_create, key_revoke
from gpuaas.environments.services.access import hashed
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.environments import stage
from tests.environments.door.stage import DOMAIN

pytestmark = pytest.mark.django_db(transaction=True)


class People:
    """Of one environment, by keys of it."""

    def __init__(self, door: Door, row: Environment, actor: Actor) -> None:
        self.door, self.row, self.actor = door, row, actor
        self.keys = {name: key_create(actor=actor, environment=row, name=name) for name in ("a", "b", "c")}

    def enter(self, name: str) -> str:
        """The cookie of a pass."""
        return key_use(label=self.row.label or "", key=self.keys[name][1]) or ""

    async def ask(self, *cookies: str) -> None:
        for cookie in cookies:
            headers = {"cookie": f"{PASS}={cookie}"}
            asked = Asked("GET", f"{self.row.label}.{DOMAIN}", "/api", "", headers)
            assert (await self.door.desk.answer(asked)).status == 200

    async def cut(self, *names: str) -> int:
        """How often connections were ended, once these keys are revoked."""
        for name in names:
            await in_thread(key_revoke, actor=self.actor, key=self.keys[name][0])
        return await self.looked()

    async def expire(self, cookie: str) -> int:
        old = DoorPass.objects.filter(cookie=hashed(cookie))
        await in_thread(old.update, created_at=clock.now() - KEY_PASS_LASTS)
        return await self.looked()

    async def looked(self) -> int:
        await self.door._look()
        return self.door.generations.get(self.row.label or "", 0)

    def told(self) -> int:
        """The generation of which Envoy knows."""
        (listener,) = json.loads((self.door.place.folder / LISTENERS).read_text())["resources"]
        names = [chain["name"].partition(".") for chain in listener["filter_chains"]]
        return next(int(generation) for label, _, generation in names if label == self.row.label)


@pytest.fixture
def people(as_alice: Actor, workspace: Workspace, settings: Any, tmp_path: Path) -> People:
    settings.DOOR_DOMAIN = DOMAIN
    settings.DOOR_CERTIFICATE, settings.DOOR_KEY = map(str, certificate_make(tmp_path, DOMAIN))
    (tmp_path / TLS).mkdir()
    row = stage.row_in(workspace, access="public")
    return People(Door(Place(tmp_path, "127.0.0.1", 1, DOMAIN)), row, as_alice)


def test_who_asked_nothing_since_connections_ended_ends_none(people: People) -> None:
    a, b, c = map(people.enter, "abc")

    async def main() -> None:
        await people.ask(a, b, c)
        assert await people.looked() == 0
        assert await people.cut("a") == 1
        assert await people.cut("b") == 1
        await people.ask(c)
        assert await people.cut("c") == 2

    asyncio.run(main())


def test_all_who_leave_at_once_end_connections_once(people: People) -> None:
    cookies = [people.enter(name) for name in "abcabc"]

    async def main() -> None:
        await people.ask(*cookies)
        assert await people.cut("a", "b", "c") == 1

    asyncio.run(main())


@pytest.mark.parametrize("other", ["pass", "key"])
def test_an_old_pass_ends_nothing_while_its_key_admits_another(people: People, other: str) -> None:
    """But connections that it made end with the key, whether or not the other one asks for anything."""
    old, third = people.enter("a"), people.enter("b")
    newer = people.enter("a") if other == "pass" else ""
    program = Asked(
        "GET", f"{people.row.label}.{DOMAIN}", "/", "", {"authorization": f"Bearer {people.keys['a'][1]}"}
    )

    async def main() -> None:
        if newer:
            await people.ask(newer)
        else:
            assert (await people.door.desk.answer(program)).status == 200
        await people.ask(third)
        assert await people.cut("b") == 1
        await people.ask(old)
        assert await people.expire(old) == 1
        assert await people.cut("a") == 2

    asyncio.run(main())


def test_the_last_pass_of_a_key_ends_connections_when_it_is_too_old(people: People) -> None:
    cookie = people.enter("a")

    async def main() -> None:
        await people.ask(cookie)
        assert await people.expire(cookie) == 1
        assert await people.expire(cookie) == 1

    asyncio.run(main())


def test_a_cut_that_could_not_be_written_is_written_by_the_next_look(people: People) -> None:
    cookie, part = people.enter("a"), people.door.place.folder / f"{LISTENERS}.part"

    async def main() -> None:
        await people.ask(cookie)
        await people.looked()
        part.mkdir()
        with suppress(OSError):
            await people.cut("a")
        assert people.told() == 0
        part.rmdir()
        await people.looked()
        assert people.told() == 1

    asyncio.run(main())


def test_a_look_that_finds_nothing_new_writes_nothing_down(people: People, tmp_path: Path) -> None:
    """It would take 60 ms for 200 environments, in which nobody is answered."""
    written: list[int] = []

    class Counted(Place):
        def listeners(self, routes: Iterable[Route]) -> Any:
            written.append(1)
            return super().listeners(routes)

    people.door.place = Counted(tmp_path, "127.0.0.1", 1, DOMAIN)
    cookie = people.enter("a")

    async def main() -> None:
        await people.ask(cookie)
        await people.looked()
        before = len(written)
        await people.looked()
        assert len(written) == before
        await people.cut("a")
        assert len(written) > before

    asyncio.run(main())


def test_a_certificate_that_is_away_keeps_nobody_in(people: People, settings: Any) -> None:
    cookie = people.enter("a")

    async def main() -> None:
        await people.ask(cookie)
        await people.looked()
        settings.DOOR_CERTIFICATE += ".away"
        await people.cut("a")
        assert people.told() == 1

    asyncio.run(main())


def test_a_way_that_cannot_be_made_keeps_nobody_in(people: People) -> None:
    cookie = people.enter("a")
    second = stage.row_in(people.row.workspace, "second")

    async def main() -> None:
        await people.ask(cookie)
        (people.door.place.folder / (second.label or "")).mkdir()
        with suppress(OSError):
            await people.looked()
        await people.cut("a")
        assert people.told() == 1

    asyncio.run(main())


@pytest.mark.parametrize("count", [2, 20])
def test_what_is_noted_of_keys_takes_as_many_queries_for_all(
    people: People, as_alice: Actor, count: int
) -> None:
    hashes = []
    for number in range(count):
        _, secret = key_create(actor=as_alice, environment=people.row, name=f"key-{number}")
        hashes.append(hashed(secret))
    base.noted([people.row.pk], hashes)
    old = clock.now() - USED_AGAIN
    DoorKey.objects.update(last_used_at=old)
    with CaptureQueriesContext(connection) as queries:
        base.noted([people.row.pk], hashes)
    assert len(queries) <= 5
    assert DoorKey.objects.filter(secret_hash__in=hashes, last_used_at__gt=old).count() == count


def test_envoys_administration_that_does_not_answer_holds_up_no_look(people: People) -> None:
    async def main() -> None:
        silent = await asyncio.start_unix_server(lambda *_: None, people.door.place.folder / ADMIN)
        async with asyncio.timeout(OPEN_MOST / 2):
            await people.looked()
        silent.close()

    asyncio.run(main())

"""Programs of this machine in the place of pods: started as a shipped kind says, and reached by the door."""

import asyncio
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from deploy.testing import browser
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_create
from gpuaas.environments.shipped import kinds_ship
from gpuaas.environments.spec import FOR_SPEC, spec_of
from gpuaas.providers.base import EnvironmentSpec
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import User
from tests.environments import stage
from tests.environments.door.stage import Running, host_of
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until

HERE, CHUNK = "127.0.0.1", 1 << 16
VARIABLE = re.compile(r"\$\((\w+)\)")
SECONDS = 120.0


@dataclass
class Pod:
    """heard: all that came in to it by the door."""

    port: int
    home: Path
    heard: bytearray = field(default_factory=bytearray)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far, to = await asyncio.open_connection(HERE, self.port)
        ways = [
            asyncio.create_task(_copied(reader, to, self.heard)),
            asyncio.create_task(_copied(far, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to.close()


async def _copied(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, into: bytearray | None = None
) -> None:
    while part := await reader.read(CHUNK):
        if into is not None:
            into += part
        writer.write(part)
        await writer.drain()


def of_kind(actor: Actor, workspace: Workspace, slug: str) -> Environment:
    """Ready, of a kind that comes with the portal."""
    kinds_ship(actor=SYSTEM)
    row = stage.settle(environment_create(actor=actor, workspace=workspace, kind=slug, name=slug))
    assert row.state == "ready", row.failure
    return row


@contextmanager
def running(row: Environment, program: Sequence[str], home: Path) -> Iterator[Pod]:
    """program: in place of the first word of the kind's command. Until it is as ready as its kind says, at a port and with a home
    of this machine."""
    spec, port = spec_of(Environment.objects.select_related(*FOR_SPEC).get(pk=row.pk)), free_port()
    words = [_here(word, spec, port, home) for word in (*spec.command[1:], *spec.arguments)]
    variables = {name: _here(value, spec, port, home) for name, value in spec.variables.items()}
    environment = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "HOME": str(home), **variables}
    with (
        (home.parent / "program.log").open("wb") as log,
        subprocess.Popen([*program, *words], cwd=home, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: _is_ready(port, spec.readiness), f"{row.name} is ready", seconds=SECONDS)
            yield Pod(port, home)
        finally:
            process.terminate()


def _here(word: str, spec: EnvironmentSpec, port: int, home: Path) -> str:
    word = VARIABLE.sub(lambda found: spec.variables[found[1]], word)
    return word.replace(spec.home, str(home)).replace("0.0.0.0", HERE).replace(str(spec.port), str(port))


def _is_ready(port: int, path: str) -> bool:
    """As a kubelet asks."""
    try:
        with urllib.request.urlopen(f"http://{HERE}:{port}{path}", timeout=5) as answer:
            return bool(200 <= answer.status < 400)
    except OSError:
        return False


def known(door: Running, row: Environment) -> str:
    """Its host, once the door knows it."""
    host = host_of(row)

    def answers() -> bool:
        try:
            return row.label in door.door.ways and door.visitor().ask(host).status == 401
        except OSError:
            return False

    until(answers, "the door knows the environment")
    return host


@contextmanager
def opened(chromium: Browser, door: Running, user: User, host: str) -> Iterator[Page]:
    """A browser of somebody whom the portal has let in; its names of environments lead to this machine."""
    visitor = door.visitor(user)
    assert visitor.opens(host).status == 200
    found = chromium.browser_type.launch(
        executable_path=browser() or "",
        args=["--no-sandbox", f"--host-resolver-rules=MAP *.apps.test {HERE}"],
    )
    try:
        context = found.new_context(ignore_https_errors=True)
        context.set_default_timeout(SECONDS * 1000)
        address = f"https://{host}:{door.port}"
        context.add_cookies(
            [
                {"name": name, "value": value, "url": f"{address}/", "secure": True, "httpOnly": True}
                for name, value in visitor.cookies[host].items()
            ]
        )
        page = context.new_page()
        page.goto(f"{address}/")
        yield page
    finally:
        found.close()

"""A door on the test's database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded.certificate import certificate_make
from gpuaas.environments.models import Environment
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services.members import member_set
from tenants.actors import Actor
from tenants.models import User
from tests.environments import stage
from tests.environments.door.stage import DOMAIN, Running, door_running, host_of
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until


@pytest.fixture
def door(settings: Any, tmp_path: Path, transactional_db: None) -> Iterator[Running]:
    port = free_port()
    settings.DOOR_DOMAIN, settings.DOOR_BIND = f"{DOMAIN}:{port}", ("127.0.0.1", port)
    settings.DOOR_CERTIFICATE, settings.DOOR_KEY = map(str, certificate_make(tmp_path, DOMAIN))
    with door_running(port) as running:
        yield running


@pytest.fixture
def notebook(as_alice: Actor, workspace: Workspace, bob: User) -> Environment:
    """Of alice's; bob may edit the workspace that it is in."""
    member_set(actor=as_alice, workspace=workspace, username=bob.username, role="edit")
    return stage.ready(as_alice, workspace, gpus=0)


@pytest.fixture
def host(door: Running, notebook: Environment) -> str:
    """Of an environment of alice's that the door knows."""
    name = host_of(notebook)
    until(lambda: _answers(door, name), "the door knows the environment")
    return name


def _answers(door: Running, name: str) -> bool:
    try:
        return name.partition(".")[0] in door.door.ways and door.visitor().ask(name).status == 401
    except OSError:
        return False

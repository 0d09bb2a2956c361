"""A ready workspace with four GPUs, 64 vCPUs, 720 GiB of memory and 100 GiB of storage."""

from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.test import override_settings

from gpuaas.catalog.models import Site
from gpuaas.environments.models import Environment
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.environments import stage
from tests.lasting import lasting


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    return stage.workspace_ready(as_alice, project, site)


@pytest.fixture
@lasting
def start(db: None) -> Iterator[None]:
    """The time, for what is made then."""
    with time_machine.travel(stage.START, tick=False):
        yield


@pytest.fixture
def travel(start: None) -> Iterator[time_machine.Traveller]:
    with time_machine.travel(stage.START, tick=False) as found:
        yield found


@pytest.fixture
@lasting
def lab_at_start(start: None, as_alice: Actor, workspace: Workspace) -> Environment:
    stage.kind(activity="jupyter", idle_hours=stage.HOURS)
    with override_settings(DOOR_DOMAIN="apps.test"):
        return stage.ready(as_alice, workspace, gpus=0)


@pytest.fixture
def unused(travel: time_machine.Traveller, lab_at_start: Environment, settings: Any) -> Environment:
    """Ready at START, with a Jupyter that says when it was last used; stopped after HOURS without use."""
    settings.DOOR_DOMAIN = "apps.test"
    return lab_at_start

"""A ready workspace with four GPUs, 64 vCPUs, 720 GiB of memory and 100 GiB of storage."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs import stage
from tests.lasting import lasting


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    return stage.workspace_ready(as_alice, project, site)

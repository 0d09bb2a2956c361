"""The worker is killed by SIGKILL at every boundary of a visit, and the next one comes to the same end: one machine."""

import pytest

from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.kills import everywhere
from tests.workspaces.machines import killed

pytestmark = pytest.mark.django_db(transaction=True)


def test_killed_anywhere_there_is_one_machine_and_one_stop(as_bob: Actor, workspace: Workspace) -> None:
    killed.launch_stop_and_deletion(everywhere, actor=as_bob, workspace=workspace)

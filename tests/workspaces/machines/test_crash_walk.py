"""The worker is killed by SIGKILL in three places of a visit; test_crash.py does it at every boundary."""

import pytest

from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.kills import in_three_places
from tests.workspaces.machines import killed

pytestmark = pytest.mark.django_db(transaction=True)


def test_killed_there_is_one_machine_and_one_stop(as_bob: Actor, workspace: Workspace) -> None:
    killed.launch_stop_and_deletion(in_three_places, actor=as_bob, workspace=workspace)

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.lasting import lasting
from tests.metering.stage import workspace_make


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    """alice's, with 8 × h100.1 at ber-1."""
    return workspace_make(project, h100, alice)

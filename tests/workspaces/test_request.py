"""Asking for a workspace: what is written, and everything that is refused."""

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.services import workspace_request
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give


@pytest.mark.django_db
def test_a_request_reserves_and_waits_for_the_reconciler(
    as_alice: Actor, project: Project, h100: Flavor
) -> None:
    limits_give(project)

    workspace = workspace_request(actor=as_alice, project=project, name="train", items=[("h100.1", 2)])

    assert workspace.state == "requested"

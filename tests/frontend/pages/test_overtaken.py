"""What another change overtook has not failed: pages of every kind say which change that was."""

import pytest
from django.test import Client

from frontend.presenters.held import url_of
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services import cluster_delete
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_delete, environment_stop
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import offered, order
from tests.environments.stage import ready as environment_ready
from tests.environments.stage import workspace_ready
from tests.factories.quotas import limits_give
from tests.frontend.markup import words

pytestmark = pytest.mark.django_db


def overtaken(row: Workspace | Cluster | Environment, client: Client, what: str) -> None:
    page = words(client.get(url_of(row)))
    earlier = page[page.index("Earlier:") :][:200]
    assert f"{what} ended by the deletion after" in earlier
    assert "failed after" not in page


def test_a_stop_of_an_environment(alice_at: Client, as_alice: Actor, project: Project, site: Site) -> None:
    row = environment_ready(as_alice, workspace_ready(as_alice, project, site, h100s=2))
    environment_stop(actor=as_alice, environment=row)
    overtaken(environment_delete(actor=as_alice, environment=row), alice_at, "stop")


def test_a_suspension_of_a_workspace(alice_at: Client, as_alice: Actor, project: Project, site: Site) -> None:
    row = workspace_ready(as_alice, project, site, h100s=2)
    workspace_suspend(actor=as_alice, workspace=row)
    overtaken(workspace_delete(actor=as_alice, workspace=row), alice_at, "suspension")


def test_the_order_of_a_cluster(
    alice_at: Client, as_olga: Actor, as_alice: Actor, project: Project, site: Site
) -> None:
    limits_give(project)
    offered(as_olga, site)
    row = order(as_alice, project)
    overtaken(cluster_delete(actor=as_alice, cluster=row), alice_at, "creation")

"""kill -9 of the worker of a cluster of two sites in three places; test_burst_crash.py does it around every call to either."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters import burst_killed
from tests.kills import in_three_places

pytestmark = pytest.mark.django_db(transaction=True)


def test_scaling_out_and_back_survives_a_kill(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    burst_killed.scaling_out_and_back(
        in_three_places, actor=as_alice, project=project, site=site, cloud=cloud
    )


def test_creation_and_deletion_survive_a_kill(
    as_alice: Actor, project: Project, bursting: ClusterTemplate, site: Site, cloud: Site
) -> None:
    burst_killed.creation_and_deletion(
        in_three_places, actor=as_alice, project=project, site=site, cloud=cloud
    )

"""kill -9 of the worker in three places of create, scale, upgrade, sleep and delete; test_crash.py does it at every boundary."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters import killed
from tests.kills import in_three_places

pytestmark = pytest.mark.django_db(transaction=True)


def test_creation_survives_a_kill(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.creation(in_three_places, actor=as_alice, project=project, site=site)


def test_scaling_survives_a_kill(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.scaling(in_three_places, actor=as_alice, project=project, site=site)


def test_an_upgrade_survives_a_kill(
    as_alice: Actor, as_olga: Actor, project: Project, roomy: ClusterTemplate
) -> None:
    killed.upgrade(in_three_places, actor=as_alice, olga=as_olga, project=project, template=roomy)


def test_sleep_and_waking_survive_a_kill(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.sleep_and_waking(in_three_places, actor=as_alice, project=project, site=site)


def test_the_end_of_a_lease_survives_a_kill(
    as_alice: Actor, project: Project, roomy: ClusterTemplate
) -> None:
    killed.end_of_lease(in_three_places, actor=as_alice, project=project)


def test_deletion_survives_a_kill(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.deletion(in_three_places, actor=as_alice, project=project, site=site)

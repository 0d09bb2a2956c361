"""kill -9 of the worker at every boundary of create, scale, upgrade, sleep and delete: the next worker comes to the same end, with one
cluster and a ledger that says what is at the site."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters import killed
from tests.kills import everywhere

pytestmark = pytest.mark.django_db(transaction=True)


def test_creation_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.creation(everywhere, actor=as_alice, project=project, site=site)


def test_scaling_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.scaling(everywhere, actor=as_alice, project=project, site=site)


def test_an_upgrade_survives_a_kill_anywhere(
    as_alice: Actor, as_olga: Actor, project: Project, roomy: ClusterTemplate
) -> None:
    killed.upgrade(everywhere, actor=as_alice, olga=as_olga, project=project, template=roomy)


def test_sleep_and_waking_survive_a_kill_anywhere(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.sleep_and_waking(everywhere, actor=as_alice, project=project, site=site)


def test_the_end_of_a_lease_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, roomy: ClusterTemplate
) -> None:
    killed.end_of_lease(everywhere, actor=as_alice, project=project)


def test_deletion_survives_a_kill_anywhere(
    as_alice: Actor, project: Project, roomy: ClusterTemplate, site: Site
) -> None:
    killed.deletion(everywhere, actor=as_alice, project=project, site=site)

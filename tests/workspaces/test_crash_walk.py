"""kill -9 of the worker in three places of create, resize, sleep and delete; test_crash.py does it at every boundary."""

import pytest

from gpuaas.catalog.models import Site
from tenants.actors import Actor
from tenants.models import Project
from tests.kills import in_three_places
from tests.workspaces import killed

pytestmark = pytest.mark.django_db(transaction=True)


def test_creation_survives_a_kill(as_alice: Actor, project: Project, site: Site) -> None:
    killed.creation(in_three_places, actor=as_alice, project=project, site=site)


def test_a_resize_survives_a_kill(as_alice: Actor, project: Project, site: Site) -> None:
    killed.resize(in_three_places, actor=as_alice, project=project, site=site)


def test_sleep_and_waking_survive_a_kill(as_alice: Actor, project: Project, site: Site) -> None:
    killed.sleep_and_waking(in_three_places, actor=as_alice, project=project, site=site)


def test_the_end_of_a_lease_survives_a_kill(as_alice: Actor, project: Project, site: Site) -> None:
    killed.end_of_lease(in_three_places, actor=as_alice, project=project, site=site)


def test_deletion_survives_a_kill(as_alice: Actor, project: Project, site: Site) -> None:
    killed.deletion(in_three_places, actor=as_alice, project=project, site=site)

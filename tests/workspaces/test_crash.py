"""kill -9 of the worker at every boundary: the next worker comes to the same end, with one namespace and no orphan."""

import pytest

from gpuaas.catalog.models import Site
from tenants.actors import Actor
from tenants.models import Project
from tests.kills import everywhere
from tests.workspaces import killed

pytestmark = pytest.mark.django_db(transaction=True)


def test_creation_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    killed.creation(everywhere, actor=as_alice, project=project, site=site)


def test_a_resize_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    killed.resize(everywhere, actor=as_alice, project=project, site=site)


def test_sleep_and_waking_survive_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    killed.sleep_and_waking(everywhere, actor=as_alice, project=project, site=site)


def test_the_end_of_a_lease_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    killed.end_of_lease(everywhere, actor=as_alice, project=project, site=site)


def test_deletion_survives_a_kill_anywhere(as_alice: Actor, project: Project, site: Site) -> None:
    killed.deletion(everywhere, actor=as_alice, project=project, site=site)

"""What lasts: it is kept between tests, and none of them meets what another has done to it."""

import pytest

from gpuaas.catalog.models import Site
from tenants.actors import Actor
from tenants.models import Project
from tests.lasting import Lasting, asked, lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def renamed(project: Project, as_alice: Actor) -> Project:
    """By somebody who has it from another fixture, which has to see it, too."""
    project.name = f"of {as_alice.name}"
    project.save()
    return project


@pytest.mark.parametrize("number", range(3))
def test_each_test_meets_it_as_it_was_made(
    number: int, renamed: Project, project: Project, request: pytest.FixtureRequest
) -> None:
    assert renamed is project
    assert (renamed.name, Project.objects.get().name) == ("of alice", "of alice")
    renamed.name = f"another {number}"
    renamed.save()
    plugin = request.config.pluginmanager.get_plugin("lasting")
    assert isinstance(plugin, Lasting)
    kept = [layer.definition.argname for layer in plugin.layers]
    assert kept == ["organization", "project", "alice", "as_alice", "renamed"]


def test_what_another_test_does_not_ask_for_is_not_there(site: Site) -> None:
    assert not Project.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_test_that_commits_has_its_own(renamed: Project, request: pytest.FixtureRequest) -> None:
    assert isinstance(request.node, pytest.Function)
    assert asked(request.node) == []
    assert renamed.name == "of alice"

"""The stage stands: the cast has the rights the tests rely on."""

from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import projects_for


def test_cast(
    as_alice: Actor,
    as_bob: Actor,
    as_charlie: Actor,
    as_olga: Actor,
    project: Project,
    other_project: Project,
) -> None:
    assert list(projects_for(actor=as_alice)) == [project]
    assert list(projects_for(actor=as_bob)) == [project]
    assert list(projects_for(actor=as_charlie)) == [other_project]
    assert set(projects_for(actor=as_olga)) == {project, other_project}
    assert Permission.PLATFORM_MANAGE in as_olga.on_platform()
    assert not as_alice.on_platform()

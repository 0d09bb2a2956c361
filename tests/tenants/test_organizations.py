"""Organizations and projects: who may make them, and what is refused."""

import pytest

from gpuaas.core.errors import Forbidden, Invalid, NotFound
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Organization, Project, User
from tenants.selectors import actor_for
from tenants.services import organization_create, organization_update, project_create, project_update


def test_operator_makes_an_organization_with_an_owner(as_olga: Actor, charlie: User) -> None:
    made = organization_create(actor=as_olga, slug="physics", name=" Physics ", owner=charlie)
    assert made.name == "Physics"
    project = project_create(actor=actor_for(user=charlie), organization=made, slug="quarks", name="Quarks")
    assert project.organization == made
    entry = AuditEntry.objects.get(action="organization.create")
    assert (entry.actor, entry.after) == (
        "olga",
        {"slug": "physics", "name": "Physics", "owner": "charlie"},
    )


def test_only_operators_make_organizations(as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        organization_create(actor=as_alice, slug="mine", name="Mine")


def test_projects_are_made_by_owners(
    as_bob: Actor, as_charlie: Actor, as_alice: Actor, organization: Organization
) -> None:
    for outsider in (as_bob, as_charlie):
        with pytest.raises(NotFound):
            project_create(actor=outsider, organization=organization, slug="theirs", name="Theirs")
    made = project_create(actor=as_alice, organization=organization, slug="ours", name="Ours")
    assert made.organization == organization


@pytest.mark.parametrize("slug", ["", "Über", "a" * 41, "-a", "a-", "a b", "weather-lm", "a\n"])
def test_bad_or_taken_slugs_are_refused(as_alice: Actor, project: Project, slug: str) -> None:
    with pytest.raises(Invalid) as refused:
        project_create(actor=as_alice, organization=project.organization, slug=slug, name="X")
    assert "slug" in refused.value.fields
    assert Project.objects.count() == 1


def test_renaming_is_versioned_and_audited(as_alice: Actor, as_bob: Actor, project: Project) -> None:
    version = project.version
    renamed = project_update(actor=as_alice, project=project, name="Weather")
    assert (renamed.name, renamed.version) == ("Weather", version + 1)
    organization_update(actor=as_alice, organization=project.organization, name="Climate")
    assert AuditEntry.objects.get(action="project.update").before == {"name": "Weather LM"}
    with pytest.raises(Forbidden):
        project_update(actor=as_bob, project=project, name="Bob's")
    with pytest.raises(Invalid):
        project_update(actor=as_alice, project=project, name=" ")


def test_the_portal_itself_may_do_everything(db: None) -> None:
    assert organization_create(actor=SYSTEM, slug="demo", name="Demo").name == "Demo"

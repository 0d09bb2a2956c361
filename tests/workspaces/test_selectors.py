"""What people see, and at what cost."""

from datetime import timedelta

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.workspaces.models import Step
from gpuaas.workspaces.selectors import estimate, timeline, workspace_get_for, workspaces_for
from gpuaas.workspaces.states import OperationKind, WorkspaceState
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import actor_for
from tests.factories.tenants import OrganizationMembershipFactory, UserFactory
from tests.workspaces.stage import ready, request

pytestmark = pytest.mark.django_db


def test_people_see_their_own_projects_only(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, as_olga: Actor, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)

    for actor in (as_alice, as_bob, as_olga):
        assert list(workspaces_for(actor=actor)) == [workspace]
    assert list(workspaces_for(actor=as_charlie)) == []
    with pytest.raises(NotFound):
        workspace_get_for(actor=as_charlie, workspace_id=workspace.pk)
    payer = UserFactory.create()
    OrganizationMembershipFactory.create(organization=project.organization, user=payer, role="billing")
    with pytest.raises(Forbidden):
        workspace_get_for(actor=actor_for(user=payer), workspace_id=workspace.pk)
    found = workspace_get_for(actor=as_bob, workspace_id=workspace.pk, permission=Permission.WORKSPACE_CREATE)
    assert found == workspace


def test_lists_cost_the_same_at_any_length(
    as_alice: Actor, project: Project, site: Site, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(8):
        request(as_alice, project, name=f"n-{number}", h100s=1)

    with django_assert_num_queries(4):
        for row in workspaces_for(actor=as_alice, project=project, search="n-"):
            assert row.project.organization.slug == "climate"
            assert row.site.slug == "ber-1"
            assert [item.flavor.pool.gpu_type.slug for item in row.flavors.all()] == ["h100-sxm-80gb"]
            assert [member.user.username for member in row.members.all()] == ["alice"]
    assert workspaces_for(actor=as_alice, states=[WorkspaceState.READY]).count() == 0


def test_the_timeline_knows_what_is_usual(
    as_alice: Actor, project: Project, site: Site, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert estimate(site=site) is None
    for number, seconds in enumerate([2, 4, 30]):
        made = ready(as_alice, project, site, name=f"n-{number}", h100s=1)
        for step in Step.objects.filter(operation__workspace=made, key="namespace"):
            assert step.started_at is not None
            step.finished_at = step.started_at + timedelta(seconds=seconds)
            step.save()
    workspace = request(as_alice, project, name="new", h100s=1)

    with django_assert_num_queries(3):
        views = timeline(workspace=workspace)

    usual = {view.step.key: view.usual_seconds for view in views[0].steps}
    assert usual["namespace"] == 4.0
    remaining, whole = views[0].remaining_seconds, estimate(site=site)
    assert remaining is not None
    assert remaining >= 4.0
    assert whole is not None
    assert whole >= 4.0
    assert estimate(site=site, kind=OperationKind.DELETE) is None

"""Who may change a workspace, in which version, and the end of leases."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from pytest_django import Settings

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused, StaleVersion
from gpuaas.workspaces.lease import leases_enforce
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    member_set,
    workspace_delete,
    workspace_extend,
    workspace_resize,
    workspace_resume,
    workspace_retry,
)
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import actor_for
from tests.factories.quotas import counters_must_match, limits_give
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.workspaces.stage import ready, request, run_now, settle

pytestmark = pytest.mark.django_db
H100 = "gpu:h100-sxm-80gb"

CHANGES: list[Callable[[Actor, Workspace], object]] = [
    lambda actor, row: workspace_resize(actor=actor, workspace=row, items=[("h100.1", 3)]),
    lambda actor, row: workspace_delete(actor=actor, workspace=row),
    lambda actor, row: workspace_retry(actor=actor, workspace=row),
    lambda actor, row: workspace_extend(actor=actor, workspace=row, lease_ends_at=now() + timedelta(days=90)),
    lambda actor, row: member_set(actor=actor, workspace=row, username="alice", role="view"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_outsiders_find_nothing_and_viewers_are_refused(
    as_alice: Actor,
    as_charlie: Actor,
    project: Project,
    site: Site,
    change: Callable[[Actor, Workspace], object],
) -> None:
    workspace = request(as_alice, project)
    viewer = UserFactory.create()
    ProjectMembershipFactory.create(project=project, user=viewer, role="viewer")

    with pytest.raises(NotFound):
        change(as_charlie, workspace)
    with pytest.raises(Forbidden):
        change(actor_for(user=viewer), workspace)
    workspace.refresh_from_db()
    assert (workspace.state, workspace.version) == ("requested", 1)


def test_a_stale_version_changes_nothing(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    stale = workspace.version - 1

    with pytest.raises(StaleVersion) as error:
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)], expected_version=stale)
    with pytest.raises(StaleVersion):
        workspace_delete(actor=as_alice, workspace=workspace, expected_version=stale)

    assert error.value.detail == {"version": workspace.version}
    assert run_now(workspace).state == "ready"


def test_a_resize_beyond_the_limit_leaves_all_as_it_was(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    limits_give(project, {H100: 4})

    with pytest.raises(QuotaRefused):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 5)])

    workspace.refresh_from_db()
    assert workspace.state == "ready"
    assert workspace.flavors.get().count == 2
    assert workspace.operations.count() == 1
    counters_must_match()


def test_a_resize_to_the_same_is_refused(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    with pytest.raises(Invalid):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 2)])


def test_a_retired_flavor_is_kept_but_does_not_grow(
    as_alice: Actor, project: Project, site: Site, h100: Flavor
) -> None:
    workspace = ready(as_alice, project, site)
    Flavor.objects.filter(pk=h100.pk).update(state="retired")
    with pytest.raises(Invalid):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])

    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    assert settle(workspace).state == "ready"


def test_a_lease_is_extended_forward_only(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = request(as_alice, project)
    until = workspace.lease_ends_at + timedelta(days=10)

    row = workspace_extend(actor=as_alice, workspace=workspace, lease_ends_at=until)

    assert (row.lease_ends_at, row.version) == (until, 2)
    for wrong in (until, now() - timedelta(days=1), now() + timedelta(days=366)):
        with pytest.raises(Invalid):
            workspace_extend(actor=as_alice, workspace=workspace, lease_ends_at=wrong)
    workspace_delete(actor=as_alice, workspace=workspace)
    with pytest.raises(Conflict):
        workspace_extend(actor=as_alice, workspace=workspace, lease_ends_at=until + timedelta(days=1))


def test_a_lease_ends_with_a_warning_sleep_and_deletion(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    end = workspace.lease_ends_at

    def at(moment: timedelta) -> tuple[int, str, str]:
        clock.move_to(end + moment)
        touched = leases_enforce(now=now())
        workspace.refresh_from_db()
        return touched, workspace.state, workspace.conditions.get("LeaseEnding", {}).get("reason", "")

    with time_machine.travel(end - timedelta(days=5), tick=False) as clock:
        assert at(timedelta(days=-4)) == (0, "ready", "")
        assert at(timedelta(days=-2)) == (1, "ready", "LeaseEndsSoon")
        assert at(timedelta(days=-1)) == (0, "ready", "LeaseEndsSoon")
        run_now(workspace)
        assert at(timedelta(minutes=1)) == (1, "suspending", "LeaseOver")
        assert settle(workspace).state == "suspended"
        assert Limit.objects.get(project=project, resource=H100).used == 0
        assert at(timedelta(days=7)) == (0, "suspended", "LeaseOver")
        assert at(timedelta(days=7, minutes=1)) == (1, "deleting", "LeaseOver")
        assert settle(workspace).state == "deleted"
    assert Limit.objects.get(project=project, resource=H100).used == 0


def test_in_grace_it_is_extended_and_then_woken(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    with time_machine.travel(workspace.lease_ends_at + timedelta(days=1)):
        leases_enforce(now=now())
        row = settle(workspace)
        assert (row.state, row.transitions.filter(new="suspending").get().reason) == (
            "suspended",
            "the lease ended",
        )
        with pytest.raises(Conflict, match="extend it"):
            workspace_resume(actor=as_alice, workspace=row)
        workspace_extend(actor=as_alice, workspace=row, lease_ends_at=now() + timedelta(days=30))
        assert leases_enforce(now=now()) == 0
        assert run_now(row).state == "suspended"
        row = settle(workspace_resume(actor=as_alice, workspace=row))
    assert row.state == "ready"
    assert "LeaseEnding" not in row.conditions


def test_the_grace_is_a_setting(as_alice: Actor, project: Project, site: Site, settings: Settings) -> None:
    workspace = ready(as_alice, project, site)
    settings.LEASE_GRACE_DAYS = 2
    with time_machine.travel(workspace.lease_ends_at + timedelta(days=1), tick=False) as clock:
        leases_enforce(now=now())
        assert settle(workspace).state == "suspended"
        clock.shift(timedelta(days=2))
        leases_enforce(now=now())
        assert settle(workspace).state == "deleted"


def test_a_lease_that_ends_in_a_resize_is_ended_after_it(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    with time_machine.travel(workspace.lease_ends_at - timedelta(minutes=1), tick=False) as clock:
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])
        clock.shift(timedelta(minutes=2))
        leases_enforce(now=now())
        assert settle(workspace).state == "ready"
        leases_enforce(now=now())
        assert settle(workspace).state == "suspended"


def test_extending_takes_the_warning_away(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    leases_enforce(now=workspace.lease_ends_at - timedelta(days=1))

    row = workspace_extend(actor=as_alice, workspace=workspace, lease_ends_at=now() + timedelta(days=60))

    assert "LeaseEnding" not in row.conditions

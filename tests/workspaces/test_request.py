"""Asking for a workspace: what is written, and everything that is refused without a trace."""

from datetime import timedelta
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, GpuaasError, Invalid, NoCapacity, NotFound, QuotaRefused
from gpuaas.workspaces.models import Operation, Workspace
from gpuaas.workspaces.services import workspace_request
from quotas.models import Reservation
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import counters_must_match, limits_give
from tests.factories.tenants import ProjectMembershipFactory, UserFactory
from tests.workspaces.stage import request

pytestmark = pytest.mark.django_db


def nothing_changed() -> None:
    assert not Workspace.objects.exists()
    assert not Operation.objects.exists()
    assert not Reservation.objects.exists()
    assert not AuditEntry.objects.exists()
    counters_must_match()


def test_a_request_reserves_and_waits_for_the_reconciler(
    as_bob: Actor, bob: User, project: Project, h100: Flavor
) -> None:
    workspace = request(as_bob, project)

    assert (workspace.state, workspace.created_by, workspace.site) == ("requested", bob, h100.pool.site)
    assert workspace.lease_ends_at - workspace.created_at == timedelta(days=28)
    assert [(row.user, row.role) for row in workspace.members.all()] == [(bob, "admin")]
    steps = list(workspace.operations.get().steps.values_list("key", "state"))
    assert steps[0] == ("admission", "done")
    assert {state for _, state in steps[1:]} == {"waiting"}
    held = dict(Reservation.objects.values_list("resource", "amount"))
    assert held == {"gpu:h100-sxm-80gb": 2, "vcpu": 32, "memory": 360, "storage": 100}
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_name) == ("workspace.request", "bob", "train")
    assert workspace.due_at == workspace.created_at


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "x" * 41}),
        ("name", {"name": "n" * 300}),
        ("name", {"name": "Train"}),
        ("name", {"name": "tränen"}),
        ("name", {"name": "-a"}),
        ("name", {"name": "a\n"}),
        ("name", {"name": 7}),
        ("items", {"items": []}),
        ("items", {"items": [("none.such", 1)]}),
        ("items", {"items": [("h100.1\x00", 1)]}),
        ("items", {"items": [("x" * 300, 1)]}),
        ("items", {"items": [("h100.1", 0)]}),
        ("items", {"items": [("h100.1", -1)]}),
        ("items", {"items": [("h100.1", 1001)]}),
        ("items", {"items": [("h100.1", 1.0)]}),
        ("items", {"items": [("h100.1", True)]}),
        ("items", {"items": [("h100.1", "2")]}),
        ("items", {"items": [("h100.1", 10**30)]}),
        ("items", {"items": [("h100.1", 1), ("h100.1", 1)]}),
        ("items", {"items": [("h100.1", 1), ("l40s.1", 1)]}),
        ("storage_gib", {"storage_gib": -1}),
        ("storage_gib", {"storage_gib": 1.5}),
        ("storage_gib", {"storage_gib": 10**9}),
        ("lease_ends_at", {"lease_ends_at": now() - timedelta(days=1)}),
        ("lease_ends_at", {"lease_ends_at": now() + timedelta(days=400)}),
        ("lease_ends_at", {"lease_ends_at": "tomorrow"}),
        ("members", {"members": [("nobody", "admin")]}),
        ("members", {"members": [("charlie", "admin")]}),
        ("members", {"members": [("alice", "king")]}),
        ("members", {"members": [("alice", "admin"), ("alice", "view")]}),
    ],
)
def test_bad_input_names_its_field(
    as_alice: Actor, as_charlie: Actor, project: Project, site: Site, field: str, changes: dict[str, Any]
) -> None:
    limits_give(project)
    wish: dict[str, Any] = {"name": "train", "items": [("h100.1", 1)], **changes}

    with pytest.raises(Invalid) as invalid:
        workspace_request(actor=as_alice, project=project, **wish)

    assert list(invalid.value.fields) == [field]
    nothing_changed()


@pytest.mark.parametrize("state", ["draft", "retired"])
def test_what_is_not_on_offer_looks_unknown(
    as_alice: Actor, project: Project, h100: Flavor, state: str
) -> None:
    Flavor.objects.filter(pk=h100.pk).update(state=state)
    with pytest.raises(Invalid, match=r"no flavor 'h100\.1' on offer"):
        request(as_alice, project)


def test_flavors_of_two_sites_do_not_mix(as_alice: Actor, project: Project, h100: Flavor) -> None:
    limits_give(project)
    elsewhere = FlavorFactory.create(pool__site__slug="ham-1")
    with pytest.raises(Invalid, match="at one site"):
        workspace_request(
            actor=as_alice, project=project, name="a", items=[("h100.1", 1), (elsewhere.slug, 1)]
        )


def test_a_viewer_is_refused_and_an_outsider_finds_nothing(
    as_charlie: Actor, project: Project, site: Site
) -> None:
    viewer = UserFactory.create()
    ProjectMembershipFactory.create(project=project, user=viewer, role="viewer")
    refusals: list[tuple[Actor, type[GpuaasError]]] = [
        (as_charlie, NotFound),
        (actor_for(user=viewer), Forbidden),
    ]
    limits_give(project)
    for actor, refusal in refusals:
        with pytest.raises(refusal):
            workspace_request(actor=actor, project=project, name="train", items=[("h100.1", 1)])
    nothing_changed()


def test_beyond_the_limit_nothing_is_left_behind(as_alice: Actor, project: Project, site: Site) -> None:
    limits_give(project, {"gpu:h100-sxm-80gb": 1})
    with pytest.raises(QuotaRefused):
        workspace_request(actor=as_alice, project=project, name="train", items=[("h100.1", 2)])
    limits_give(project, {"gpu:h100-sxm-80gb": None})
    with pytest.raises(NoCapacity):
        workspace_request(actor=as_alice, project=project, name="train", items=[("h100.1", 17)])
    nothing_changed()


def test_a_name_is_taken_once_per_project(as_alice: Actor, project: Project, site: Site) -> None:
    request(as_alice, project)
    with pytest.raises(Conflict) as conflict:
        request(as_alice, project)
    assert conflict.value.detail == {"field": "name"}
    assert Reservation.objects.filter(resource="vcpu").count() == 1
    counters_must_match()

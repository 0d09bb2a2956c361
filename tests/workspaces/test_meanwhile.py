"""What happens beside a change that is under way: people leave while the site is waited for."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core import clock
from gpuaas.providers.sandbox.dials import failure_plan
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import (
    member_remove,
    member_set,
    workspace_delete,
    workspace_look,
    workspace_resize,
)
from tenants.actors import Actor
from tenants.models import Project, User
from tests.factories.quotas import counters_must_match
from tests.workspaces.stage import members_at_site, ready, request, run_now, settle

pytestmark = pytest.mark.django_db


def test_who_is_cut_while_a_shrink_waits_for_pods_is_out_at_once(
    as_alice: Actor, bob: User, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site, h100s=2)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    run_now(workspace)
    pod_create(site.pk, workspace.external_name, "both", 2)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    workspace = run_now(workspace)
    assert workspace.conditions["Progressing"]["reason"] == "InUse"

    member_remove(actor=as_alice, workspace=workspace, username="bob")
    workspace = run_now(workspace)

    assert members_at_site(site) == {"alice": "admin"}
    assert workspace.state == "resizing"
    pod_delete(site.pk, workspace.external_name, "both")
    assert settle(workspace).state == "ready"
    assert members_at_site(site) == {"alice": "admin"}


def test_a_shrink_that_waits_for_pods_is_taken_back(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site, h100s=2)
    pod_create(site.pk, workspace.external_name, "both", 2)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    workspace = run_now(workspace)
    assert workspace.conditions["Progressing"]["reason"] == "InUse"

    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 2)])
    workspace = settle(workspace)

    assert workspace.state == "ready"
    assert [item.confirmed for item in workspace.flavors.all()] == [2]
    taken_back, done = workspace.operations.filter(kind="resize").order_by("pk")
    assert (taken_back.succeeded, done.succeeded) == (None, True)
    assert workspace.holdings.filter(meter="gpu_held").count() == 1, "it was held all the time"
    counters_must_match()


def charged(workspace: Workspace) -> dict[str, int]:
    """By flavor, and storage in GiB."""
    rows = workspace.holdings.filter(ended_at=None, meter__in=["gpu_held", "storage_held"])
    return {slug or "storage": amount for slug, amount in rows.values_list("flavor__slug", "quantity")}


@pytest.fixture
def apart(site: Site) -> Site:
    """The site counts its two GPU types by two names, so that a workspace can change from one to the other."""
    GpuPool.objects.filter(site=site, gpu_type__slug="l40s-48gb").update(resource_name="nvidia.com/l40s")
    return site


def test_what_a_resize_has_given_is_charged_while_it_waits_for_pods(
    as_alice: Actor, project: Project, apart: Site
) -> None:
    """The site gives what is new at once, and the tenant alone decides how long the old GPUs are used."""
    workspace = ready(as_alice, project, apart, h100s=2)
    pod_create(apart.pk, workspace.external_name, "train", 1)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("l40s.1", 8)], storage_gib=900)
    workspace = run_now(workspace)
    assert workspace.conditions["Progressing"]["reason"] == "InUse"
    room = SandboxNamespace.objects.get(owner=workspace.pk)
    assert room.quotas.get(resource="nvidia.com/l40s").hard == 8
    assert charged(workspace) == {"h100.1": 2, "l40s.1": 8, "storage": 900}
    assert charged(run_now(workspace)) == {"h100.1": 2, "l40s.1": 8, "storage": 900}
    assert workspace.holdings.count() == workspace.holdings.filter(ended_at=None).count() + 3

    pod_delete(apart.pk, workspace.external_name, "train")
    workspace = settle(workspace)
    assert (workspace.state, charged(workspace)) == ("ready", {"l40s.1": 8, "storage": 900})
    counters_must_match()


def test_a_resize_that_fails_after_it_has_waited_is_charged_no_more(
    as_alice: Actor, project: Project, apart: Site
) -> None:
    workspace = ready(as_alice, project, apart, h100s=2)
    pod_create(apart.pk, workspace.external_name, "train", 1)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("l40s.1", 8)])
    workspace = run_now(workspace)
    assert charged(workspace)["l40s.1"] == 8
    failure_plan(apart.pk, verb="resize:quota", error="permanent", times=3)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("l40s.1", 7)])
    workspace = settle(workspace)
    assert (workspace.state, charged(workspace)) == ("failed", {"h100.1": 2, "storage": 100})


def test_what_is_waited_for_long_is_asked_rarely(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site, h100s=2)
    pod_create(site.pk, workspace.external_name, "both", 2)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    workspace = run_now(workspace)
    assert workspace.due_at is not None
    assert workspace.due_at < clock.now() + timedelta(seconds=2.5)
    held = {**workspace.conditions["Progressing"], "since": (clock.now() - timedelta(hours=1)).isoformat()}
    Workspace.objects.update(conditions={**workspace.conditions, "Progressing": held})
    workspace = run_now(workspace)
    assert workspace.due_at is not None
    assert workspace.due_at > clock.now() + timedelta(seconds=50)


def test_who_is_cut_while_it_is_made_never_enters_a_ready_one(
    as_alice: Actor, bob: User, project: Project, site: Site
) -> None:
    workspace = request(as_alice, project)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    workspace = run_now(workspace)
    member_remove(actor=as_alice, workspace=workspace, username="bob")

    assert settle(workspace, runs=400).state == "ready"
    assert members_at_site(site) == {"alice": "admin"}


def test_a_hint_that_something_runs_brings_the_next_look_forward(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    run(workspace.pk)
    pod_create(site.pk, workspace.external_name, "one", 1)
    run(workspace.pk)
    workspace.refresh_from_db()
    assert workspace.observed["consumers"] == []

    assert workspace_look(workspace_id=workspace.pk)
    assert not workspace_look(workspace_id=workspace.pk)
    run(workspace.pk)

    workspace.refresh_from_db()
    assert [one["name"] for one in workspace.observed["consumers"]] == ["one"]
    workspace_delete(actor=as_alice, workspace=workspace)
    assert not workspace_look(workspace_id=workspace.pk)

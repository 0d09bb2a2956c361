"""Put to sleep and woken: GPUs are given back and billing of them stops, data and access stay, and it all comes back."""

from datetime import timedelta

import pytest
import time_machine

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict, Forbidden, NotFound, OnHold, QuotaRefused, StaleVersion
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    credential_issue,
    member_remove,
    member_set,
    resume_preview,
    workspace_delete,
    workspace_resize,
    workspace_resume,
    workspace_retry,
    workspace_suspend,
)
from gpuaas.workspaces.spec import spec_of
from quotas.holds import HoldScope, hold_lift, hold_set
from quotas.models import Limit
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import fast, members_at_site, ready, request, run_now, settle

pytestmark = pytest.mark.django_db
GPUS = "gpu:h100-sxm-80gb"


def used(project: Project, resource: str = GPUS) -> int:
    return Limit.objects.get(project=project, resource=resource).used


def open_meters(workspace: Workspace) -> set[str]:
    return set(workspace.holdings.filter(ended_at=None).values_list("meter", flat=True))


def asleep(actor: Actor, project: Project, site: Site) -> Workspace:
    workspace = ready(actor, project, site)
    return settle(workspace_suspend(actor=actor, workspace=workspace))


def test_asleep_it_holds_its_storage_and_nothing_else(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "by-hand", 1)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")

    row = settle(workspace_suspend(actor=as_alice, workspace=workspace, reason="over the weekend"))

    assert row.state == "suspended"
    assert row.suspended_at is not None
    assert open_meters(row) == {"storage_held"}
    assert (used(project), used(project, "vcpu"), used(project, "storage")) == (0, 0, 100)
    counters_must_match()
    room = SandboxNamespace.objects.get(owner=row.pk)
    hard = dict(room.quotas.values_list("resource", "hard"))
    assert hard == {**dict.fromkeys(hard, 0), "storage": 100}
    assert not SandboxPod.objects.filter(namespace=room, finished_at=None).exists()
    assert set(members_at_site(site)) == {"alice"}
    with pytest.raises(QuotaRefused):
        pod_create(site.pk, row.external_name, "sneaky", 0, vcpus=0, memory_gib=0)
    assert credential_issue(actor=as_alice, workspace=row).document
    assert "over the weekend" in row.conditions["Suspended"]["message"]
    operation = row.operations.get(kind="suspend")
    assert operation.succeeded
    assert {step.state for step in operation.steps.all()} == {"done"}
    assert AuditEntry.objects.filter(action="workspace.suspend", actor="alice").count() == 1


def test_awake_it_has_what_it_had(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "by-hand", 1)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    row = settle(workspace_suspend(actor=as_alice, workspace=workspace))

    row = settle(workspace_resume(actor=as_alice, workspace=row))

    assert (row.state, row.suspended_at) == ("ready", None)
    assert open_meters(row) == {"gpu_held", "vcpu_held", "memory_held", "storage_held"}
    assert used(project) == 2
    counters_must_match()
    room = SandboxNamespace.objects.get(owner=row.pk)
    assert room.quotas.get(resource="nvidia.com/gpu").hard == 2
    assert list(room.pods.values_list("name", flat=True)) == ["train"]
    assert [item.confirmed for item in row.flavors.all()] == [2]
    assert "Suspended" not in row.conditions
    assert row.holdings.filter(meter="storage_held").count() == 1


def test_billing_of_gpus_ends_with_the_last_pod_and_not_before(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "slow", 1)
    dials_set(site.pk, grace_ms=60_000)
    with time_machine.travel(now(), tick=False) as clock:
        workspace_suspend(actor=as_alice, workspace=workspace)
        row = run_now(workspace)
        assert row.state == "suspending"
        assert "gpu_held" in open_meters(row)
        assert row.operations.get(kind="suspend").steps.get(key="pods").detail == "still ending: 1"
        clock.shift(timedelta(seconds=61))
        row = settle(workspace)
        assert row.holdings.get(meter="gpu_held").ended_at == now().replace(microsecond=0)


def test_who_may_and_when(
    as_alice: Actor, as_bob: Actor, as_charlie: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    with pytest.raises(NotFound):
        workspace_suspend(actor=as_charlie, workspace=workspace)
    with pytest.raises(StaleVersion):
        workspace_suspend(actor=as_alice, workspace=workspace, expected_version=workspace.version - 1)
    with pytest.raises(NotFound):
        workspace_resume(actor=as_charlie, workspace=workspace)
    assert workspace_resume(actor=as_alice, workspace=workspace).version == workspace.version
    once = workspace_suspend(actor=as_bob, workspace=workspace, expected_version=workspace.version)
    again = workspace_suspend(actor=as_alice, workspace=workspace, expected_version=workspace.version)
    assert once.version == again.version
    assert workspace.operations.filter(kind="suspend").count() == 1


def test_a_viewer_may_not(as_alice: Actor, bob: User, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    project.memberships.update(role="viewer")
    with pytest.raises(Forbidden):
        workspace_suspend(actor=actor_for(user=bob), workspace=workspace)


def test_not_while_it_is_made_or_resized(as_alice: Actor, project: Project, site: Site) -> None:
    fast(site)
    workspace = request(as_alice, project)
    with pytest.raises(Conflict, match="requested"):
        workspace_suspend(actor=as_alice, workspace=workspace)
    workspace = settle(workspace)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])
    with pytest.raises(Conflict, match="resizing"):
        workspace_suspend(actor=as_alice, workspace=workspace)


def test_no_resize_asleep(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = asleep(as_alice, project, site)
    with pytest.raises(Conflict, match="suspended"):
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3)])


def test_gpus_that_are_taken_meanwhile_are_not_to_be_had(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = asleep(as_alice, project, site)
    Limit.objects.filter(project=project, resource=GPUS).update(hard=1)
    with pytest.raises(QuotaRefused, match="1"):
        workspace_resume(actor=as_alice, workspace=workspace)
    row = run_now(workspace)
    assert row.state == "suspended"
    assert not row.operations.filter(kind="resume").exists()
    assert used(project) == 0
    counters_must_match()


def test_one_without_storage_gives_everything_back_and_wakes(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 2)], storage_gib=0)
    workspace = settle(workspace)
    row = settle(workspace_suspend(actor=as_alice, workspace=workspace))
    assert open_meters(row) == set()
    row = settle(workspace_resume(actor=as_alice, workspace=row))
    assert (row.state, used(project)) == ("ready", 2)
    counters_must_match()


def test_woken_while_it_falls_asleep(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    dials_set(site.pk, grace_ms=3_600_000)
    workspace_suspend(actor=as_alice, workspace=workspace)
    assert run_now(workspace).state == "suspending"
    row = workspace_resume(actor=as_alice, workspace=workspace)
    assert row.state == "resuming"
    assert row.operations.get(kind="suspend").summary == "ended by the resumption"
    assert settle(row).state == "ready"
    assert used(project) == 2
    counters_must_match()


def test_no_waking_while_it_falls_asleep_once_the_budget_is_spent(
    as_alice: Actor, project: Project, site: Site
) -> None:
    """It still holds its GPUs then, so nothing new is reserved; a hold refuses it all the same."""
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "train", 1, owner="Job/train")
    dials_set(site.pk, grace_ms=3_600_000)
    hold_set(
        source="budget:1",
        scope=HoldScope(project.organization_id, project.pk),
        reason="The budget autumn is spent.",
    )
    workspace_suspend(actor=SYSTEM, workspace=workspace, reason="the budget autumn is spent")
    row = run_now(workspace)
    assert row.state == "suspending"
    with pytest.raises(OnHold, match="autumn"):
        workspace_resume(actor=as_alice, workspace=row)
    assert run_now(row).state == "suspending"
    assert not resume_preview(workspace=row).fits
    hold_lift(source="budget:1")
    assert resume_preview(workspace=row).fits
    assert settle(workspace_resume(actor=as_alice, workspace=row)).state == "ready"
    counters_must_match()


def test_put_back_to_sleep_while_it_wakes(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = asleep(as_alice, project, site)
    workspace_resume(actor=as_alice, workspace=workspace)
    row = settle(workspace_suspend(actor=as_alice, workspace=workspace))
    assert (row.state, used(project)) == ("suspended", 0)
    counters_must_match()


def test_a_resumption_that_fails_leaves_it_asleep_with_ways_out(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = asleep(as_alice, project, site)
    failure_plan(site.pk, verb="resume:limits", error="permanent", times=3)
    workspace_resume(actor=as_alice, workspace=workspace)
    row = settle(workspace)
    assert row.state == "failed"
    row = run_now(row)
    room = SandboxNamespace.objects.get(owner=row.pk)
    assert (room.suspended, room.quotas.get(resource="nvidia.com/gpu").hard) == (True, 0)
    assert used(project) == 2  # still reserved for the retry
    with pytest.raises(Conflict, match="resume"):
        workspace_resize(actor=as_alice, workspace=row, items=[("h100.1", 1)])
    assert settle(workspace_retry(actor=as_alice, workspace=row)).state == "ready"
    counters_must_match()


def test_a_failed_resumption_may_sleep_again(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = asleep(as_alice, project, site)
    failure_plan(site.pk, verb="resume:workloads", error="permanent", times=3)
    workspace_resume(actor=as_alice, workspace=workspace)
    assert settle(workspace).state == "failed"
    row = settle(workspace_suspend(actor=as_alice, workspace=workspace))
    assert (row.state, used(project)) == ("suspended", 0)
    counters_must_match()


def test_one_that_is_woken_before_it_sleeps_and_fails_is_charged_for_no_gpus(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    workspace_suspend(actor=as_alice, workspace=workspace)
    failure_plan(site.pk, verb="resume:limits", error="permanent", times=3)
    workspace_resume(actor=as_alice, workspace=workspace)
    row = settle(workspace)
    assert (row.state, open_meters(row)) == ("failed", {"storage_held"})
    row = run_now(row)
    assert SandboxNamespace.objects.get(owner=row.pk).suspended
    assert settle(workspace_retry(actor=as_alice, workspace=row)).state == "ready"
    assert "gpu_held" in open_meters(row)
    counters_must_match()


def test_a_hold_refuses_the_retry_of_what_it_would_refuse(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = asleep(as_alice, project, site)
    failure_plan(site.pk, verb="resume:limits", error="permanent", times=3)
    workspace_resume(actor=as_alice, workspace=workspace)
    row = settle(workspace)
    scope = HoldScope(project.organization_id, project.pk)
    hold_set(source="budget:autumn", scope=scope, reason="The budget autumn is spent.")
    with pytest.raises(OnHold):
        workspace_retry(actor=as_alice, workspace=row)
    hold_lift(source="budget:autumn")
    assert settle(workspace_retry(actor=as_alice, workspace=row)).state == "ready"
    failure_plan(site.pk, verb="resize:quota", error="permanent", times=3)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    row = settle(workspace)
    hold_set(source="budget:autumn", scope=scope, reason="The budget autumn is spent.")
    assert settle(workspace_retry(actor=as_alice, workspace=row)).state == "ready"


def test_a_failed_resize_is_dropped_by_sleep(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    failure_plan(site.pk, verb="resize:quota", error="permanent", times=3)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 4)], storage_gib=200)
    assert settle(workspace).state == "failed"
    row = settle(workspace_suspend(actor=as_alice, workspace=workspace))
    assert (used(project), used(project, "storage")) == (0, 100)
    row = settle(workspace_resume(actor=as_alice, workspace=row))
    assert [(item.count, item.confirmed) for item in row.flavors.all()] == [(2, 2)]
    counters_must_match()


def test_a_site_that_refuses_for_good_is_asked_again_for_ever(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    failure_plan(site.pk, verb="suspend:workloads", error="permanent", times=8)
    workspace_suspend(actor=as_alice, workspace=workspace)
    assert {run_now(workspace).state for _ in range(8)} == {"suspending"}
    assert settle(workspace).state == "suspended"


def test_a_namespace_that_is_gone_is_made_anew_asleep(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    workspace_suspend(actor=as_alice, workspace=workspace)
    SandboxNamespace.objects.filter(owner=workspace.pk).delete()
    row = settle(workspace)
    assert row.state == "suspended"
    assert SandboxNamespace.objects.get(owner=workspace.pk).suspended


def test_members_change_while_it_sleeps(as_alice: Actor, as_bob: Actor, project: Project, site: Site) -> None:
    workspace = asleep(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="view")
    row = run_now(workspace)
    assert row.state == "suspended"
    assert members_at_site(site) == {"alice": "admin", "bob": "view"}


def test_who_left_just_before_is_out_when_it_sleeps(
    as_alice: Actor, as_bob: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    assert set(members_at_site(run_now(workspace).site)) == {"alice", "bob"}
    member_remove(actor=as_alice, workspace=workspace, username="bob")
    workspace_suspend(actor=as_alice, workspace=workspace)
    settle(workspace)
    assert set(members_at_site(site)) == {"alice"}


def test_deleted_while_it_falls_asleep_and_asleep(as_alice: Actor, project: Project, site: Site) -> None:
    for number in (1, 2):
        workspace = ready(as_alice, project, site, name=f"n-{number}")
        workspace_suspend(actor=as_alice, workspace=workspace)
        if number == 2:
            settle(workspace)
        row = settle(workspace_delete(actor=as_alice, workspace=workspace))
        assert row.state == "deleted"
    assert used(project, "storage") == 0
    counters_must_match()


def test_the_site_is_told_to_let_nothing_run(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = asleep(as_alice, project, site)
    limits_give(project)
    spec = spec_of(workspace)
    assert spec.suspended
    assert {gpu.count for gpu in spec.gpus} == {0}
    assert (spec.vcpus, spec.memory_gib, spec.storage_gib) == (0, 0, 100)
    assert [member.name for member in spec.members] == ["alice"]


def test_at_a_deletion_billing_ends_with_the_last_pod_and_not_with_the_namespace(
    as_alice: Actor, project: Project, site: Site
) -> None:
    workspace = ready(as_alice, project, site)
    pod_create(site.pk, workspace.external_name, "slow", 1)
    dials_set(site.pk, grace_ms=60_000, namespace_ms=600_000)
    with time_machine.travel(now(), tick=False) as clock:
        workspace_delete(actor=as_alice, workspace=workspace)
        assert run_now(workspace).state == "deleting"
        assert "gpu_held" in open_meters(workspace)
        clock.shift(timedelta(seconds=61))
        assert run_now(workspace).state == "deleting"
        assert open_meters(workspace) == set()
        ended = now().replace(microsecond=0)
        assert used(project) == 2
        clock.shift(timedelta(seconds=601))
        row = settle(workspace)
    assert row.state == "deleted"
    assert set(row.holdings.values_list("ended_at", flat=True)) == {ended}
    assert used(project) == 0

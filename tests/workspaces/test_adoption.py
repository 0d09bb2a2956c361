"""Taking over a namespace that was there before the portal, on the sandbox: look, plan, confirm, and what may go wrong."""

from datetime import timedelta
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import site_probe
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import usage_apply
from gpuaas.providers.sandbox.dials import dials_set, failure_plan
from gpuaas.providers.sandbox.fleet import H100, L40S, Rack, fleet_seed, node_set
from gpuaas.providers.sandbox.models import SandboxMember, SandboxNamespace, SandboxPod, SandboxQuota
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create, pod_delete
from gpuaas.workspaces.models import Adoption, AdoptionScan, Workspace
from gpuaas.workspaces.reconcile import adoption
from gpuaas.workspaces.selectors import adoptables_of, adoption_scan_get_for
from gpuaas.workspaces.services import (
    adoption_confirm,
    adoption_discard,
    adoption_plan_request,
    adoption_scan_request,
    workspace_delete,
)
from gpuaas.workspaces.site import driver_of
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import fast, run_now, settle

pytestmark = pytest.mark.django_db

OLD = "old-lab"


@pytest.fixture
def old_lab(site: Site, project: Project, alice: User) -> SandboxPod:
    """At `ber-1`, before the portal: a namespace where one pod holds 2 H100."""
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8), Rack("l", 1, L40S, 8)))
    fast(site)
    site_probe(site.pk)
    limits_give(project)
    foreign_namespace(site.pk, OLD)
    node_set(site.pk, name="l-01", cordoned=True)
    pod = pod_create(site.pk, OLD, "old-train", 2)
    node_set(site.pk, name="l-01")
    return pod


def looked(olga: Actor, site: Site) -> AdoptionScan:
    adoption_scan_request(actor=olga, site=site)
    assert adoption.scan(site.pk)
    return AdoptionScan.objects.get(site=site)


def asked(olga: Actor, project: Project, site: Site, **changes: Any) -> Adoption:
    wishes: dict[str, Any] = {"external_name": OLD, "items": [("h100.1", 2)], "name": "train"}
    return adoption_plan_request(actor=olga, site=site, project=project, **{**wishes, **changes})


def planned(olga: Actor, project: Project, site: Site, **changes: Any) -> Adoption:
    if not AdoptionScan.objects.filter(site=site).exists():
        looked(olga, site)
    row = asked(olga, project, site, **changes)
    adoption.plan(row.pk)
    row.refresh_from_db()
    return row


def in_the_way(row: Adoption) -> list[str]:
    return [step["object"] for step in row.steps if step["blocking"]]


def test_a_look_finds_what_is_nobodys_with_a_proposal(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    foreign_namespace(site.pk, "kube-system")
    foreign_namespace(site.pk, "idle", hard={"nvidia.com/gpu": 1})
    scan = looked(as_olga, site)

    found = {one.found.external_name: one for one in adoptables_of(actor=as_olga, scan=scan)}
    assert set(found) == {OLD, "idle"}
    assert found[OLD].found.gpus == {"nvidia.com/gpu": 2}
    assert found[OLD].proposal.items == {"h100.1": 2}
    assert sum(found["idle"].proposal.items.values()) == 1
    assert scan.taken_at is not None
    assert scan.due_at is None


def test_a_site_that_is_away_is_asked_again(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    looked(as_olga, site)
    dials_set(site.pk, down=True)
    adoption_scan_request(actor=as_olga, site=site)
    assert not adoption.scan(site.pk)
    row = AdoptionScan.objects.get()
    assert row.due_at is not None
    assert "does not answer" in row.failure
    assert [one["external_name"] for one in row.found] == [OLD]

    plan = asked(as_olga, project, site)
    assert not adoption.plan(plan.pk)
    plan.refresh_from_db()
    assert (plan.state, plan.due_at is not None) == ("planning", True)
    dials_set(site.pk, down=False)
    assert adoption.plan(plan.pk)


def test_the_whole_way_keeps_what_runs(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    assert plan.state == "planned"
    assert in_the_way(plan) == []
    assert SandboxNamespace.objects.get(name=OLD).owner is None
    assert any("deleting the workspace later deletes it" in step["detail"] for step in plan.steps)

    workspace = adoption_confirm(actor=as_olga, adoption=plan)
    assert Limit.objects.get(project=project, resource="gpu:h100-sxm-80gb").used == 2
    assert SandboxNamespace.objects.get(name=OLD).owner is None  # the site is not called by a click
    workspace = settle(workspace)

    assert workspace.state == "ready"
    assert workspace.external_name == OLD
    assert SandboxNamespace.objects.get(name=OLD).owner == workspace.pk
    assert [str(pod.uid) for pod in SandboxPod.objects.all()] == [str(old_lab.uid)]
    assert SandboxQuota.objects.get(resource="nvidia.com/gpu").hard == 2
    assert list(SandboxMember.objects.values_list("name", "role")) == [("alice", "admin")]
    operation = workspace.operations.get()
    assert operation.kind == "adopt"
    assert [step.key for step in operation.steps.all()][:2] == ["admission", "adopt"]
    plan.refresh_from_db()
    assert (plan.state, plan.workspace_id) == ("done", workspace.pk)
    assert list(AuditEntry.objects.filter(action__contains="adopt").values_list("action", flat=True)) == [
        "workspace.adopt",
        "adoption.plan",
        "adoption.scan",
    ]
    counters_must_match()


@pytest.mark.parametrize("ahead", [-5, 0, 5])
def test_it_is_metered_from_the_moment_it_was_taken_over(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod, ahead: int
) -> None:
    """Also one that ends within the same second, and where our clock is ahead of the site's."""
    SandboxPod.objects.update(scheduled_at=clock.now() - timedelta(days=3))
    driver = driver_of(site)
    cursor = list(driver.watch_usage("", seconds=0))[-1].cursor  # type: ignore[attr-defined]  # the sandbox tells
    workspace = settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site)))

    adopted = clock.now().replace(microsecond=0) + timedelta(seconds=ahead)
    Adoption.objects.update(adopted_at=adopted)

    events = list(driver.watch_usage(cursor, seconds=0))  # type: ignore[attr-defined]
    usage_apply(site_id=site.pk, events=events)
    row = UsageInterval.objects.get(meter="gpu_allocated")
    assert (row.workspace_id, row.quantity, row.ended_at) == (workspace.pk, 2, None)
    assert row.started_at == adopted

    pod_delete(site.pk, OLD, "old-train")
    usage_apply(site_id=site.pk, events=list(driver.watch_usage(cursor, seconds=0)))  # type: ignore[attr-defined]
    row.refresh_from_db()
    assert row.ended_at is not None
    assert row.ended_at >= row.started_at


def test_what_ended_before_it_was_taken_over_is_nobodys(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    driver = driver_of(site)
    settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site)))
    pod_delete(site.pk, OLD, "old-train")
    Adoption.objects.update(adopted_at=clock.now() + timedelta(seconds=5))
    usage_apply(site_id=site.pk, events=list(driver.watch_usage("1", seconds=0)))  # type: ignore[attr-defined]
    assert not UsageInterval.objects.filter(meter="gpu_allocated").exists()


def test_deleting_it_deletes_the_namespace(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    workspace = settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site)))
    workspace_delete(actor=as_olga, workspace=workspace)
    assert settle(workspace).state == "deleted"
    assert not SandboxNamespace.objects.filter(name=OLD).exists()
    counters_must_match()


@pytest.mark.parametrize(
    ("wishes", "object"),
    [
        ({"items": [("h100.1", 1)]}, "Quota/gpuaas"),
        ({"items": [("l40s.1", 2)]}, "Pod/old-train"),
    ],
)
def test_what_is_in_the_way_blocks(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod, wishes: dict[str, Any], object: str
) -> None:
    plan = planned(as_olga, project, site, **wishes)
    assert object in in_the_way(plan)
    with pytest.raises(Conflict, match="resolve this") as refused:
        adoption_confirm(actor=as_olga, adoption=plan)
    assert object in refused.value.detail["blocking"]
    assert not Workspace.objects.exists()


def test_its_own_quota_has_to_go_first(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    room = SandboxNamespace.objects.get(name=OLD)
    SandboxQuota.objects.create(namespace=room, resource="nvidia.com/gpu", wanted=4, hard=4)
    assert in_the_way(planned(as_olga, project, site)) == ["Quota/own"]
    SandboxQuota.objects.all().delete()
    assert settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site))).state == "ready"


def test_what_changed_since_the_plan_is_not_touched(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    workspace = adoption_confirm(actor=as_olga, adoption=plan)
    pod_create(site.pk, OLD, "one-more", 1)

    workspace = settle(workspace, runs=10)
    plan.refresh_from_db()
    assert (plan.state, workspace.state) == ("failed", "deleted")
    assert "plan again" in plan.failure
    assert SandboxNamespace.objects.get(name=OLD).owner is None
    assert SandboxPod.objects.count() == 2
    assert Limit.objects.get(project=project, resource="gpu:h100-sxm-80gb").used == 0
    counters_must_match()

    again = planned(as_olga, project, site, items=[("h100.1", 3)])
    assert settle(adoption_confirm(actor=as_olga, adoption=again)).state == "ready"


def test_pods_that_come_and_go_do_not_spoil_a_plan(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site, items=[("h100.1", 4)])
    pod_create(site.pk, OLD, "short", 1)
    assert settle(adoption_confirm(actor=as_olga, adoption=plan)).state == "ready"


def test_two_operators_at_once(as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod) -> None:
    first, second = planned(as_olga, project, site), planned(as_olga, project, site, name="other")
    workspace = adoption_confirm(actor=as_olga, adoption=first)
    with pytest.raises(Conflict, match="belongs to another workspace"):
        adoption_confirm(actor=as_olga, adoption=second)
    with pytest.raises(Conflict, match="confirmed"):
        adoption_confirm(actor=as_olga, adoption=first)
    assert settle(workspace).state == "ready"


def test_a_killed_worker_changes_nothing(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    workspace = adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site))
    failure_plan(site.pk, verb="adopt", error="lost")
    workspace = settle(workspace)
    assert workspace.state == "ready"
    assert Adoption.objects.get().state == "done"


def test_a_deletion_before_the_takeover_leaves_it_alone(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    workspace = adoption_confirm(actor=as_olga, adoption=plan)
    workspace_delete(actor=as_olga, workspace=workspace)
    assert settle(workspace).state == "deleted"
    assert SandboxNamespace.objects.get(name=OLD).owner is None
    assert SandboxPod.objects.count() == 1
    assert adoption.adoptions_close() == 1
    plan.refresh_from_db()
    assert plan.state == "failed"
    counters_must_match()


def test_limits_hold_as_for_a_request(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    Limit.objects.filter(project=project, resource="gpu:h100-sxm-80gb").update(hard=1)
    with pytest.raises(QuotaRefused):
        adoption_confirm(actor=as_olga, adoption=plan)
    plan.refresh_from_db()
    assert plan.state == "planned"
    assert not Workspace.objects.exists()


def test_an_old_plan_is_not_believed(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    Adoption.objects.update(expires_at=clock.now())
    with pytest.raises(Conflict, match="plan again"):
        adoption_confirm(actor=as_olga, adoption=plan)
    assert adoption.adoptions_close() == 1
    plan.refresh_from_db()
    assert plan.state == "discarded"


def test_discarding(as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod) -> None:
    plan = planned(as_olga, project, site)
    adoption_discard(actor=as_olga, adoption=plan)
    assert adoption_discard(actor=as_olga, adoption=plan).state == "discarded"
    with pytest.raises(Conflict, match="discarded"):
        adoption_confirm(actor=as_olga, adoption=plan)


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"external_name": "kube-system"}, "external_name"),
        ({"external_name": "no-such"}, "external_name"),
        ({"items": [("no-such", 1)]}, "items"),
        ({"items": [("h100.1", 0)]}, "items"),
        ({"name": "Not A Name"}, "name"),
        ({"storage_gib": -1}, "storage_gib"),
        ({"members": [("charlie", "edit")]}, "members"),
        ({"lease_ends_at": clock.now() - timedelta(days=1)}, "lease_ends_at"),
    ],
)
def test_bad_wishes_are_refused_beside_their_field(
    as_olga: Actor,
    project: Project,
    site: Site,
    old_lab: SandboxPod,
    charlie: User,
    wishes: dict[str, Any],
    field: str,
) -> None:
    foreign_namespace(site.pk, "kube-system")
    looked(as_olga, site)
    with pytest.raises(Invalid) as refused:
        asked(as_olga, project, site, **wishes)
    assert list(refused.value.fields) == [field]


def test_a_name_that_is_taken_and_flavors_of_another_site(
    as_olga: Actor, project: Project, site: Site, h100: Flavor, old_lab: SandboxPod
) -> None:
    settle(adoption_confirm(actor=as_olga, adoption=planned(as_olga, project, site)))
    foreign_namespace(site.pk, "second")
    looked(as_olga, site)
    with pytest.raises(Invalid) as refused:
        asked(as_olga, project, site, external_name="second")
    assert list(refused.value.fields) == ["name"]
    elsewhere = Site.objects.create(slug="muc-1", name="muc-1", driver="sandbox")
    AdoptionScan.objects.create(
        site=elsewhere, requested_at=clock.now(), found=AdoptionScan.objects.get(site=site).found
    )
    with pytest.raises(Invalid) as refused:
        asked(as_olga, project, elsewhere, external_name="second", name="second")
    assert list(refused.value.fields) == ["items"]


def test_tenants_and_auditors_take_nothing_over(
    as_olga: Actor, as_alice: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    plan = planned(as_olga, project, site)
    auditor = Actor(user_id=as_olga.user_id, name="olga", platform=as_olga.platform - {_manage()})
    for actor, error in ((as_alice, NotFound), (auditor, Forbidden)):
        with pytest.raises(error):
            adoption_scan_request(actor=actor, site=site)
        with pytest.raises(error):
            asked(actor, project, site)
        with pytest.raises(error):
            adoption_confirm(actor=actor, adoption=plan)
        with pytest.raises(error):
            adoption_discard(actor=actor, adoption=plan)
    with pytest.raises(NotFound):
        adoption_scan_get_for(actor=as_alice, site=site)


def _manage() -> Any:
    from tenants.roles import Permission

    return Permission.PLATFORM_MANAGE


def test_the_mark_decides_not_a_plan(
    as_olga: Actor, project: Project, site: Site, old_lab: SandboxPod
) -> None:
    """Somebody else's portal took it meanwhile: refused, and its mark stays."""
    plan = planned(as_olga, project, site)
    workspace = adoption_confirm(actor=as_olga, adoption=plan)
    SandboxNamespace.objects.filter(name=OLD).update(owner=project.pk)
    assert not adoption.plan(plan.pk)
    for _ in range(3):
        workspace = run_now(workspace)
    plan.refresh_from_db()
    assert plan.state == "failed"
    assert SandboxNamespace.objects.get(name=OLD).owner == project.pk

"""What the site's administrator does behind the portal's back: written down once, set right or only told, by policy."""

import threading
from datetime import timedelta

import pytest
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.providers.sandbox.drift import tamper
from gpuaas.providers.sandbox.models import SandboxNamespace
from gpuaas.workspaces.models import Drift, SiteWatch, Workspace
from gpuaas.workspaces.reconcile.plan import COMPARE_EVERY, OBSERVE_EVERY
from gpuaas.workspaces.selectors import drifts_at, drifts_of
from gpuaas.workspaces.services import drift_check_request, drift_repair, site_drift_check_request
from gpuaas.workspaces.services.drift import watch_proved, watches_lost
from gpuaas.workspaces.watch import ChangesWatcher
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.lasting import lasting
from tests.workspaces.stage import members_at_site, namespaces, ready, run_now, settle

pytestmark = pytest.mark.django_db

GPU = "nvidia.com/gpu"


def compare_now(workspace: Workspace) -> Workspace:
    Workspace.objects.filter(pk=workspace.pk).update(drift_due_at=clock.now())
    return run_now(workspace)


def observe_only(site: Site) -> None:
    Site.objects.filter(pk=site.pk).update(drift_policy="observe")


def hard(site: Site) -> int | None:
    rows = SandboxNamespace.objects.get(site=site.pk).quotas.filter(resource=GPU)
    return rows.values_list("hard", flat=True).first()


@pytest.fixture
@lasting
def workspace(as_alice: Actor, project: Project, site: Site) -> Workspace:
    return ready(as_alice, project, site)


TAMPERINGS = [
    ("quota", {"resource": GPU, "hard": 8}, f"quota[{GPU}]"),
    ("quota", {"resource": GPU, "hard": None}, f"quota[{GPU}]"),
    ("labels", {"value": {"project": "mine"}}, "labels[organization]"),
    ("limits", {}, "limits[default]"),
    ("network", {}, "network"),
    ("namespace", {}, ""),
]


@pytest.mark.parametrize(("what", "change", "path"), TAMPERINGS)
def test_it_is_written_down_with_its_author_and_set_right(
    workspace: Workspace, site: Site, what: str, change: dict[str, object], path: str
) -> None:
    tamper(site.pk, workspace.external_name, what, by="argocd", **change)
    row = compare_now(workspace)

    drift = Drift.objects.get()
    assert (drift.state, drift.resolved_by) == ("repaired", "portal")
    assert drift.resolved_at is not None
    assert drift.differences[0]["path"] == path
    assert drift.differences[0]["changed_by"] == ("" if what == "namespace" else "argocd")
    assert row.conditions["InSync"]["status"] == "True"
    assert hard(site) == 2
    assert compare_now(workspace).state == "ready"
    assert Drift.objects.count() == 1


def test_a_member_whose_binding_was_taken_is_let_in_again(workspace: Workspace, site: Site) -> None:
    before = members_at_site(site)
    member = SandboxNamespace.objects.get(site=site.pk).members.get()
    tamper(site.pk, workspace.external_name, "member", subject=member.subject, role=None)
    assert members_at_site(site) == {}
    compare_now(workspace)
    assert members_at_site(site) == before


def test_what_the_portal_itself_changes_is_no_drift(
    workspace: Workspace, as_alice: Actor, bob: object
) -> None:
    from gpuaas.workspaces.services import member_set

    member_set(actor=as_alice, workspace=workspace, username="bob", role="edit")
    compare_now(workspace)
    assert not Drift.objects.exists()


def test_where_it_is_only_observed_it_stays_open_until_an_operator_repairs_it(
    workspace: Workspace, site: Site, as_olga: Actor, as_alice: Actor
) -> None:
    observe_only(site)
    tamper(site.pk, workspace.external_name, "network", by="kubectl-edit")
    row = compare_now(workspace)
    compare_now(workspace)

    drift = Drift.objects.get()
    assert drift.state == "open"
    held = row.conditions["InSync"]
    assert (held["status"], held["reason"]) == ("False", "Drifted")
    assert "kubectl-edit" in held["message"]
    assert "operator" in held["remedy"]
    assert not SandboxNamespace.objects.get(site=site.pk).isolated

    with pytest.raises((Forbidden, NotFound)):
        drift_repair(actor=as_alice, drift=drift)
    drift_repair(actor=as_olga, drift=drift)
    row = run_now(workspace)
    drift.refresh_from_db()
    assert (drift.state, drift.resolved_by) == ("repaired", "olga")
    assert SandboxNamespace.objects.get(site=site.pk).isolated
    assert row.conditions["InSync"]["status"] == "True"
    assert AuditEntry.objects.filter(action="workspace.drift_repair", actor="olga").exists()
    with pytest.raises(Conflict):
        drift_repair(actor=as_olga, drift=drift)


def test_a_limit_is_set_right_even_where_drift_is_only_observed(workspace: Workspace, site: Site) -> None:
    observe_only(site)
    tamper(site.pk, workspace.external_name, "quota", resource=GPU, hard=16)
    tamper(site.pk, workspace.external_name, "network")
    row = compare_now(workspace)

    assert hard(site) == 2
    assert not SandboxNamespace.objects.get(site=site.pk).isolated, "the rest is for an operator to decide"
    states = {d.state: [one["path"] for one in d.differences] for d in Drift.objects.all()}
    assert states == {"repaired": [f"quota[{GPU}]"], "open": ["network"]}
    assert row.conditions["InSync"]["status"] == "False"


def test_a_limit_is_seen_by_the_plain_look_too(workspace: Workspace, site: Site) -> None:
    """Where nobody follows the site's changes: every half minute."""
    tamper(site.pk, workspace.external_name, "quota", resource=GPU, hard=16)
    run_now(workspace)
    assert hard(site) == 2
    assert Drift.objects.get().state == "repaired"


def test_what_goes_away_by_itself_is_said_so(workspace: Workspace, site: Site) -> None:
    observe_only(site)
    labels = SandboxNamespace.objects.get(site=site.pk).labels
    tamper(site.pk, workspace.external_name, "labels", value={})
    compare_now(workspace)
    tamper(site.pk, workspace.external_name, "labels", value=labels)
    row = compare_now(workspace)
    drift = Drift.objects.get()
    assert (drift.state, drift.resolved_by) == ("gone", "")
    assert row.conditions["InSync"]["status"] == "True"


def test_somebody_who_works_against_us_is_named_and_waited_for(workspace: Workspace, site: Site) -> None:
    for _ in range(3):
        tamper(site.pk, workspace.external_name, "network", by="argocd")
        compare_now(workspace)
    tamper(site.pk, workspace.external_name, "network", by="argocd")
    row = compare_now(workspace)

    held = row.conditions["InSync"]
    assert (held["status"], held["reason"]) == ("False", "Contested")
    assert "argocd" in held["message"]
    assert not SandboxNamespace.objects.get(site=site.pk).isolated
    assert row.due_at is not None
    assert row.due_at > clock.now() + timedelta(seconds=15)
    late = timedelta(minutes=16)
    Drift.objects.update(found_at=F("found_at") - late, resolved_at=F("resolved_at") - late)
    compare_now(workspace)
    assert SandboxNamespace.objects.get(site=site.pk).isolated


def test_a_limit_is_not_left_to_the_other_for_long(workspace: Workspace, site: Site) -> None:
    for _ in range(3):
        tamper(site.pk, workspace.external_name, "quota", resource=GPU, hard=16, by="argocd")
        compare_now(workspace)
    tamper(site.pk, workspace.external_name, "quota", resource=GPU, hard=16, by="argocd")
    row = compare_now(workspace)
    assert row.due_at is not None
    assert row.due_at < clock.now() + timedelta(seconds=20)
    late = timedelta(seconds=11)
    Drift.objects.update(resolved_at=F("resolved_at") - late)
    compare_now(workspace)
    assert hard(site) == 2


def test_the_deletion_ends_an_open_drift(workspace: Workspace, site: Site, as_alice: Actor) -> None:
    from gpuaas.workspaces.services import workspace_delete

    observe_only(site)
    tamper(site.pk, workspace.external_name, "network")
    compare_now(workspace)
    workspace_delete(actor=as_alice, workspace=workspace)
    row = settle(workspace)
    assert row.state == "deleted"
    assert Drift.objects.get().state == "gone"
    assert "InSync" not in row.conditions


def test_asking_for_a_look_is_audited_and_done(
    workspace: Workspace, site: Site, as_alice: Actor, as_charlie: Actor, as_olga: Actor
) -> None:
    Workspace.objects.update(due_at=clock.now() + timedelta(hours=1))
    with pytest.raises(NotFound):
        drift_check_request(actor=as_charlie, workspace=workspace)
    with pytest.raises((Forbidden, NotFound)):
        site_drift_check_request(actor=as_alice, site=site)
    tamper(site.pk, workspace.external_name, "limits")
    drift_check_request(actor=as_alice, workspace=workspace)
    row = Workspace.objects.get(pk=workspace.pk)
    assert row.due_at is not None
    assert row.due_at <= clock.now()
    run_now(workspace)
    assert drifts_of(workspace=workspace).get().state == "repaired"
    assert list(drifts_at(site=site)) == list(drifts_of(workspace=workspace))

    assert site_drift_check_request(actor=as_olga, site=site) == 1
    row.refresh_from_db()
    assert row.drift_due_at is not None
    assert row.drift_due_at <= clock.now() + timedelta(seconds=1)
    assert set(AuditEntry.objects.values_list("action", flat=True)) >= {
        "workspace.drift_check",
        "site.drift_check",
    }


class TestWatcher:
    def test_a_change_is_compared_at_once_and_looks_become_rare(
        self, workspace: Workspace, site: Site
    ) -> None:
        watcher = ChangesWatcher(site, stop=threading.Event())
        assert watcher.window(seconds=0)
        row = run_now(workspace)
        moment = clock.now()
        assert row.due_at is not None
        assert row.due_at > moment + COMPARE_EVERY / 4 or (
            row.drift_due_at is not None and row.due_at <= row.drift_due_at + OBSERVE_EVERY
        )
        Workspace.objects.update(due_at=moment + COMPARE_EVERY, drift_due_at=moment + COMPARE_EVERY)

        assert watcher.window(seconds=0)
        row.refresh_from_db()
        assert row.due_at is not None
        assert row.due_at > clock.now() + OBSERVE_EVERY, "a quiet site is left in peace"

        tamper(site.pk, workspace.external_name, "network", by="kubectl-edit")
        assert watcher.window(seconds=0)
        row.refresh_from_db()
        assert row.due_at <= clock.now()
        run_now(workspace)
        assert Drift.objects.get().state == "repaired"

    def test_it_goes_on_where_the_one_before_it_died(self, workspace: Workspace, site: Site) -> None:
        ChangesWatcher(site, stop=threading.Event()).window(seconds=0)
        Workspace.objects.update(due_at=clock.now() + COMPARE_EVERY, drift_due_at=clock.now() + COMPARE_EVERY)
        tamper(site.pk, workspace.external_name, "limits")
        ChangesWatcher(site, stop=threading.Event()).window(seconds=0)
        row = Workspace.objects.get(pk=workspace.pk)
        assert row.due_at is not None
        assert row.due_at <= clock.now()

    def test_when_it_dies_workspaces_are_looked_at_as_before(self, workspace: Workspace, site: Site) -> None:
        watch_proved(site_id=site.pk, cursor="")
        Workspace.objects.update(due_at=clock.now() + COMPARE_EVERY)
        assert watches_lost() == 0
        SiteWatch.objects.update(proof_at=clock.now() - timedelta(minutes=2))
        assert watches_lost() == 1
        row = Workspace.objects.get(pk=workspace.pk)
        assert row.due_at is not None
        assert row.due_at <= clock.now() + OBSERVE_EVERY
        assert watches_lost() == 0, "once is enough"

    def test_a_change_in_what_is_not_kept_wakes_nobody(self, workspace: Workspace, site: Site) -> None:
        watcher = ChangesWatcher(site, stop=threading.Event())
        watcher.window(seconds=0)
        moment = clock.now() + COMPARE_EVERY
        Workspace.objects.update(state="deleting", due_at=moment)
        tamper(site.pk, workspace.external_name, "limits")
        watcher.window(seconds=0)
        assert Workspace.objects.get(pk=workspace.pk).due_at == moment


def test_namespaces_that_are_missing_come_back_only_where_drift_is_repaired(
    workspace: Workspace, site: Site
) -> None:
    observe_only(site)
    tamper(site.pk, workspace.external_name, "namespace")
    compare_now(workspace)
    assert namespaces(site) == []
    Site.objects.filter(pk=site.pk).update(drift_policy="repair")
    compare_now(workspace)
    assert namespaces(site) == [workspace.external_name]

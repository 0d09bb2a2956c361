"""What alice sees of an environment from the order to its end, and what becomes of it with its workspace."""

from typing import Any

import pytest

from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import storage_plain_choose
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused
from gpuaas.environments.models import Environment, EnvironmentLog
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.selectors import address_of, environment_get_for, environments_for
from gpuaas.environments.services import (
    environment_clone,
    environment_create,
    environment_delete,
    environment_log_ask,
    environment_restart,
    environment_start,
    environment_stop,
    kind_create,
    kind_retire,
)
from gpuaas.environments.services.idle import USE
from gpuaas.environments.spec import ENVIRONMENTS, spec_of
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete, pod_evict
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from gpuaas.workspaces.tasks import site_changed
from quotas.selectors import reservations_held
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tests.environments.stage import SHELL, homes, kind, log, ordered, pods, ready, run_now, settle, use_now
from tests.factories.quotas import counters_must_match
from tests.workspaces import stage as workspaces


def test_one_without_a_port_is_ready_once_it_runs(
    as_alice: Actor, workspace: Workspace, settings: Any
) -> None:
    settings.DOOR_DOMAIN = "apps.test"
    kind_create(actor=SYSTEM, slug="shell", name="Shell", document=SHELL)
    row = settle(environment_create(actor=as_alice, workspace=workspace, kind="shell", name="sh", gpus=0))
    assert (row.state, row.failure, address_of(row)) == ("ready", "", "")
    site = ENVIRONMENTS.at(row.site)
    assert site is not None
    with pytest.raises(NotFound, match="no port"):
        site.reach(spec_of(row))
    row = use_now(row)
    assert "people reach it by kubectl alone" in row.conditions[USE]["message"]
    settings.DOOR_SSH = ("ssh.test", 22)
    row = use_now(row)
    assert row.conditions[USE]["message"] == "it was used lately"


def test_a_whole_life(as_alice: Actor, workspace: Workspace) -> None:
    row = ordered(as_alice, workspace, gpus=2)
    assert (row.state, row.gpus, row.vcpus, row.parameters) == ("requested", 2, 4, {"folder": "work"})
    row = settle(row)
    assert (row.state, log(row)) == ("ready", [("home", "done"), ("start", "done"), ("ready", "done")])
    name = row.external_name
    assert (pods(workspace), homes(workspace)) == ([name], [name])
    home = SandboxClaim.objects.get().pk
    row = run_now(row)
    assert row.conditions["Running"]["status"] == "True"
    assert row.observed["node"] == SandboxPod.objects.get(name=name).node_name

    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, row.get_state_display(), pods(workspace)) == ("suspended", "Stopped", [])
    environment_start(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, pods(workspace)) == ("ready", [name])
    assert SandboxClaim.objects.get().pk == home

    environment_delete(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, pods(workspace), homes(workspace)) == ("deleted", [], [])
    assert ordered(as_alice, workspace).name == "lab"  # the name is free again
    verbs = AuditEntry.objects.filter(action__startswith="environment.").values_list("action", flat=True)
    done = ["create", "delete", "start", "stop", "create"]
    assert [verb.removeprefix("environment.") for verb in verbs.order_by("-pk")] == done


def test_its_home_is_of_the_class_that_plain_storage_is_taken_from(
    as_alice: Actor, as_olga: Actor, site: Site, workspace: Workspace
) -> None:
    storage_classes_write(site=site, found=STORAGE_CLASSES, at=clock.now())
    storage_plain_choose(actor=as_olga, storage_class=StorageClass.objects.get(name="fast"))
    site_changed(str(site.pk))
    workspaces.run_now(workspace)
    row = ready(as_alice, workspace)
    assert (row.state, SandboxClaim.objects.get().storage_class) == ("ready", "fast")


def test_nothing_is_reserved_or_charged_for_it(as_alice: Actor, workspace: Workspace) -> None:
    """It lives inside what the workspace bought: its pod counts in the quota at the site like any other."""
    before = reservations_held(holder_kind="workspace", holder_id=workspace.pk)
    row = ready(as_alice, workspace, gpus=3)
    assert reservations_held(holder_kind="workspace", holder_id=workspace.pk) == before
    assert reservations_held(holder_kind="environment", holder_id=row.pk) == {}
    counters_must_match()
    with pytest.raises(QuotaRefused):
        pod_create(workspace.site_id, workspace.external_name, "train", 2)


def test_what_members_use_already_is_said_by_the_site(as_alice: Actor, workspace: Workspace) -> None:
    pod_create(workspace.site_id, workspace.external_name, "train", 4)
    row = settle(ordered(as_alice, workspace))
    assert row.state == "failed"
    assert "exceeded quota" in row.failure
    SandboxPod.objects.filter(name="train").delete()
    workspace.refresh_from_db()


def test_a_failed_one_is_started_again(as_alice: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="environment-create:start", error="permanent", times=3)
    row = settle(ordered(as_alice, workspace))
    assert (row.state, log(row)[1]) == ("failed", ("start", "failed"))
    assert "permanently refuses" in row.failure
    environment_start(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, row.failure) == ("ready", "")


def test_a_lost_answer_is_found_again(as_alice: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="environment-create:start", error="lost")
    row = settle(ordered(as_alice, workspace))
    assert (row.state, len(pods(workspace))) == ("ready", 1)


def test_a_site_that_is_away_is_waited_for(as_alice: Actor, workspace: Workspace) -> None:
    row = ordered(as_alice, workspace)
    dials_set(workspace.site_id, down=True)
    row = run_now(row)
    assert row.conditions["Reachable"]["status"] == "False"
    dials_set(workspace.site_id, down=False)
    assert settle(row).state == "ready"


def test_what_was_lost_at_the_site_comes_back(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    pod = SandboxPod.objects.get(name=row.external_name)
    assert pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="the node is drained")
    row = run_now(row)
    row = run_now(row)
    assert (row.state, pods(workspace), row.conditions["Running"]["status"]) == (
        "ready",
        [row.external_name],
        "True",
    )


def test_one_whose_room_members_have_taken_does_not_answer(as_alice: Actor, workspace: Workspace) -> None:
    row = run_now(ready(as_alice, workspace))
    pod = SandboxPod.objects.get(name=row.external_name)
    assert pod_evict(workspace.site_id, workspace.external_name, str(pod.uid), reason="the node is drained")
    pod_create(workspace.site_id, workspace.external_name, "train", 4)
    said = run_now(row).conditions["Running"]
    assert said["status"] == "False"
    assert "exceeded quota" in said["message"]
    assert "end one of them" in said["remedy"]
    pod_delete(workspace.site_id, workspace.external_name, "train")
    run_now(row)
    assert run_now(row).conditions["Running"]["status"] == "True"


def test_a_restart_ends_it_first(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    uid = SandboxPod.objects.get(name=row.external_name, finished_at=None).uid
    environment_restart(actor=as_alice, environment=row)
    row = settle(row)
    assert [key for key, _ in log(row)] == ["stop", "home", "start", "ready"]
    assert SandboxPod.objects.get(name=row.external_name, finished_at=None).uid != uid
    environment_stop(actor=as_alice, environment=row)
    with pytest.raises(Conflict, match=r"start it first|stopping"):
        environment_restart(actor=as_alice, environment=row)


@pytest.mark.parametrize("runs", [0, 1])
def test_stopped_before_it_was_there(as_alice: Actor, workspace: Workspace, runs: int) -> None:
    dials_set(workspace.site_id, environment_ms=60_000)
    row = ordered(as_alice, workspace)
    for _ in range(runs):
        row = run_now(row)
    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, pods(workspace)) == ("suspended", [])
    dials_set(workspace.site_id, environment_ms=0)
    environment_start(actor=as_alice, environment=row)
    assert settle(row).state == "ready"


def test_a_clone_is_another_one_with_an_empty_home(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace, gpus=2, home_gib=20, parameters={"folder": "deep"})
    made = settle(environment_clone(actor=as_alice, environment=row, name="second"))
    assert (made.state, made.gpus, made.home_gib, made.parameters) == ("ready", 2, 20, {"folder": "deep"})
    assert homes(workspace) == sorted([row.external_name, made.external_name])
    kind_retire(actor=SYSTEM, kind=row.made_of.kind)
    with pytest.raises(Invalid, match="not offered any more"):
        environment_clone(actor=as_alice, environment=row, name="third")


def test_repeating_it_changes_nothing(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    assert environment_start(actor=as_alice, environment=row).version == row.version
    stopping = environment_stop(actor=as_alice, environment=row)
    assert environment_stop(actor=as_alice, environment=row).version == stopping.version
    gone = environment_delete(actor=as_alice, environment=row)
    assert environment_delete(actor=as_alice, environment=row).version == gone.version


# -- its workspace -------------------------------------------------------------------------------------------------


def test_suspending_the_workspace_stops_it(as_alice: Actor, workspace: Workspace) -> None:
    row, other = ready(as_alice, workspace), ready(as_alice, workspace, "other")
    environment_stop(actor=as_alice, environment=other)
    settle(other)
    workspace_suspend(actor=as_alice, workspace=workspace)
    assert Environment.objects.get(pk=row.pk).state == "suspending"
    row = settle(row)
    assert row.state == "suspended"
    newest = row.operations.first()
    assert newest is not None
    assert newest.summary == "its workspace was suspended by alice"
    assert workspaces.settle(workspace).state == "suspended"
    with pytest.raises(Conflict, match="resume it first"):
        environment_start(actor=as_alice, environment=row)
    with pytest.raises(Conflict, match="workspace is suspended"):
        ordered(as_alice, workspace, "third")
    assert len(homes(workspace)) == 2


def test_deleting_the_workspace_deletes_it(as_alice: Actor, workspace: Workspace) -> None:
    row, other = ready(as_alice, workspace), ordered(as_alice, workspace, "other")
    workspace_delete(actor=as_alice, workspace=workspace)
    states = Environment.objects.filter(pk__in=(row.pk, other.pk)).values_list("state", flat=True)
    assert set(states) == {"deleting"}
    assert workspaces.settle(workspace).state == "deleted"
    assert settle(row).state == settle(other).state == "deleted"


# -- what is free --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        ({"gpus": 4}, "gpus", "the workspace has bought 4 H100 SXM 80 GB, .* take 1: 3 are free"),
        ({"vcpus": 61}, "vcpus", "has bought 64 vCPUs, .* take 4: 60 are free"),
        ({"memory_gib": 710}, "memory_gib", "has bought 720 GiB of memory, .* take 16: 704 are free"),
        ({"home_gib": 91}, "home_gib", "has bought 100 GiB of storage, .* take 10: 90 are free"),
    ],
)
def test_more_than_is_free_is_refused(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, int], field: str, words: str
) -> None:
    ready(as_alice, workspace)
    with pytest.raises(QuotaRefused, match=words) as refused:
        ordered(as_alice, workspace, "more", **wanted)
    assert refused.value.detail["field"] == field
    assert Environment.objects.count() == 1


def test_a_stopped_one_takes_only_its_home(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace, gpus=4)
    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    room = room_of(workspace=workspace)
    assert [each.free for each in room.pools.values()] == [4]
    assert {name: each.taken for name, each in room.amounts.items()} == {
        "vcpus": 0,
        "memory_gib": 0,
        "home_gib": 10,
    }
    ready(as_alice, workspace, "other", gpus=1)
    with pytest.raises(QuotaRefused, match="3 are free"):
        environment_start(actor=as_alice, environment=row)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"name": "Not a name"}, "name"),
        ({"name": ""}, "name"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": True}, "gpus"),
        ({"vcpus": 0}, "vcpus"),
        ({"memory_gib": 10**9}, "memory_gib"),
        ({"home_gib": 0}, "home_gib"),
        ({"gpu": "a100-40gb"}, "gpu"),
        ({"parameters": {"folder": 5}}, "parameters.folder"),
        ({"parameters": {"more": "x"}}, "parameters"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        ordered(as_alice, workspace, **wanted)
    assert next(iter(refused.value.fields)).startswith(field)
    assert not Environment.objects.exists()


def test_a_name_is_there_once(as_alice: Actor, workspace: Workspace) -> None:
    ordered(as_alice, workspace)
    with pytest.raises(Conflict, match="already has an environment called lab") as refused:
        ordered(as_alice, workspace)
    assert refused.value.detail == {"field": "name"}


# -- who -----------------------------------------------------------------------------------------------------------


def test_an_outsider_finds_nothing(as_alice: Actor, as_charlie: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    for service in (environment_start, environment_stop, environment_restart, environment_delete):
        with pytest.raises(NotFound):
            service(actor=as_charlie, environment=row)
    with pytest.raises(NotFound):
        ordered(as_charlie, workspace, "mine")
    with pytest.raises(NotFound):
        environment_get_for(actor=as_charlie, environment_id=row.pk)
    assert not environments_for(actor=as_charlie).exists()


def test_a_teammate_needs_a_role_in_the_workspace(
    as_alice: Actor, as_bob: Actor, bob: User, workspace: Workspace
) -> None:
    row = ready(as_alice, workspace)
    assert environment_get_for(actor=as_bob, environment_id=row.pk) == row
    with pytest.raises(Forbidden, match="admins and editors of the workspace can use environments"):
        environment_stop(actor=as_bob, environment=row)
    WorkspaceMember.objects.create(workspace=workspace, user=bob, role="edit")
    assert environment_stop(actor=as_bob, environment=row).state == "suspending"


def test_a_site_without_them_says_so(as_alice: Actor, workspace: Workspace) -> None:
    workspace.site.driver = "sandbox-cloud"
    workspace.site.save()
    with pytest.raises(Conflict, match="ber-1 offers no environments"):
        ordered(as_alice, workspace)


# -- its log -------------------------------------------------------------------------------------------------------


def test_the_log_is_fetched_by_a_task(as_alice: Actor, workspace: Workspace) -> None:
    row = ready(as_alice, workspace)
    environment_log_ask(actor=as_alice, environment=row)
    log_fetch(row.pk)
    found = EnvironmentLog.objects.get()
    assert ("listening at port 8888" in found.text, found.failure, found.due_at) == (True, "", None)
    failure_plan(workspace.site_id, verb="environment-log", error="unavailable", times=ALWAYS)
    environment_log_ask(actor=as_alice, environment=row)
    log_fetch(row.pk)
    found.refresh_from_db()
    assert (found.text, found.failure) == ("", "the site did not answer in time")
    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    with pytest.raises(Conflict, match="start it first"):
        environment_log_ask(actor=as_alice, environment=row)


def test_kinds_that_are_retired_are_not_ordered(as_alice: Actor, workspace: Workspace) -> None:
    kind_retire(actor=SYSTEM, kind=kind())
    with pytest.raises(Invalid, match="not offered any more"):
        ordered(as_alice, workspace)


def test_projects_are_apart(as_alice: Actor, workspace: Workspace, project: Project) -> None:
    ready(as_alice, workspace)
    assert environments_for(actor=as_alice, project=project).count() == 1
    assert not environments_for(actor=as_alice, project=project, search="other").exists()

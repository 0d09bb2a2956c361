"""A kind with workers: what it may say, what an order takes of its workspace, and that its pods live and end together."""

from datetime import timedelta
from typing import Any

import pytest

from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid, QuotaRefused
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment, EnvironmentLog
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.services import (
    environment_clone,
    environment_create,
    environment_delete,
    environment_log_ask,
    environment_restart,
    environment_start,
    environment_stop,
    kind_create,
)
from gpuaas.environments.shipped import SHIPPED
from gpuaas.environments.spec import spec_of
from gpuaas.gpustats.models import GpuSample
from gpuaas.gpustats.selectors import environment_use
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete, pod_evict
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import room_of
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from tenants.actors import SYSTEM, Actor
from tests.environments.stage import DOCUMENT, homes, ordered, pods, ready, run_now, settle
from tests.factories.quotas import counters_must_match
from tests.workspaces import stage as workspaces

WORKERS: dict[str, Any] = {"most": 8, "count": 2, "image": "worker:1", "command": ["work", "$(MAIN)"]}
CLUSTER: dict[str, Any] = {**DOCUMENT, "gpus": 0, "workers": WORKERS}


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    kind_create(actor=SYSTEM, slug="cluster", name="Cluster", document=CLUSTER)


def order(actor: Actor, workspace: Workspace, name: str = "lab", **wanted: Any) -> Environment:
    return environment_create(actor=actor, workspace=workspace, kind="cluster", name=name, **wanted)


def made(actor: Actor, workspace: Workspace, name: str = "lab", **wanted: Any) -> Environment:
    row = settle(order(actor, workspace, name, **wanted))
    assert row.state == "ready", row.failure
    return row


def taken(workspace: Workspace) -> dict[str, int]:
    room = room_of(workspace=workspace)
    gpus = sum(each.taken for each in room.pools.values())
    return {"gpus": gpus, **{name: each.taken for name, each in room.amounts.items()}}


# -- what a document may say ---------------------------------------------------------------------------------------


def test_sizes_that_the_document_leaves_out_are_open() -> None:
    found = definition_read({**CLUSTER, "workers": {"most": 4, "vcpus": 8}}).workers
    assert found is not None
    assert (found.count, found.open, dict(found.sizes)) == (
        1,
        ("gpus", "memory_gib"),
        {"gpus": 0, "vcpus": 8, "memory_gib": 8},
    )
    assert definition_read(DOCUMENT).workers is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"workers": 3}, "workers"),
        ({"workers": {}}, "workers.most"),
        ({"workers": {"most": 65}}, "workers.most"),
        ({"workers": {"most": 2, "count": 3}}, "workers.count: no more than 2"),
        ({"workers": {"most": 2, "image": "not an image"}}, "workers.image"),
        ({"workers": {"most": 2, "home": "/x"}}, "home"),
        (
            {"workers": {"most": 2, "memory_gib": 3, "memory_gib_least": 4}},
            "workers.memory_gib: no less than 4",
        ),
        ({"variables": ["MAIN=x"]}, "MAIN comes from the portal"),
        (
            {"parameters": {"type": "object", "properties": {"workers": {"type": "string"}}}},
            "WORKERS is set already",
        ),
    ],
)
def test_documents_that_cannot_be(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        definition_read({**CLUSTER, **wrong})
    assert list(refused.value.fields) == ["document"]
    assert words in refused.value.message


def test_its_pods_know_one_another_by_the_portals_variables(as_alice: Actor, workspace: Workspace) -> None:
    row = order(as_alice, workspace, worker_gpus=1, worker_memory_gib=16)
    spec = spec_of(row)
    name = row.external_name
    assert dict(spec.variables) == {
        "FOLDER": "work",
        "MAIN": f"{name}-main",
        "WORKERS": "2",
        "WORKER_GPUS": "1",
        "WORKER_VCPUS": "2",
        "WORKER_MEMORY_GIB": "16",
    }
    second = spec.of_workers()[2]
    assert (second.name, second.image, second.command) == (f"{name}-w2", "worker:1", ("work", "$(MAIN)"))
    assert (second.port, second.gpus, second.vcpus, second.memory_gib) == (None, 1, 2, 16)
    assert second.variables["WORKER"] == "2"
    assert second.resource_name


def test_spark_is_shipped_and_its_workers_are_open() -> None:
    found = definition_read(SHIPPED["spark"][2]).workers
    assert found is not None
    assert found.open == ("gpus", "vcpus", "memory_gib")
    assert found.size_require("memory_gib", 2) == 2
    with pytest.raises(Invalid, match="at least 2 GiB") as refused:
        found.size_require("memory_gib", 1)
    assert list(refused.value.fields) == ["worker_memory_gib"]


def test_the_least_memory_is_what_an_order_gets_if_it_is_more_than_the_usual() -> None:
    found = definition_read({**CLUSTER, "workers": {"most": 2, "memory_gib_least": 12}}).workers
    assert found is not None
    assert (found.sizes["memory_gib"], found.least("memory_gib"), found.least("gpus")) == (12, 12, 0)
    assert found.size_require("memory_gib", None) == 12


# -- what an order takes -------------------------------------------------------------------------------------------


def test_workers_count_as_bought(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace, gpus=1, workers=3, worker_gpus=1, worker_vcpus=8, worker_memory_gib=100)
    whole = {"gpus": 4, "vcpus": 4 + 24, "memory_gib": 16 + 300}
    assert taken(workspace) == {**whole, "home_gib": 10}
    assert {name: row.takes[name] for name in whole} == whole
    counters_must_match()
    held = SandboxPod.objects.filter(namespace__name=workspace.external_name)
    assert sorted((pod.gpus, pod.vcpus, pod.memory_gib) for pod in held) == [(1, 4, 16), *[(1, 8, 100)] * 3]


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        (
            {"workers": 4, "worker_gpus": 1, "gpus": 1},
            "workers",
            "4 workers ask for 4 H100 SXM 80 GB: 3 of the 4",
        ),
        ({"workers": 8, "worker_vcpus": 8}, "workers", "8 workers ask for 64 vCPUs: 60 of the 64"),
        (
            {"workers": 1, "worker_memory_gib": 705},
            "workers",
            "1 worker asks for 705 GiB of memory: 704 of the 720",
        ),
        ({"vcpus": 65}, "vcpus", "has bought 64 vCPUs"),
    ],
)
def test_what_does_not_fit_is_refused_beside_its_field(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(QuotaRefused, match=words) as refused:
        order(as_alice, workspace, **wanted)
    assert refused.value.detail["field"] == field
    assert not Environment.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"workers": 9}, "workers"),
        ({"workers": -1}, "workers"),
        ({"workers": True}, "workers"),
        ({"worker_vcpus": 0}, "worker_vcpus"),
        ({"worker_memory_gib": 10**9}, "worker_memory_gib"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(
    as_alice: Actor, workspace: Workspace, wanted: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        order(as_alice, workspace, **wanted)
    assert list(refused.value.fields) == [field]


def test_a_size_that_the_kind_sets_cannot_be_chosen(as_alice: Actor, workspace: Workspace) -> None:
    fixed = {**CLUSTER, "workers": {"most": 2, "vcpus": 4}}
    kind_create(actor=SYSTEM, slug="fixed", name="Fixed", document=fixed)
    with pytest.raises(Invalid, match="each worker of this kind has 4"):
        environment_create(actor=as_alice, workspace=workspace, kind="fixed", name="lab", worker_vcpus=2)
    row = environment_create(actor=as_alice, workspace=workspace, kind="fixed", name="lab", worker_vcpus=4)
    assert (row.workers, row.worker_vcpus) == (1, 4)


def test_a_kind_without_workers_takes_none(as_alice: Actor, workspace: Workspace) -> None:
    for wanted in ({"workers": 1}, {"worker_vcpus": 1}):
        with pytest.raises(Invalid, match="this kind has no workers") as refused:
            ordered(as_alice, workspace, "lab", **wanted)
        assert list(refused.value.fields) == list(wanted)
    assert ordered(as_alice, workspace).workers == 0


def test_of_gpus_that_workers_alone_ask_for_the_type_is_asked(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace, worker_gpus=2)
    assert row.pool is not None
    assert (row.gpus, row.has_gpus, taken(workspace)["gpus"]) == (0, True, 4)


# -- its life ------------------------------------------------------------------------------------------------------


def test_all_of_it_starts_stops_and_ends_together(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace)
    name = row.external_name
    assert (pods(workspace), row.pods) == ([name, f"{name}-w1", f"{name}-w2"],) * 2
    assert homes(workspace) == [name]
    row = run_now(row)
    assert (row.observed["workers"], row.conditions["Running"]["message"]) == (2, "it answers")

    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, pods(workspace)) == ("suspended", [])
    assert taken(workspace) == {"gpus": 0, "vcpus": 0, "memory_gib": 0, "home_gib": 10}
    environment_start(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, len(pods(workspace))) == ("ready", 3)
    environment_restart(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.state, len(pods(workspace))) == ("ready", 3)

    environment_delete(actor=as_alice, environment=row)
    assert (settle(row).state, pods(workspace), homes(workspace)) == ("deleted", [], [])


def test_none_is_a_number_too(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace, workers=0, worker_gpus=64)
    assert pods(workspace) == [row.external_name]
    assert (row.of_worker, row.pool) == ({"gpus": 0, "vcpus": 0, "memory_gib": 0}, None)
    with pytest.raises(Invalid) as refused:
        order(as_alice, workspace, "second", workers=0, worker_gpus=65)
    assert list(refused.value.fields) == ["worker_gpus"]


def test_a_clone_has_as_many_of_the_same_size(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace, workers=1, worker_gpus=2, worker_vcpus=3)
    clone = settle(environment_clone(actor=as_alice, environment=row, name="second"))
    assert (clone.state, clone.workers, clone.of_worker) == ("ready", 1, row.of_worker)
    with pytest.raises(QuotaRefused, match="1 worker asks for 2 H100"):
        environment_clone(actor=as_alice, environment=row, name="third")


def test_one_that_was_stopped_starts_only_where_its_workers_fit(
    as_alice: Actor, workspace: Workspace
) -> None:
    row = made(as_alice, workspace, worker_gpus=2)
    environment_stop(actor=as_alice, environment=row)
    row = settle(row)
    ready(as_alice, workspace, "other", gpus=1)
    with pytest.raises(QuotaRefused, match="2 workers ask for 4 H100 SXM 80 GB: 3 of the 4"):
        environment_start(actor=as_alice, environment=row)


def test_a_worker_that_is_gone_comes_back_beside_the_main_pod(as_alice: Actor, workspace: Workspace) -> None:
    row = run_now(made(as_alice, workspace, worker_gpus=2))
    main = SandboxPod.objects.get(name=row.external_name).uid
    lost = SandboxPod.objects.get(name=f"{row.external_name}-w2")
    assert pod_evict(workspace.site_id, workspace.external_name, str(lost.uid), reason="the node is drained")
    pod_create(workspace.site_id, workspace.external_name, "train", 2)
    row = run_now(row)
    said = row.conditions["Running"]
    assert (said["status"], row.observed["workers"]) == ("True", 1)
    assert "a worker of it was gone, so it is started again: pods" in said["message"]
    assert "exceeded quota" in said["message"]

    pod_delete(workspace.site_id, workspace.external_name, "train")
    row = run_now(run_now(row))
    assert (row.conditions["Running"]["message"], row.observed["workers"]) == ("it answers", 2)
    assert SandboxPod.objects.get(name=row.external_name).uid == main


def test_a_worker_without_room_does_not_fail_a_start(as_alice: Actor, workspace: Workspace) -> None:
    """Pods of members, which no order counts, may have the room."""
    pod_create(workspace.site_id, workspace.external_name, "train", 2)
    row = run_now(made(as_alice, workspace, worker_gpus=2))
    said = row.conditions["Running"]
    assert (said["status"], row.observed["workers"]) == ("True", 1)
    assert "exceeded quota" in said["message"]
    assert "exceeded quota" in row.operations.get().steps.get(key="start").detail
    pod_delete(workspace.site_id, workspace.external_name, "train")
    row = run_now(run_now(row))
    assert (row.conditions["Running"]["message"], row.observed["workers"]) == ("it answers", 2)


def test_a_main_pod_without_room_fails_it(as_alice: Actor, workspace: Workspace) -> None:
    pod_create(workspace.site_id, workspace.external_name, "train", 4)
    row = settle(order(as_alice, workspace, gpus=1))
    assert (row.state, "exceeded quota" in row.failure, pods(workspace)) == ("failed", True, ["train"])


def test_it_is_ready_as_its_main_pod_is(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace)
    lost = SandboxPod.objects.get(name=f"{row.external_name}-w2")
    pod_evict(workspace.site_id, workspace.external_name, str(lost.uid), reason="the node is drained")
    dials_set(workspace.site_id, environment_ms=60_000)
    SandboxPod.objects.update(scheduled_at="2026-01-01T00:00:00Z")
    row = run_now(row)
    assert (row.state, row.conditions["Running"]["message"]) == ("ready", "it answers; 1 of 2 workers runs")


def test_one_that_is_still_ending_is_looked_at_soon(as_alice: Actor, workspace: Workspace) -> None:
    row = run_now(made(as_alice, workspace, worker_gpus=2))
    assert row.due_at is not None
    assert row.due_at > now() + timedelta(seconds=40)
    lost = SandboxPod.objects.filter(name=f"{row.external_name}-w2")
    lost.update(gone_at=now() + timedelta(seconds=30))
    row = run_now(row)
    assert row.due_at is not None
    assert row.due_at < now() + timedelta(seconds=5)
    lost.update(gone_at=now())
    pod_create(workspace.site_id, workspace.external_name, "train", 2)
    row = run_now(row)
    assert "exceeded quota" in row.conditions["Running"]["message"]
    assert row.due_at is not None
    assert row.due_at > now() + timedelta(seconds=40)


def test_gpus_of_workers_at_work_are_use(as_alice: Actor, workspace: Workspace) -> None:
    row, moment = made(as_alice, workspace, worker_gpus=1), now()
    about: dict[str, Any] = {
        "site": row.site,
        "workspace": workspace,
        "project": row.project,
        "node": "n",
        "seconds": 60,
    }
    about |= {"namespace": workspace.external_name, "at": moment - timedelta(minutes=1)}
    GpuSample.objects.create(pod=row.pods[1], device="GPU-1", utilization=50.0, **about)
    found = environment_use(row, moment - timedelta(hours=1), moment)
    assert (found.busy_at, found.unknown != "") == (about["at"], True)
    GpuSample.objects.create(pod=row.pods[2], device="GPU-2", utilization=0.0, **about)
    assert environment_use(row, moment - timedelta(hours=1), moment).unknown == ""


def test_its_workspace_takes_the_workers_along(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace)
    workspace_suspend(actor=as_alice, workspace=workspace)
    assert (settle(row).state, pods(workspace)) == ("suspended", [])
    workspaces.settle(workspace)
    workspace_delete(actor=as_alice, workspace=workspace)
    assert workspaces.settle(workspace).state == "deleted"
    assert settle(row).state == "deleted"


def test_the_log_of_one_worker(as_alice: Actor, workspace: Workspace) -> None:
    row = made(as_alice, workspace)
    environment_log_ask(actor=as_alice, environment=row, worker=2)
    log_fetch(row.pk)
    found = EnvironmentLog.objects.get()
    assert (found.worker, "worker:1 on" in found.text) == (2, True)
    environment_log_ask(actor=as_alice, environment=row)
    log_fetch(row.pk)
    found.refresh_from_db()
    assert (found.worker, "notebook:1 on" in found.text) == (0, True)
    for wrong in (3, -1, True):
        with pytest.raises(Invalid, match="it has 2 workers"):
            environment_log_ask(actor=as_alice, environment=row, worker=wrong)


def test_a_text_keeps_the_number_of_its_worker(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody asks for another one's while the site answers: that is fetched next."""
    row = made(as_alice, workspace)
    environment_log_ask(actor=as_alice, environment=row, worker=1)
    answer = SandboxEnvironments.log

    def slowly(*args: Any, **about: Any) -> str:
        environment_log_ask(actor=as_alice, environment=row, worker=2)
        assert EnvironmentLog.objects.values_list("worker", "asked", "text").get() == (0, 2, "")
        return answer(*args, **about)

    with monkeypatch.context() as patched:
        patched.setattr(SandboxEnvironments, "log", slowly)
        log_fetch(row.pk)
    assert EnvironmentLog.objects.exclude(due_at=None).values_list("worker", "asked").get() == (1, 2)
    log_fetch(row.pk)
    assert EnvironmentLog.objects.filter(due_at=None).values_list("worker", "asked").get() == (2, 2)

"""Ways around Kueue's quota that were published, and their likes, tried by alice, who may edit everything that members may."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from deploy.lab.kueue import Lab
from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import queues
from gpuaas.providers.kubeapi.client import Api, Object
from tests.contracts.rigs import pod
from tests.lab.fixtures import carry_out, until
from tests.lab.kueue.conftest import GPU, JOBS, QUEUED, QueueRoom, job, new_room
from tests.providers.kubernetes.fitness.conftest import PortalSite

DEPLOYMENTS = "/apis/apps/v1"
DRA = "/apis/resource.k8s.io/v1"


@pytest.fixture(scope="module")
def place(portal: PortalSite) -> Iterator[QueueRoom]:
    """One for all, since nothing of it is changed for good."""
    made = new_room(portal)
    yield made
    carry_out(made.driver, Change.DELETE, made.spec)


@pytest.fixture
def room(place: QueueRoom) -> Iterator[QueueRoom]:
    yield place
    for path in (place.path("deployments", DEPLOYMENTS), place.path("jobs", JOBS)):
        place.admin.delete(path, propagationPolicy="Background")
    place.admin.delete(place.path("pods"), gracePeriodSeconds="0")
    until(lambda: not place.admin.items(place.path("workloads", queues.KUEUE)), "the queue is empty")


def refused(attempt: Callable[[], object]) -> str:
    """By a guard of ours, not by anybody's right that is missing: Kueue's own answers differ from version to version."""
    with pytest.raises((Permanent, Unauthorized)) as error:
        attempt()
    assert "gpuaas-queue" in error.value.message or "gpuaas-claims" in error.value.message
    return error.value.message


def queued_pod(name: str, **metadata: object) -> Object:
    """Without a GPU: a pod counts against the quota of the workspace while it waits, too."""
    made = pod(name, {"cpu": "1", "memory": "1Gi"})
    made["metadata"] |= {"labels": dict(QUEUED), **metadata}
    return made


@contextmanager
def held(room: QueueRoom) -> Iterator[None]:
    """Its queue lets nothing start."""
    path = f"{room.path('localqueues', queues.KUEUE)}/gpuaas"
    room.admin.merge(path, {"spec": {"stopPolicy": "Hold"}})
    until(lambda: "is stopped" in str(room.admin.get(path)["status"]["conditions"]), "the queue is held")
    yield
    room.admin.merge(path, {"spec": {"stopPolicy": "None"}})


def fill(room: QueueRoom) -> None:
    room.queue_job("full", gpus=2)
    room.runs("full")


def test_the_name_of_another_workload(room: QueueRoom) -> None:
    fill(room)
    workload = room.admin.items(room.path("workloads", queues.KUEUE))[0]["metadata"]["name"]
    for key in ("pod-group-name", "prebuilt-workload-name"):
        one = queued_pod("one", labels={**QUEUED, f"kueue.x-k8s.io/{key}": workload})
        one["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "1"}
        assert "instead of a group of pods" in refused(lambda: room.tenant.create(room.path("pods"), one))  # noqa: B023
    two = queued_pod("two", annotations={"kueue.x-k8s.io/pod-group-name": workload})
    refused(lambda: room.tenant.create(room.path("pods"), two))
    room.tenant.create(room.path("pods"), queued_pod("three"))
    later = {"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": workload}}}
    refused(lambda: room.tenant.merge(f"{room.path('pods')}/three", later))
    prebuilt = job("four", labels={**QUEUED, "kueue.x-k8s.io/prebuilt-workload-name": workload})
    refused(lambda: room.tenant.create(room.path("jobs", JOBS), prebuilt))


@pytest.mark.parametrize("where", ["Job", "CronJob", "Deployment", "ReplicaSet"])
def test_the_name_of_another_workload_in_a_template(room: QueueRoom, where: str) -> None:
    template = queued_pod("one", labels={"app": "one", "kueue.x-k8s.io/pod-group-name": "job-full-1"})
    template = {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    meta = {"metadata": {"name": "one"}}
    group, plural, body = {
        "Job": (JOBS, "jobs", {"template": template}),
        "CronJob": (
            JOBS,
            "cronjobs",
            {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}},
        ),
        "Deployment": (
            DEPLOYMENTS,
            "deployments",
            {"selector": {"matchLabels": {"app": "one"}}, "template": template},
        ),
        "ReplicaSet": (
            DEPLOYMENTS,
            "replicasets",
            {"selector": {"matchLabels": {"app": "one"}}, "template": template},
        ),
    }[where]
    template["spec"]["restartPolicy"] = "Never" if group == JOBS else "Always"
    made = {"apiVersion": group.removeprefix("/apis/"), "kind": where, **meta, "spec": body}
    refused(lambda: room.tenant.create(room.path(plural, group), made))


def test_a_job_that_grows_while_it_runs(room: QueueRoom) -> None:
    room.queue_job("one", parallelism=1, completions=4)
    room.runs("one")
    path = f"{room.path('jobs', JOBS)}/one"
    assert "does not grow" in refused(lambda: room.tenant.merge(path, {"spec": {"parallelism": 2}}))
    elastic = {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}}
    refused(lambda: room.tenant.merge(path, elastic))
    room.tenant.merge(path, {"spec": {"parallelism": 0}})


def test_a_pod_that_grows(room: QueueRoom) -> None:
    """While it waits, since the nodes of this lab resize none that runs."""
    with held(room):
        room.tenant.create(room.path("pods"), queued_pod("one"))
        larger = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "100Gi"}
        container = room.pod("one")["spec"]["containers"][0]
        container["resources"] = {
            "limits": {**container["resources"]["limits"], **larger},
            "requests": {**container["resources"]["requests"], "cpu": "2"},
        }
        change = {"spec": {"containers": [container]}}
        assert "keeps its size" in refused(
            lambda: room.tenant.merge(f"{room.path('pods')}/one/resize", change)
        )


def test_a_queue_name_that_is_taken_off(room: QueueRoom) -> None:
    room.queue_job("one")
    room.runs("one")
    fill_path = f"{room.path('jobs', JOBS)}/one"
    for name in (None, "another"):
        change = {"metadata": {"labels": {queues.LABEL: name}}}
        assert "stays in it" in refused(lambda: room.tenant.merge(fill_path, change))  # noqa: B023
    room.queue_job("two", gpus=2)
    room.waits("two")
    waiting = f"{room.path('jobs', JOBS)}/two"
    refused(lambda: room.tenant.merge(waiting, {"metadata": {"labels": {queues.LABEL: None}}}))


def test_who_starts_what_waits(room: QueueRoom) -> None:
    fill(room)
    room.queue_job("two")
    room.waits("two")
    path = f"{room.path('jobs', JOBS)}/two"
    assert "Kueue starts the job" in refused(lambda: room.tenant.merge(path, {"spec": {"suspend": False}}))
    with held(room):
        room.tenant.create(room.path("pods"), queued_pod("three"))
        gates: Object = {"spec": {"schedulingGates": []}}
        refused(lambda: room.tenant.merge(f"{room.path('pods')}/three", gates))


def test_workloads_and_queues_are_not_written_by_members(room: QueueRoom) -> None:
    """They have no right to; where somebody gave them one, the guards refuse it."""
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "mine"},
        "spec": {"queueName": "gpuaas", "podSets": [_pods("1")]},
    }
    path = room.path("workloads", queues.KUEUE)
    with pytest.raises(GpuaasError):
        room.tenant.create(path, workload)
    with pytest.raises(GpuaasError):
        room.tenant.merge(
            f"{queues.CLUSTER_QUEUES}/{room.spec.external_name}", {"spec": {"cohortName": "all"}}
        )
    rules = [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}]
    roles = room.path("roles", "/apis/rbac.authorization.k8s.io/v1")
    room.admin.create(
        roles,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "given"},
            "rules": rules,
        },
    )
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "given"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "given"},
        "subjects": [{"kind": "ServiceAccount", "name": "u-alice", "namespace": room.spec.external_name}],
    }
    room.admin.create(room.path("rolebindings", "/apis/rbac.authorization.k8s.io/v1"), bound)
    until(
        lambda: "gpuaas-queues" in _answer(lambda: room.tenant.create(path, workload)), "the guard refuses it"
    )
    local = f"{room.path('localqueues', queues.KUEUE)}/gpuaas"
    refused(lambda: room.tenant.merge(local, {"spec": {"stopPolicy": "Hold"}}))
    refused(lambda: room.tenant.delete(local))


def _answer(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except GpuaasError as error:
        return error.message
    return ""


def _pods(gpus: str, count: int = 1, *, containers: int = 1, cores: str = "1") -> Object:
    requests = {GPU: gpus, "cpu": cores}
    made = [
        {"name": f"main-{number}", "image": "none", "resources": {"requests": requests}}
        for number in range(containers)
    ]
    return {
        "name": "main",
        "count": count,
        "template": {"spec": {"containers": made, "restartPolicy": "Never"}},
    }


@pytest.mark.parametrize(
    "pods",
    [
        _pods("-2"),
        _pods("9223372036854775807"),
        _pods("1", 2_000_000_000),
        _pods("100Ti", 10_000, containers=9),
        _pods("1", 10_000, containers=51),
        _pods("1", 10_000, cores="1M"),
    ],
)
def test_amounts_that_would_be_room(room: QueueRoom, kueue_lab: Lab, pods: Object) -> None:
    """By Kueue's own account, as it makes them of what members write."""
    controller = Api(kueue_lab.controller_kubeconfig.read_text())
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "odd"},
        "spec": {"queueName": "gpuaas", "podSets": [pods]},
    }
    path = room.path("workloads", queues.KUEUE)
    assert "gpuaas-workloads" in _answer(lambda: controller.create(path, workload))


def test_claims_of_more_devices_than_a_number_holds(room: QueueRoom) -> None:
    asks = [
        {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 9223372036854775807}}
        for name in ("one", "two")
    ]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "many"},
        "spec": {"spec": {"devices": {"requests": asks}}},
    }
    said = refused(lambda: room.tenant.create(room.path("resourceclaimtemplates", DRA), template))
    assert "gpuaas-claims" in said


def test_what_kueue_would_count_too_low(room: QueueRoom) -> None:
    made = job("one")
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}
    assert "not its limits" in refused(lambda: room.tenant.create(room.path("jobs", JOBS), made))
    beside = job("beside")
    beside["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "beside", "image": "none", "restartPolicy": "Always", "resources": container["resources"]}
    ]
    assert "not its limits" in refused(lambda: room.tenant.create(room.path("jobs", JOBS), beside))
    later = {
        "metadata": {"name": "later"},
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"metadata": {"labels": dict(QUEUED)}, "spec": made["spec"]},
        },
    }
    assert "not its limits" in refused(lambda: room.tenant.create(room.path("cronjobs", JOBS), later))


def test_what_is_ordinary_is_admitted(room: QueueRoom) -> None:
    room.tenant.create(room.path("pods"), queued_pod("one"))
    room.run_to("one", "Running")
    labels = {"app": "served"}
    container = job("served", 0)["spec"]["template"]["spec"]["containers"]
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "served", "labels": dict(QUEUED)},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": container}},
        },
    }
    path = room.path("deployments", DEPLOYMENTS)
    room.tenant.create(path, body)
    until(
        lambda: (room.admin.get(f"{path}/served").get("status") or {}).get("readyReplicas") == 2, "both serve"
    )
    room.tenant.merge(f"{path}/served", {"spec": {"replicas": 3}})
    room.tenant.merge(
        f"{path}/served", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    )
    room.queue_job("two", backoffLimit=1)
    room.runs("two")
    room.tenant.merge(f"{room.path('pods')}/one", {"metadata": {"labels": {"mine": "yes"}}})
    room.tenant.delete(f"{room.path('pods')}/one")


def test_past_the_queue_is_the_quota_all_the_same(room: QueueRoom) -> None:
    """A pod that names no queue is not Kueue's; the quota counts it, and a job that Kueue admits meanwhile waits for its pods."""
    plain = pod("plain", {"cpu": "1", "memory": "1Gi", GPU: "2"})
    room.tenant.create(room.path("pods"), plain)
    room.run_to("plain", "Running")
    room.queue_job("one", gpus=1)
    until(
        lambda: any(
            "exceeded quota" in event["message"]
            for event in room.admin.items(room.path("events"), fieldSelector="reason=FailedCreate")
        ),
        "the quota refuses its pod",
    )
    room.tenant.delete(f"{room.path('pods')}/plain")
    until(lambda: (room.job("one").get("status") or {}).get("active"), "it runs after all")

"""The objects of an environment, why one does not answer, and what its pod may not be or become."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.core.errors import Permanent, QuotaRefused
from gpuaas.providers.base import Change, EnvironmentSpec, WorkerSpec, WorkspaceRef
from gpuaas.providers.kubeapi import manifests, names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes import workers
from gpuaas.providers.kubernetes.environments import (
    home_of,
    hopeless,
    pod_of,
    policy_of,
    service_of,
    waits_for,
)
from gpuaas.providers.kubernetes.workers import CONTAINER, is_ready
from tests.contracts.rigs.kubernetes import volume_for
from tests.lab.fixtures import carry_out, until
from tests.providers.kubernetes.conftest import Room, make_spec

SPEC = EnvironmentSpec(
    id=uuid.UUID("01a217b0-2b69-76ca-882c-cd2c6d04cabc"),
    name="env-6d04cabc-lab",
    workspace=WorkspaceRef(uuid.uuid4(), "gpu-00000000-train"),
    image="notebook:1",
    port=8888,
    readiness="/api",
    home="/home/user",
    home_gib=10,
    vcpus=4,
    memory_gib=16,
    user=1000,
    gpus=2,
    resource_name="nvidia.com/gpu",
    arguments=("--folder=$(FOLDER)",),
    variables={"FOLDER": "work"},
)
HOST = f"{SPEC.name}-main"
CLUSTER = replace(SPEC, workers=WorkerSpec(2, HOST, "worker:1", 1, 2, 1, command=("work", "$(MAIN)")))


def test_the_pod_asks_for_exactly_what_was_ordered() -> None:
    spec = pod_of(SPEC)["spec"]
    (container,) = spec["containers"]
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"}
    assert container["resources"] == {"limits": amounts, "requests": amounts}
    assert container["args"] == ["--folder=$(FOLDER)"]
    assert container["env"] == [{"name": "FOLDER", "value": "work"}]
    assert "command" not in container
    (without,) = pod_of(replace(SPEC, gpus=0, resource_name=""))["spec"]["containers"]
    assert without["resources"]["limits"] == {"cpu": "4", "memory": "16Gi"}


def test_without_a_port_nobody_comes_in_and_nothing_has_to_answer() -> None:
    shell = replace(SPEC, port=None)
    (container,) = pod_of(shell)["spec"]["containers"]
    assert not {"ports", "readinessProbe"} & container.keys()
    assert policy_of(shell)["spec"]["ingress"] == []
    assert policy_of(SPEC)["spec"]["ingress"] != []


def test_nothing_of_the_portals_is_in_it() -> None:
    pod = pod_of(SPEC)
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod["spec"]
    assert [next(iter(set(each) - {"name"})) for each in pod["spec"]["volumes"]] == [
        "persistentVolumeClaim",
        "emptyDir",
    ]
    (container,) = pod["spec"]["containers"]
    assert "envFrom" not in container
    assert not any("valueFrom" in each for each in container["env"])


def test_the_home_is_of_the_class_that_plain_storage_is_taken_from() -> None:
    assert "storageClassName" not in home_of(SPEC)["spec"]
    assert home_of(replace(SPEC, storage_class="fast"))["spec"]["storageClassName"] == "fast"


def test_openshift_chooses_the_account_itself() -> None:
    assert pod_of(SPEC)["spec"]["securityContext"]["runAsUser"] == 1000
    chosen = pod_of(SPEC, chooses_users=False)["spec"]["securityContext"]
    assert (chosen["runAsNonRoot"], "runAsUser" in chosen, "fsGroup" in chosen) == (True, False, False)


def test_only_the_door_comes_in_at_the_one_port() -> None:
    policy = policy_of(SPEC)["spec"]
    door = {"namespaceSelector": {"matchLabels": {names.DOOR: "true"}}}
    assert policy["ingress"] == [{"from": [door], "ports": [{"protocol": "TCP", "port": 8888}]}]
    selected = policy["podSelector"]["matchLabels"]
    assert selected.items() <= pod_of(SPEC)["metadata"]["labels"].items()
    assert service_of(SPEC)["spec"]["selector"] == selected


def test_no_rule_for_all_pods_admits_others_to_it() -> None:
    """Policies add up, so each that lets something in has to leave environments out."""
    for policy in manifests.network_policies(make_spec()):
        if policy["spec"].get("ingress"):
            (left_out,) = policy["spec"]["podSelector"]["matchExpressions"]
            assert left_out == {"key": names.ENVIRONMENT, "operator": "DoesNotExist"}


def test_the_steps_of_the_workspace_leave_its_objects_alone() -> None:
    for body in (home_of(SPEC), service_of(SPEC), policy_of(SPEC), pod_of(SPEC)):
        assert names.WORKSPACE not in body["metadata"]["labels"]
        assert body["metadata"]["labels"][names.ENVIRONMENT] == str(SPEC.id)


def seen(state: Object | None = None, *, restarts: int = 0, ready: bool = False, **more: Any) -> Object:
    container: Object = {"name": CONTAINER, "restartCount": restarts, "state": state or {}, **more}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "containerStatuses": [container], "conditions": conditions}
    meta = {"name": "lab", "uid": "u", "creationTimestamp": "2026-11-26T12:00:00Z"}
    return {"metadata": meta, "spec": {"containers": [{}], "nodeName": "n1"}, "status": status}


@pytest.mark.parametrize(
    ("pod", "words", "no_hope"),
    [
        (seen({"running": {}}), "it runs on n1, and does not answer at /api yet", False),
        (
            seen({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            "no such image",
            True,
        ),
        (seen({"waiting": {"reason": "ContainerCreating"}}), "it starts", False),
        (
            seen(
                {"waiting": {"reason": "CrashLoopBackOff"}},
                restarts=3,
                lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            ),
            "its container has ended 3 times, last by OOMKilled, exit code 137: read its log",
            True,
        ),
        (seen({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=1), "CrashLoopBackOff", False),
    ],
)
def test_why_it_does_not_answer(pod: Object, words: str, no_hope: bool) -> None:
    assert words in waits_for(pod, SPEC)
    assert hopeless(pod) is no_hope
    assert not is_ready(pod)


def test_one_that_is_ending_is_not_ready() -> None:
    pod = seen({"running": {}}, ready=True)
    assert is_ready(pod)
    pod["metadata"]["deletionTimestamp"] = "2026-11-26T12:00:00Z"
    assert (is_ready(pod), waits_for(pod, SPEC)) == (False, "it is ending")


# -- workers -------------------------------------------------------------------------------------------------------


def test_a_worker_is_a_pod_of_its_own_size_without_a_home() -> None:
    first, second = (workers.pod_of(each) for each in CLUSTER.of_workers().values())
    assert (first["metadata"]["name"], second["metadata"]["name"]) == (f"{SPEC.name}-w1", f"{SPEC.name}-w2")
    (container,) = first["spec"]["containers"]
    amounts = {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}
    assert (container["image"], container["command"]) == ("worker:1", ["work", "$(MAIN)"])
    assert container["resources"] == {"limits": amounts, "requests": amounts}
    assert not {"ports", "readinessProbe", "args"} & container.keys()
    assert [next(iter(set(each) - {"name"})) for each in first["spec"]["volumes"]] == ["emptyDir"]
    assert first["spec"]["automountServiceAccountToken"] is False


def test_the_door_and_the_name_lead_to_the_main_pod_alone() -> None:
    main, worker = pod_of(CLUSTER), workers.pod_of(CLUSTER.of_worker(1))
    (named,) = workers.services_of(CLUSTER)
    assert (named["metadata"]["name"], named["spec"]["clusterIP"]) == (HOST, "None")
    assert named["spec"]["publishNotReadyAddresses"] is True
    assert (main["spec"]["hostname"], main["spec"]["subdomain"]) == (HOST, HOST)
    chosen = [named["spec"]["selector"], service_of(CLUSTER)["spec"]["selector"]]
    chosen.append(policy_of(CLUSTER)["spec"]["podSelector"]["matchLabels"])
    for labels in chosen:
        assert labels.items() <= main["metadata"]["labels"].items()
        assert not labels.items() <= worker["metadata"]["labels"].items()


def test_pods_of_one_environment_alone_reach_each_other() -> None:
    (policy,) = workers.policies_of(CLUSTER)
    own = {"podSelector": {"matchLabels": {names.ENVIRONMENT: str(SPEC.id)}}}
    assert policy["spec"]["ingress"] == [{"from": [own]}]
    assert policy["spec"]["podSelector"] == own["podSelector"]
    for pod in (pod_of(CLUSTER), workers.pod_of(CLUSTER.of_worker(1))):
        assert own["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_without_workers_all_is_as_it_was() -> None:
    assert not workers.services_of(SPEC)
    assert not workers.policies_of(SPEC)
    assert names.PART not in pod_of(SPEC)["metadata"]["labels"]
    assert not {"hostname", "subdomain"} & pod_of(SPEC)["spec"].keys()


def worker_seen(number: int, **state: Any) -> Object:
    pod = seen(**state)
    pod["metadata"]["name"] = f"{SPEC.name}-w{number}"
    return pod


@pytest.mark.parametrize(
    ("found", "running", "missing", "words"),
    [
        ([worker_seen(1, ready=True), worker_seen(2, ready=True)], 2, 0, ""),
        ([worker_seen(2, ready=True)], 1, 1, "1 of 2 workers runs; worker 1: it is gone"),
        (
            [
                worker_seen(1, ready=True),
                worker_seen(2, state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
            ],
            1,
            0,
            "1 of 2 workers runs; worker 2: ImagePullBackOff: no such image",
        ),
        ([], 0, 2, "0 of 2 workers run; worker 1: it is gone"),
    ],
)
def test_how_many_workers_run(found: list[Object], running: int, missing: int, words: str) -> None:
    assert workers.seen(found, CLUSTER) == workers.Seen(running, missing, words)


@pytest.mark.lab
def test_workers_are_restricted_and_no_member_makes_or_takes_one(room: Room) -> None:
    few = WorkerSpec(1, HOST, "worker:1", vcpus=1, memory_gib=1)
    spec = replace(SPEC, workspace=room.ref, home_gib=1, vcpus=1, memory_gib=1, gpus=1, workers=few)
    room.admin.create("/api/v1/persistentvolumes", volume_for(spec))
    site = room.driver.environments
    carry_out(site, Change.CREATE, spec, before="ready")
    space = f"/api/v1/namespaces/{room.spec.external_name}"
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    assert not [each for each in room.admin.warnings(space, strict) if spec.name in each]
    pod, service = f"{room.path('pods')}/{spec.name}-w1", f"{room.path('services')}/{HOST}"
    for taken in (names.PART, names.ENVIRONMENT):
        with pytest.raises(Permanent, match="belong to the portal"):
            room.tenant.merge(pod, {"metadata": {"labels": {taken: None}}})
    mine: Object = {"metadata": {"name": "mine", "labels": {names.PART: workers.MAIN}}}
    mine["spec"] = {"containers": [{"name": "main", "image": "notebook:1"}]}
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.create(room.path("pods"), mine)
    changed: Object = {"spec": {"selector": {"mine": "yes"}}}
    for unwanted in (lambda: room.tenant.merge(service, changed), lambda: room.tenant.delete(service)):
        with pytest.raises(Permanent, match="belongs to the portal"):
            unwanted()
    named = {"name": "mine", "labels": {"app": "mine"}}
    room.tenant.create(room.path("services"), {"metadata": named, "spec": {"ports": [{"port": 80}]}})
    assert room.tenant.merge(f"{room.path('services')}/mine", changed)["spec"]["selector"] == {"mine": "yes"}
    assert room.tenant.delete(f"{room.path('services')}/mine")
    assert room.admin.get(service)["spec"]["selector"] == workers.labels_of_main(spec)
    # a member may end one: it comes back
    room.tenant.delete(pod, gracePeriodSeconds="0")
    until(lambda: room.admin.find(pod) is None, "the worker is gone")
    seen_now = site.observe(spec)
    assert (seen_now.exists, seen_now.whole) == (True, False)
    carry_out(site, Change.CREATE, spec, before="ready")
    assert room.admin.find(pod) is not None
    carry_out(site, Change.DELETE, spec)
    policies = room.path("networkpolicies", "/apis/networking.k8s.io/v1")
    for path in (pod, service, f"{policies}/{spec.name}-workers", f"{policies}/{spec.name}"):
        assert room.admin.find(path) is None


@pytest.mark.lab
@pytest.mark.parametrize("spec", [SPEC, replace(CLUSTER, port=None)])
def test_a_service_over_the_quota_is_refused_in_our_words(room: Room, spec: EnvironmentSpec) -> None:
    quotas = room.path("resourcequotas")
    room.admin.create(quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"services": "0"}}})
    until(lambda: "hard" in (room.admin.get(f"{quotas}/few").get("status") or {}), "the quota counts")
    with pytest.raises(QuotaRefused, match="asked services=1"):
        room.driver.environments.perform(Change.CREATE, replace(spec, workspace=room.ref), "network")


@pytest.mark.lab
def test_it_is_restricted_and_no_member_makes_one(room: Room) -> None:
    """Pod Security's strictest level has nothing to say of it; its label and its policy are the portal's alone."""
    spec = replace(SPEC, workspace=room.ref, home_gib=1, vcpus=1, memory_gib=1, gpus=1)
    room.admin.create("/api/v1/persistentvolumes", volume_for(spec))
    site = room.driver.environments
    carry_out(site, Change.CREATE, spec, before="ready")
    space = f"/api/v1/namespaces/{room.spec.external_name}"
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    assert not [each for each in room.admin.warnings(space, strict) if spec.name in each]
    pod, policy = (
        f"{room.path('pods')}/{spec.name}",
        room.path("networkpolicies", "/apis/networking.k8s.io/v1"),
    )
    mine: Object = {"metadata": {"name": "mine", "labels": {names.ENVIRONMENT: str(spec.id)}}}
    mine["spec"] = {"containers": [{"name": "main", "image": "notebook:1"}]}
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.merge(pod, {"metadata": {"labels": {names.ENVIRONMENT: None}}})
    with pytest.raises(Permanent, match="belong to the portal"):
        room.tenant.create(room.path("pods"), mine)
    with pytest.raises(Exception, match=r"cannot|belongs to the portal"):
        room.tenant.delete(f"{policy}/{spec.name}")
    carry_out(site, Change.DELETE, spec)

"""The objects of an environment, why one does not answer, and what its pod may not be or become."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, EnvironmentSpec, WorkspaceRef
from gpuaas.providers.kubeapi import manifests, names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.environments import (
    CONTAINER,
    home_of,
    hopeless,
    is_ready,
    pod_of,
    policy_of,
    service_of,
    waits_for,
)
from tests.contracts.rigs.kubernetes import volume_for
from tests.lab.fixtures import carry_out
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

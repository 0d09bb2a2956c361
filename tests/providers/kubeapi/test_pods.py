"""When a pod held its devices, as far as its last state tells."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuaas.providers.kubeapi import pods, training
from gpuaas.providers.kubeapi.client import _unmanaged
from gpuaas.providers.kubeapi.demand import devices
from gpuaas.providers.kubeapi.pods import owner, vanished

SEEN = datetime(2026, 11, 21, 12, 5, tzinfo=UTC)


def deleted(**status: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    return {
        "metadata": {
            "uid": "1",
            "name": "one",
            "creationTimestamp": "2026-11-21T11:59:59Z",
            "deletionTimestamp": "2026-11-21T12:01:30Z",
        },
        "spec": {"nodeName": "h100-1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [scheduled], **status},
    }


def test_a_container_that_said_when_it_ended_is_believed_before_the_phase_follows() -> None:
    ended = {"name": "main", "state": {"terminated": {"finishedAt": "2026-11-21T12:01:01Z"}}}
    last = vanished(deleted(containerStatuses=[ended]), seen_at=SEEN)
    assert last.ended_at == datetime(2026, 11, 21, 12, 1, 1, tzinfo=UTC)


def test_without_its_word_the_deadline_is_the_end() -> None:
    running = {"name": "main", "state": {"running": {}}}
    for statuses in ([], [running]):
        last = vanished(deleted(containerStatuses=statuses), seen_at=SEEN)
        assert last.ended_at == datetime(2026, 11, 21, 12, 1, 30, tzinfo=UTC)


GPU = "nvidia.com/gpu"


def box(count: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {GPU: str(count)}}, **more}


@pytest.mark.parametrize(
    ("containers", "init", "whole_pod", "held"),
    [
        ([box(1), box(2)], [], {}, 3),
        ([box(1)], [box(4)], {}, 4),
        ([box(1)], [box(1, restartPolicy="Always")], {}, 2),
        ([box(1)], [box(4), box(1, restartPolicy="Always")], {}, 4),
        ([box(1)], [box(1, restartPolicy="Always"), box(4)], {}, 5),
        ([box(0)], [], {}, 0),
        ([box(1)], [], {"resources": {"limits": {GPU: "2", "cpu": "4"}}}, 2),
    ],
    ids=["sum", "init", "sidecar", "sidecar after init", "init after sidecar", "none", "of the pod"],
)
def test_devices_are_counted_as_the_scheduler_does(
    containers: list[Any], init: list[Any], whole_pod: dict[str, Any], held: int
) -> None:
    spec = {"containers": containers, "initContainers": init, **whole_pod}
    assert devices({"spec": spec}) == ({GPU: held} if held else {})


def test_two_names_of_one_class_are_one_resource() -> None:
    containers = [box(1), {"name": "b", "resources": {"requests": {"implicit/h200": "2"}}}]
    assert devices({"spec": {"containers": containers}}, {"implicit/h200": GPU}) == {GPU: 3}


@pytest.mark.parametrize(
    ("kind", "name", "labels", "made_by"),
    [
        ("Job", "train", {}, "Job/train"),
        ("ReplicaSet", "serve-7d9f", {"pod-template-hash": "7d9f"}, "Deployment/serve"),
        ("ReplicaSet", "serve-7d9f", {}, "ReplicaSet/serve-7d9f"),
        ("Job", "train-node-0", {training.NAME_LABEL: "train"}, "JobSet/train"),
        ("Job", "train", {training.NAME_LABEL: "other"}, "Job/train"),
        ("RayCluster", "ray", {}, "RayCluster/ray"),
    ],
)
def test_what_made_a_pod_is_what_it_says_itself(
    kind: str, name: str, labels: dict[str, str], made_by: str
) -> None:
    owners = [{"kind": "Watcher", "name": "w"}, {"kind": kind, "name": name, "controller": True}]
    assert owner({"labels": labels, "ownerReferences": owners}) == made_by
    assert owner({"labels": labels}) == ""


def test_field_owners_are_cut_out_of_a_line_and_nothing_else() -> None:
    trap = ',"managedFields":[ ]},"spec":'
    meta = {"name": "one", "annotations": {"note": trap}}
    owned = {**meta, "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {'k:{"a":"]}"}': {}}}}]}
    line = json.dumps({"metadata": owned, "spec": {"x": trap}}, separators=(",", ":")).encode()
    assert json.loads(_unmanaged(line)) == {"metadata": meta, "spec": {"x": trap}}
    plain = json.dumps({"metadata": meta, "spec": {"x": trap}}, separators=(",", ":")).encode()
    assert _unmanaged(plain) == plain


# seconds that no date holds; that make Kubernetes' own sum begin anew, in the past; the most that a request may say
@pytest.mark.parametrize("seconds", [400_000_000_000, 18_446_744_073, 2**63 - 1])
def test_a_grace_period_of_ages_keeps_a_pod_that_goes_on_and_nothing_else(seconds: int) -> None:
    """A member may end a pod with any number: the pod runs on, and so does its meter."""
    began = datetime(2026, 7, 1, 12, tzinfo=UTC)
    going: dict[str, Any] = {
        "metadata": {
            "uid": "u",
            "name": "a",
            "creationTimestamp": "2026-07-01T12:00:00Z",
            "deletionTimestamp": "1995-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": seconds,
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-07-01T12:00:00Z"}
            ],
        },
    }
    seen = pods.consumer(going)
    assert (seen.started_at, seen.ended_at, seen.uncharged_at, seen.deadline_at) == (began, None, None, None)
    later = began + timedelta(hours=9)
    assert pods.vanished(going, seen_at=later).ended_at == later

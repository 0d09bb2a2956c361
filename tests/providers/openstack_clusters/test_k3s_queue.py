"""What the head of a k3s cluster tells of its pods, and what it does with the answer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuaas.providers.base import ClusterKind
from gpuaas.providers.openstack.clusters.guest import Guest
from gpuaas.providers.openstack.clusters.k3s_queue import MARK, commands, report, workers_of
from tests.providers.openstack_clusters.stage import document, files, guest, installed, spec

GPU = "nvidia.com/gpu"
POOLS = [
    {"pool": "small", "gpus": 1, "workers": 2, "machines": 2},
    {"pool": "big", "gpus": 8, "workers": 2, "machines": 3},
]
QUEUE = "/etc/gpuaas/queue.header"


def node(
    name: str, pool: str = "small", *, ready: bool = True, closed: bool = False, ours: bool = False
) -> Any:
    labels = {"gpuaas.io/pool": pool} if pool else {}
    meta = {"name": f"c-1-{name}", "labels": labels, "annotations": {MARK: "yes"} if ours else {}}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {
        "metadata": meta,
        "spec": {"unschedulable": True} if closed else {},
        "status": {"conditions": conditions},
    }


def pod(where: str = "", gpus: int = 1, owner: str = "", *, leaves: bool = False, **more: Any) -> Any:
    asks = {"resources": {"requests": {GPU: str(gpus)}}} if gpus else {}
    owners = [{"kind": owner, "name": "x", "controller": True}] if owner else []
    return {
        "metadata": {"ownerReferences": owners} | ({"deletionTimestamp": "2026-01-01"} if leaves else {}),
        "spec": {"nodeName": f"c-1-{where}" if where else "", "containers": [{"name": "a", **asks}], **more},
        "status": {"phase": "Running" if where else "Pending"},
    }


def told(nodes: list[Any], *pods: Any) -> dict[str, Any]:
    return {one.pop("pool"): one for one in report(workers_of(nodes), pods, POOLS)["pools"]}


def test_pods_that_run_and_that_wait_are_counted_by_pool() -> None:
    found = told(
        [node("control-1", ""), node("small-1"), node("small-2"), node("big-1", "big")],
        pod("small-2"),
        pod("big-1", 4, "Job"),
        pod(gpus=1),
        pod(gpus=8),
        pod(nodeSelector={"gpuaas.io/pool": "big"}),
        pod(gpus=0),
    )
    assert found == {
        "small": {"used_gpus": 1, "pending_gpus": 1, "queued": 1, "busy": [2], "least": 2},
        "big": {"used_gpus": 4, "pending_gpus": 9, "queued": 2, "busy": [1], "least": 1},
    }


@pytest.mark.parametrize(
    ("on_it", "closed", "ready", "busy", "least"),
    [
        (pod("small-2"), True, True, [2], 2),
        (pod("small-2", owner="ReplicaSet"), True, True, [2], 2),
        (pod("small-2", 0, "Job"), True, True, [2], 2),
        (pod("small-2", 0), True, True, [2], 2),
        (pod("small-2", 0, "ReplicaSet"), True, True, [], 1),
        (pod("small-2", 1, "DaemonSet"), True, True, [], 1),
        (pod("small-2", leaves=True), True, True, [2], 2),
        (pod("small-2", leaves=True), True, False, [], 1),
        (pod("small-1"), True, True, [1], 1),
        (pod("small-1"), False, True, [1], 2),
        (pod("small-1"), False, False, [1], 2),
    ],
)
def test_a_worker_goes_when_nothing_would_be_lost_with_it(
    on_it: Any, closed: bool, ready: bool, busy: list[int], least: int
) -> None:
    """What Kubernetes starts anew elsewhere keeps no worker; what has GPUs, or nobody starts anew, does."""
    found = told([node("small-1"), node("small-2", closed=closed, ready=ready)], on_it)["small"]
    assert (found["busy"], found["least"]) == (busy, least)


def test_workers_that_are_to_go_are_cordoned_and_those_that_are_gone_forgotten() -> None:
    nodes = [
        node("small-1", closed=True),
        node("small-2", closed=True, ours=True),
        node("small-3", ready=False, closed=True, ours=True),
        node("big-2", "big"),
        node("big-3", "big"),
        node("big-4", "big"),
        node("big-5", "big", closed=True),
        node("far-9", "nobodys"),
        node("control-1", ""),
    ]
    done = [(verb, name, rest) for verb, _, name, *rest in commands(workers_of(nodes), POOLS)]
    assert [(verb, name) for verb, name, _ in done] == [
        ("patch", "c-1-small-2"),
        ("delete", "c-1-small-3"),
        ("patch", "c-1-big-3"),
        ("patch", "c-1-big-4"),
    ], "what somebody else has cordoned is left to them"
    opened, cordoned = (json.loads(done[at][2][1].partition("=")[2]) for at in (0, 2))
    assert opened == {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}}
    assert cordoned == {"metadata": {"annotations": {MARK: "yes"}}, "spec": {"unschedulable": True}}


def test_only_the_first_head_reports() -> None:
    made = spec(ClusterKind.KUBERNETES)
    head, worker = guest(made, heads=3), guest(made, made.pools[0])
    second = Guest(**{**vars(head), "name": f"{made.external_name}-control-2", "address": head.heads[1]})
    assert head.queue_token in files(head)[QUEUE]
    assert head.queue_token in head.secrets.values()
    for other in (second, worker):
        assert head.queue_token not in str(document(other))
        assert not [path for path in files(other) if "queue" in path]


def test_the_program_is_whole_on_a_machine_without_packages(tmp_path: Path) -> None:
    """By a Python that has its standard library alone, as cloud-init has written it; what the pools are it knows from then on."""
    made = spec(ClusterKind.KUBERNETES)
    etc = installed(guest(made), tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tmp_path / "nodes").write_text(json.dumps({"items": [node("small-1"), node("big-3", "big")]}))
    (tmp_path / "pods").write_text(json.dumps({"items": [pod("small-1"), pod(gpus=2)]}))
    (tmp_path / "answer").write_text(json.dumps({"pools": POOLS}))
    (tmp_path / "done").touch()
    reads = f"case $4 in /api/v1/nodes) cat {tmp_path}/nodes ;; /api/v1/pods*) cat {tmp_path}/pods ;; esac"
    does = {
        "python3": f'exec {sys.executable} -S "$@"',
        "k3s": f'if [ "$2" = get ]; then {reads}; else echo "$2 $4" >> {tmp_path}/done; fi',
        "curl": f'echo "$@" > {tmp_path}/asked; cat > {tmp_path}/told; cat {tmp_path}/answer',
    }
    for name, words in does.items():
        (tools / name).write_text(f"#!/bin/sh\n{words}\n")
        (tools / name).chmod(0o755)
    around = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GPUAAS_ETC": str(etc),
        "GPUAAS_LIB": str(tmp_path / "usr/local/lib/gpuaas"),
    }
    found = []
    for _ in range(2):
        subprocess.run([tmp_path / "usr/local/sbin/gpuaas-queue"], env=around, cwd=tmp_path, check=True)
        found.append(json.loads((tmp_path / "told").read_text())["pools"])
    assert found[0] == []
    assert [(one["pool"], one["used_gpus"], one["pending_gpus"], one["least"]) for one in found[1]] == [
        ("small", 1, 0, 1),
        ("big", 0, 2, 3),
    ]
    assert (tmp_path / "done").read_text().splitlines() == ["patch c-1-big-3"] * 2
    asked = (tmp_path / "asked").read_text()
    assert made.boots.queue_url in asked
    assert "gpq1" not in asked, "the token is in no list of processes"

"""Run twice a minute on the first head of a k3s cluster: reports to the portal what the pods of each pool use and wait for, and
which workers have work; then cordons those that are to go, and forgets those that are gone.

The head runs this very file, beside `demand` and `quantities` of kubeapi, so it imports nothing else but the standard library. What
the pools are, the portal answers to each report.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuaas.providers.kubeapi.demand import FINISHED, Load, Object, Workers, count, devices

RESOURCE = "nvidia.com/gpu"
POOL = "gpuaas.io/pool"  # of a node
MARK = "gpuaas.io/cordoned"  # on a node that was cordoned here; what others cordon is left to them
# pods of these run elsewhere when their worker goes, or with every worker: they keep none, unless they have GPUs
REPLACED = {"ReplicaSet", "StatefulSet", "ReplicationController"}
EVERYWHERE = {"DaemonSet", "Node"}
Command = Sequence[str]


@dataclass(frozen=True)
class Worker:
    """closed: it accepts no pods. ours: since this program cordoned it."""

    name: str
    pool: str
    number: int
    ready: bool
    closed: bool
    ours: bool
    labels: Mapping[str, str] = field(default_factory=dict)


def workers_of(nodes: Iterable[Object]) -> list[Worker]:
    found = []
    for node in nodes:
        meta, spec = node["metadata"], node.get("spec") or {}
        labels = meta.get("labels") or {}
        pool, number = labels.get(POOL, ""), meta["name"].rpartition("-")[2]
        if not pool or not number.isdecimal():
            continue
        conditions = (node.get("status") or {}).get("conditions") or ()
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        ours = MARK in (meta.get("annotations") or {})
        closed = bool(spec.get("unschedulable"))
        found.append(Worker(meta["name"], pool, int(number), ready, closed, ours, labels))
    return found


def report(workers: Sequence[Worker], pods: Sequence[Object], pools: Sequence[Object]) -> Object:
    """What the portal is sent. `pools`: its last answer."""
    known = [Workers(one["pool"], RESOURCE, one["gpus"], {POOL: one["pool"]}) for one in pools]
    labels = {one.name: one.labels for one in workers}
    loads = count(pods, labels, {one.name: one.pool for one in workers}, known)
    there = {one.name: one for one in workers}
    working = {pod["spec"]["nodeName"] for pod in pods if _is_work(pod, there)}
    return {"pools": [_pool(pool, load, workers, working) for pool, load in loads.items()]}


def commands(workers: Iterable[Worker], pools: Iterable[Object]) -> Iterator[Command]:
    """For kubectl, by the answer of the portal."""
    orders = {one["pool"]: one for one in pools}
    for worker in workers:
        order = orders.get(worker.pool)
        if order is None:
            continue
        if worker.number > order["machines"] and not worker.ready:
            yield ("delete", "node", worker.name, "--wait=false", "--ignore-not-found")
        elif worker.number > order["workers"]:
            if not worker.closed:
                yield _patch(worker, mark="yes", closed=True)
        elif worker.ours:
            yield _patch(worker, mark=None, closed=None)


def main(etc: Path, url: str) -> int:
    stored = etc / "pools.json"
    pools = json.loads(stored.read_text()) if stored.exists() else []
    # the workers before the pods: what starts in between is seen with its pod
    workers = workers_of(_items("/api/v1/nodes"))
    running = ",".join(f"status.phase!={phase}" for phase in FINISHED)
    told = report(workers, _items(f"/api/v1/pods?fieldSelector={running}"), pools)
    pools = _send(told, url, etc / "queue.header")
    written = stored.with_suffix(".new")
    written.write_text(json.dumps(pools))
    written.replace(stored)
    for command in commands(workers, pools):
        _kubectl(command, check=False)
    return 0


def _pool(pool: str, load: Load, workers: Iterable[Worker], working: set[str]) -> Object:
    mine = [one for one in workers if one.pool == pool]
    return {
        "pool": pool,
        "used_gpus": load.used,
        "pending_gpus": load.pending,
        "queued": load.queued,
        "busy": sorted(one.number for one in mine if one.name in working),
        "least": max((one.number for one in mine if one.name in working or not one.closed), default=0),
    }


def _is_work(pod: Object, workers: Mapping[str, Worker]) -> bool:
    """Whether it would be lost with its worker."""
    worker = workers.get(pod["spec"].get("nodeName", ""))
    if worker is None or (pod.get("status") or {}).get("phase") in FINISHED:
        return False
    meta = pod["metadata"]
    if meta.get("deletionTimestamp") and not worker.ready:
        return False  # nobody there who could report its end
    kinds = {one["kind"] for one in meta.get("ownerReferences") or () if one.get("controller")}
    return not kinds & EVERYWHERE and (not kinds & REPLACED or bool(devices(pod).get(RESOURCE)))


def _patch(worker: Worker, *, mark: str | None, closed: bool | None) -> Command:
    patch = {"metadata": {"annotations": {MARK: mark}}, "spec": {"unschedulable": closed}}
    return ("patch", "node", worker.name, "--type=merge", f"--patch={json.dumps(patch)}")


def _kubectl(command: Command, *, check: bool = True) -> str:
    done = subprocess.run(["k3s", "kubectl", *command], check=check, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _items(path: str) -> list[Object]:
    items: list[Object] = json.loads(_kubectl(("get", "--raw", path)))["items"]
    return items


def _send(told: Mapping[str, Any], url: str, header: Path) -> list[Object]:
    """By curl, as all reports of a machine, which reads the token itself: no list of processes shows it."""
    options = ("--silent", "--show-error", "--fail", "--max-time", "20", "--header", f"@{header}")
    kind = ("--header", "Content-Type: application/json", "--data-binary", "@-")
    answer = subprocess.run(
        ["curl", *options, *kind, url],
        input=json.dumps(told),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    pools: list[Object] = json.loads(answer.stdout)["pools"]
    return pools


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

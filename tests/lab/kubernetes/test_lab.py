"""The lab does what the rest of the suite relies on."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab, LabError
from tests.lab.kubernetes.kubectl import Kubectl, Refused, until

# the first start on a machine builds the programs
pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

MOVED = 40  # between two labs' ports, which begin at hundreds
GPUS = {
    "h100-1": {"nvidia.com/gpu": "8"},
    "h100-2": {"nvidia.com/gpu": "8"},
    "a100-mig-1": {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "14", "nvidia.com/mig-3g.20gb": "4"},
    "l40s-shared-1": {"nvidia.com/gpu.shared": "16"},
    "h200-dra-1": {},
    "cpu-1": {},
}


def pids(lab: Lab) -> dict[str, int | None]:
    return {program.name: program.pid for program in lab.status()}


def kubelet_ports(lab: Lab) -> set[int]:
    nodes = lab.client().call("GET", "/api/v1/nodes")["items"]
    return {node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for node in nodes}


def seconds_between(begin: str, end: str) -> float:
    return (dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(begin)).total_seconds()


def taints(kubectl: Kubectl) -> dict[str, list[str]]:
    """By node. The one for nodes that are not ready goes a moment after they are."""
    nodes = kubectl.get("nodes")["items"]
    return {n["metadata"]["name"]: [t["key"] for t in n["spec"].get("taints", ())] for n in nodes}


def test_nodes_are_ready_and_show_their_gpus(kubectl: Kubectl) -> None:
    nodes: dict[str, Any] = {node["metadata"]["name"]: node for node in kubectl.get("nodes")["items"]}
    found = {
        name: {key: n for key, n in node["status"]["allocatable"].items() if key.startswith("nvidia.com/")}
        for name, node in nodes.items()
    }
    assert found == GPUS
    for node in nodes.values():
        ready = next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready == "True"
    until(lambda: taints(kubectl) == {name: [] if name == "cpu-1" else ["nvidia.com/gpu"] for name in GPUS})
    labels = nodes["h100-1"]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["gpuaas.io/pool"] == "h100-sxm-80gb"


def test_dynamic_resources_are_published(kubectl: Kubectl) -> None:
    (resource_slice,) = kubectl.get("resourceslices")["items"]
    assert resource_slice["spec"]["driver"] == "gpu.nvidia.com"
    assert resource_slice["spec"]["nodeName"] == "h200-dra-1"
    assert len(resource_slice["spec"]["devices"]) == 8
    assert kubectl.get("deviceclass", "h200")["spec"]["extendedResourceName"] == "gpuaas.io/h200"


def test_quota_refuses_the_third_gpu(kubectl: Kubectl) -> None:
    kubectl.create_namespace("quota", **{"requests.nvidia.com/gpu": "2"})
    for name in ("one", "two"):
        kubectl.create_pod("quota", name, gpus=1)
        pod = kubectl.wait_phase("quota", name, "Running")
        assert "nvidia.com/gpu" in GPUS[pod["spec"]["nodeName"]]
    with pytest.raises(Refused, match="exceeded quota"):
        kubectl.create_pod("quota", "three", gpus=1)


def test_pod_runs_for_as_long_as_it_was_told(kubectl: Kubectl) -> None:
    kubectl.create_namespace("steered")
    kubectl.create_pod("steered", "good", run="1s")
    kubectl.create_pod("steered", "bad", fail="true")
    for name, phase, code in (("good", "Succeeded", 0), ("bad", "Failed", 1)):
        (container,) = kubectl.wait_phase("steered", name, phase)["status"]["containerStatuses"]
        ended = container["state"]["terminated"]
        assert ended["exitCode"] == code
        assert 1 <= seconds_between(ended["startedAt"], ended["finishedAt"]) <= 2  # 2: on a busy machine


def test_patching_a_pod_does_not_prolong_its_run(kubectl: Kubectl) -> None:
    kubectl.create_namespace("patched")
    kubectl.create_pod("patched", "pod", run="3s")
    kubectl.wait_phase("patched", "pod", "Running")
    patches = iter(range(1000))

    def patch() -> bool:
        kubectl.run("annotate", "pod", "pod", "-n", "patched", "--overwrite", f"patch={next(patches)}")
        return bool(kubectl.get("pod", "pod", "-n", "patched")["status"]["phase"] == "Succeeded")

    until(patch)
    ended = kubectl.get("pod", "pod", "-n", "patched")["status"]["containerStatuses"][0]["state"][
        "terminated"
    ]
    assert 3 <= seconds_between(ended["startedAt"], ended["finishedAt"]) <= 5


def test_node_goes_down_and_comes_back(kubectl: Kubectl) -> None:
    def taints() -> list[str]:
        return [taint["key"] for taint in kubectl.get("node", "cpu-1")["spec"].get("taints", ())]

    kubectl.run("annotate", "node", "cpu-1", "lab.gpuaas.io/down=true")
    until(lambda: "node.kubernetes.io/not-ready" in taints())
    kubectl.run("annotate", "node", "cpu-1", "lab.gpuaas.io/down-")
    until(lambda: not taints())


def test_outage_of_the_api_server_loses_nothing(lab: Lab, kubectl: Kubectl) -> None:
    kubectl.create_namespace("outage")
    lab.stop_program("apiserver")
    assert [name for name, pid in pids(lab).items() if pid is None] == ["kube-apiserver"]
    with pytest.raises(Refused, match="refused"):
        kubectl.get("namespace", "outage")
    lab.start_program("kube-apiserver")
    assert kubectl.get("namespace", "outage")["status"]["phase"] == "Active"
    kubectl.create_pod("outage", "after", run="1s")
    kubectl.wait_phase("outage", "after", "Succeeded")


def test_hanging_api_server_answers_when_resumed(lab: Lab, kubectl: Kubectl) -> None:
    lab.pause_program("apiserver")
    try:
        with pytest.raises(Refused, match=r"(?i)timeout|deadline|timed out"):
            kubectl.run("get", "nodes", "--request-timeout=1s")
    finally:
        lab.resume_program("apiserver")
    assert kubectl.get("nodes")["items"]


def test_up_again_changes_nothing(lab: Lab) -> None:
    before, server = pids(lab), lab.server
    lab.up()
    assert (pids(lab), lab.server) == (before, server)
    assert all(before.values())


def test_up_brings_back_what_was_killed(lab: Lab, kubectl: Kubectl) -> None:
    before = pids(lab)
    lab.stop_program("kwok", kill=True)
    kubectl.run("delete", "node", "cpu-1")
    lab.up()
    after = pids(lab)
    assert after.pop("kwok") not in (None, before.pop("kwok"))
    assert after == before
    assert kubectl.get("node", "cpu-1")["metadata"]["labels"]["gpuaas.io/pool"] == "cpu"


def test_second_lab_stands_beside_and_goes_without_a_trace(lab: Lab, tmp_path: Path) -> None:
    before = pids(lab)
    other = Lab(state_dir=tmp_path / "other")
    try:
        other.up()
        started = pids(other)
        assert other.server != lab.server
        assert all(started.values())
        (asked_at,) = kubelet_ports(other)
        other.down()
        other.up(port_base=int(other.server.rpartition(":")[2]) + MOVED)
        started |= pids(other)
        assert kubelet_ports(other) == {asked_at + MOVED}, "logs are asked for where they are"
    finally:
        other.down()
    assert not any(pids(other).values())
    assert not [pid for pid in started.values() if Path(f"/proc/{pid}").exists()]
    assert (tmp_path / "other" / "etcd").exists()
    other.down(purge=True)
    assert not (tmp_path / "other").exists()
    assert pids(lab) == before


def test_port_base_that_is_taken_does_no_harm(lab: Lab, tmp_path: Path) -> None:
    before = pids(lab)
    taken = int(lab.server.rpartition(":")[2])
    with pytest.raises(LabError, match=f"are taken; tried {taken}"):
        Lab(state_dir=tmp_path / "other").up(port_base=taken)
    with pytest.raises(LabError, match="are taken"):
        lab.up(port_base=taken + 1)
    assert pids(lab) == before


def test_failed_start_says_which_program_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin" / "etcd"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho the disk is full\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(broken.parent))
    failing = Lab(state_dir=tmp_path / "state")
    try:
        with pytest.raises(LabError, match=r"etcd ended:\n(.*\n)*the disk is full"):
            failing.up()
    finally:
        failing.down(purge=True)

"""A short walk: a pod runs, is spoken to, and has GPUs that nobody else has."""

import urllib.request
from typing import Any

import pytest

from deploy.lab.node import Lab
from deploy.lab.node.settings import GPUS, NAME
from tests.lab.fixtures import until
from tests.lab.node.place import LASTS, Place, pod

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]  # the first start on a machine builds the programs

SAYS = "mkfifo /tmp/say && echo begun && while true; do cat /tmp/say; done"
SERVES = "trap exit TERM; mkdir /tmp/www && echo from $HOSTNAME > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www & wait"
TELLS = f"echo $NVIDIA_VISIBLE_DEVICES; {LASTS}"


def gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)}


def test_a_pod_runs_and_is_spoken_to(place: Place) -> None:
    place.create(pod("talks", SAYS), pod("serves", SERVES))
    place.phase("talks", "Running")
    with place.followed("talks") as lines:
        assert lines.readline() == "begun\n"
        place.execute("talks", "echo first > /tmp/say")
        assert lines.readline() == "first\n"
        place.execute("talks", "echo second > /tmp/say")
        assert lines.readline() == "second\n"
    assert place.logs("talks") == "begun\nfirst\nsecond\n"
    assert place.execute("talks", "hostname") == "talks\n"
    place.phase("serves", "Running")
    with place.forwarded("serves", 8080) as port:
        assert page(f"http://127.0.0.1:{port}/") == "from serves\n"


def test_no_two_containers_have_the_same_gpu(place: Place) -> None:
    place.create(pod("one", TELLS, limits=gpus(1)), pod("three", TELLS, limits=gpus(3)))
    had = {name: devices(place, name) for name in ("one", "three")}
    assert {name: len(found) for name, found in had.items()} == {"one": 1, "three": 3}
    assert had["one"] | had["three"] == handed_out(place)
    place.create(pod("waits", TELLS, limits=gpus(1)))
    until(lambda: "Insufficient nvidia.com/gpu" in why_pending(place.pod("waits")), "none is left for it")
    place.run("delete", "pod", "one")
    assert devices(place, "waits") == had["one"]


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read(), "utf-8")


def devices(place: Place, name: str) -> set[str]:
    """What the container itself was told."""
    place.phase(name, "Running")
    return set(until(lambda: place.logs(name), f"{name} says what it got").strip().split(","))


def handed_out(place: Place) -> set[str]:
    """What the device plugin says that it gave away."""
    said = place.kubectl.run("logs", "--namespace=kube-system", "daemonset/gpus").splitlines()
    given = (line.split()[-1] for line in said if "a container gets" in line)
    return {device for devices in given for device in devices.split(",")}


def why_pending(found: Any) -> str:
    conditions = found["status"].get("conditions", ())
    return " ".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


def test_the_node_shows_what_it_has(node_lab: Lab) -> None:
    node = node_lab.control.client().call("GET", f"/api/v1/nodes/{NAME}")
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-L4"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(GPUS)
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")

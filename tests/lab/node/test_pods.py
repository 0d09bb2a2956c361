"""What only a kubelet shows: memory that runs out, evictions that wait, services and names, a GPU that falls sick."""

import json
from typing import Any

import pytest

from deploy.lab.node import Lab
from deploy.lab.node.settings import GPUS, NAME
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Refused
from tests.lab.node.place import LASTS, Object, Place, pod

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

SERVES = "trap exit TERM; mkdir /tmp/www && echo it answers > /tmp/www/index.html && httpd -f -p 8080 -h /tmp/www & wait"


def test_memory_that_runs_out_ends_the_container(place: Place) -> None:
    eats = "dd if=/dev/zero of=/dev/null bs=256M count=1"
    place.create(pod("eats", f"exec {eats}", limits={"memory": "32Mi"}))
    (container,) = place.phase("eats", "Failed")["status"]["containerStatuses"]
    ended = container["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_an_eviction_waits_for_the_disruption_budget(place: Place) -> None:
    place.create(budget(1), pod("one", LASTS), pod("two", LASTS))
    for name in ("one", "two"):
        labelled(place, name)
        place.phase(name, "Running")
    until(lambda: allowed(place) == 1, "one of two may go")
    evict(place, "one")
    until(lambda: names(place) == ["two"], "one is gone")
    until(lambda: allowed(place) == 0, "none may go any more")
    with pytest.raises(Refused, match="disruption budget"):
        evict(place, "two")
    assert place.pod("two")["status"]["phase"] == "Running"


def test_a_pod_beyond_the_quota_is_refused(place: Place) -> None:
    place.run("create", "quota", "limits", "--hard=requests.nvidia.com/gpu=1")
    until(
        lambda: place.kubectl.get("quota", "limits", "-n", place.namespace)["status"].get("used"), "it counts"
    )
    place.create(pod("first", LASTS, limits={"nvidia.com/gpu": "1"}))
    with pytest.raises(Refused, match="exceeded quota"):
        place.create(pod("second", LASTS, limits={"nvidia.com/gpu": "1"}))
    place.phase("first", "Running")


def test_services_are_reached_by_name(place: Place) -> None:
    ports = [{"port": 80, "targetPort": 8080}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    }
    place.create(service, pod("web", SERVES), pod("asks", LASTS))
    for name in ("web", "asks"):
        place.phase(name, "Running")
    address = place.kubectl.get("service", "web", "-n", place.namespace)["spec"]["clusterIP"]
    until(lambda: asked(place, address) == "it answers", "its address leads to the pod")
    found = place.execute("asks", f"nslookup web.{place.namespace}.svc.cluster.local")
    assert address in found
    assert place.execute("asks", "nc -w 5 10.96.0.1 443 < /dev/null && echo open") == "open\n"


def test_a_sick_gpu_is_not_given_away(node_lab: Lab) -> None:
    sick = "/var/lib/lab/sick/GPU-1ab00000-0000-4000-8000-000000000003"
    try:
        node_lab.machine.run("touch", sick)
        until(lambda: allocatable(node_lab) == GPUS - 1, "the node counts one less")
    finally:
        node_lab.machine.run("rm", "-f", sick)
    until(lambda: allocatable(node_lab) == GPUS, "it is well again")


def asked(place: Place, address: str) -> str:
    """By HTTP, in words that the shell of the pod has: a static wget cannot look up names."""
    request = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 80 || true"
    return (place.execute("asks", request).splitlines() or [""])[-1]


def budget(least: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"keeps": "running"}}},
    }


def labelled(place: Place, name: str) -> None:
    place.run("label", "pod", name, "keeps=running")


def allowed(place: Place) -> Any:
    found = place.kubectl.get("poddisruptionbudget", "budget", "-n", place.namespace)
    return found["status"].get("disruptionsAllowed")


def evict(place: Place, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": place.namespace},
    }
    path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
    place.run("create", "--raw", path, "-f", "-", text=json.dumps(body))


def names(place: Place) -> list[str]:
    return [one["metadata"]["name"] for one in place.kubectl.get("pods", "-n", place.namespace)["items"]]


def allocatable(lab: Lab) -> int:
    node = lab.control.client().call("GET", f"/api/v1/nodes/{NAME}")
    return int(node["status"]["allocatable"]["nvidia.com/gpu"])

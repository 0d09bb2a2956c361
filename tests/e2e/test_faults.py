"""Half a minute without the API server, and kill -9 of the worker and the meter: it is said, nothing is lost or twice."""

import logging
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from tests.e2e.pieces import Pieces
from tests.e2e.portal import Client, wait_until
from tests.e2e.tenant import HOME, Kubectl, Tenant, span, truth

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

log = logging.getLogger(__name__)

SITE = "faults"
FLAVOR = f"h100-sxm-80gb.1.{SITE}"
LIMIT = "gpu:h100-sxm-80gb"
DOWN_SECONDS = 30.0
WORKSPACES, KILLS = 6, 3


@pytest.fixture(scope="module")
def site(portal: Pieces, own_lab: Lab) -> Lab:
    """A cluster of its own, priced and with limits like the others."""
    words = ("--slug", SITE, "--kubeconfig", str(own_lab.kubeconfig), "--publish", "--without-price")
    portal.run("manage.py", "site_attach", *words)
    portal.run("-m", "deploy.embedded.seed")
    return own_lab


@pytest.fixture(autouse=True)
def answering(site: Lab) -> Iterator[None]:
    """Also for whoever comes after a test that failed in between."""
    yield
    site.start_program("kube-apiserver")


@pytest.fixture
def alice(portal: Pieces, tmp_path: Path) -> Tenant:
    return Tenant(Client(portal, "alice"), tmp_path)


def test_the_api_server_is_away_for_half_a_minute(alice: Tenant, site: Lab) -> None:
    before = alice.used()
    running = alice.request(FLAVOR, 2)
    alice.in_state(running["id"], "ready")
    kubectl = alice.kubectl(running["id"])
    kubectl.start_pod("ends-while-down", run_seconds=12)
    kubectl.start_pod("spans-it", run_seconds=45)
    for name in ("ends-while-down", "spans-it"):
        kubectl.pod_in(name, "Running")
    site.pause_program("kube-apiserver")  # what is begun now does not come to its end before the kill
    caught = [alice.request(FLAVOR, 1) for _ in range(2)]
    for row in caught:
        alice.in_state(row["id"], "provisioning")
    site.stop_program("kube-apiserver", kill=True)
    went = time.monotonic()
    it_is_said(alice, caught[0])
    meanwhile = alice.request(FLAVOR, 1)
    time.sleep(max(went + DOWN_SECONDS - time.monotonic(), 0))
    assert alice.workspace(running["id"])["state"] == "ready"
    site.start_program("kube-apiserver")
    came = time.monotonic()
    made = [*caught, meanwhile]
    for row in made:
        alice.in_state(row["id"], "ready", seconds=90)
        assert alice.conditions(row["id"])["Reachable"]["status"] == "True"
    log.info("all ready %.1f s after the API server came back", time.monotonic() - came)
    everything = [running, *made]
    same_as_without(alice, Kubectl(site.kubeconfig), everything)
    metered_once(alice, kubectl, running["id"])
    for row in everything:
        alice.delete(row["id"])
    for row in everything:
        alice.in_state(row["id"], "deleted", seconds=90)
    assert alice.used() == before


def it_is_said(alice: Tenant, caught: Any) -> None:
    """By REST and on the page, with the reason."""

    def unreachable() -> Any:
        found = alice.conditions(caught["id"]).get("Reachable", {})
        return found if found.get("status") == "False" else None

    said = wait_until("the condition that says so", unreachable, seconds=90)
    assert said["reason"] == "NoAnswer"
    assert "does not answer" in said["message"]
    portal = alice.client.portal
    page = alice.client.opener.open(f"{portal.url}/p/weather-lm/workspaces/{caught['id']}/").read().decode()
    assert "does not answer" in page


def metered_once(alice: Tenant, kubectl: Kubectl, key: str) -> None:
    """Each pod is one interval, exactly as long as kubectl says; what is held was held all the time."""
    pods = [kubectl.pod_in(name, "Succeeded") for name in ("ends-while-down", "spans-it")]
    for pod in pods:
        interval = alice.metered(key, pod["metadata"]["uid"])
        assert span(interval) == truth(pod)
        assert interval["ended_by"] == "observed"
    rows = alice.intervals(key, "gpu_allocated")
    assert sorted(row["consumer_uid"] for row in rows) == sorted(pod["metadata"]["uid"] for pod in pods)


def test_the_worker_and_the_meter_are_killed(alice: Tenant, portal: Pieces, site: Lab) -> None:
    before, admin = alice.used(), Kubectl(site.kubeconfig)
    first = alice.request(FLAVOR, 1)
    alice.in_state(first["id"], "ready", seconds=90)
    kubectl = alice.kubectl(first["id"])
    kubectl.start_pod("across", run_seconds=10)
    uid = kubectl.pod_in("across", "Running")["metadata"]["uid"]
    wait_until("the pod in the usage", lambda: alice.intervals(first["id"], "gpu_allocated"))
    portal.kill("meter")
    made = requested_under_kills(portal, alice)
    portal.start_piece("meter")
    began = time.monotonic()
    for row in made:
        alice.in_state(row["id"], "ready", seconds=120)
    log.info("all ready %.1f s after the last kill", time.monotonic() - began)
    everything = [first, *made]
    assert alice.used()[LIMIT][0] == before[LIMIT][0] + len(everything)
    same_as_without(alice, admin, everything)
    assert span(alice.metered(first["id"], uid)) == truth(kubectl.pod_in("across", "Succeeded"))
    for row in everything:
        alice.delete(row["id"])
    for row in everything:
        alice.in_state(row["id"], "deleted", seconds=90)
    assert admin.get("namespaces", "-l", "gpuaas.io/workspace")["items"] == []
    assert alice.used() == before


def requested_under_kills(portal: Pieces, alice: Tenant) -> list[Any]:
    """Workspaces; for the first ones the worker is killed as soon as some number of steps are done, another number each
    time, the first at once. Whatever it had not finished is left to the next one."""
    made: list[Any] = []
    unfinished = 0
    for number in range(WORKSPACES):
        made.append(alice.request(FLAVOR, 1))
        if number < KILLS:
            wait_until("some steps", partial(has_steps, alice, made[-1], number), seconds=75)
            portal.kill("worker")
            unfinished += alice.workspace(made[-1]["id"])["state"] != "ready"
            portal.start_piece("worker")
    assert unfinished, "killed in the middle"
    return made


def has_steps(alice: Tenant, row: Any, more_than: int) -> bool:
    return bool(sum(step["state"] == "done" for step in creation(alice, row)["steps"]) > more_than)


def creation(alice: Tenant, row: Any) -> Any:
    (only,) = alice.client.get(f"{HOME}/{row['id']}/operations")["results"]
    return only


def same_as_without(alice: Tenant, admin: Kubectl, workspaces: list[Any]) -> None:
    """One namespace each and no other, one finished operation, one interval of what is held, no GPU counted twice."""
    found = admin.get("namespaces", "-l", "gpuaas.io/workspace")["items"]
    assert {item["metadata"]["name"] for item in found} == {row["external_name"] for row in workspaces}
    assert len(found) == len(workspaces)
    for row in workspaces:
        operation = creation(alice, row)
        assert operation["succeeded"]
        assert {step["state"] for step in operation["steps"]} == {"done"}
        count = str(row["items"][0]["count"])
        quota = admin.get("resourcequota", "gpuaas", "-n", row["external_name"])
        assert quota["status"]["hard"]["requests.nvidia.com/gpu"] == count
        assert len(admin.get("resourcequota", "-n", row["external_name"])["items"]) == 1
        assert len(admin.get("rolebinding", "-n", row["external_name"])["items"]) == 1

        def held(key: str = row["id"]) -> Any:
            return alice.intervals(key, "gpu_held")

        (interval,) = wait_until("what it holds in the usage", held, seconds=30)
        assert (str(interval["quantity"]), interval["ended_at"]) == (count, None)

"""The API server goes away for half a minute, in the middle of things: it is said, nothing is lost, all goes on."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from tests.e2e.portal import Client, Portal, wait_until
from tests.e2e.tenant import Kubectl, Tenant, span, truth

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("e2e"), pytest.mark.timeout(300)]

log = logging.getLogger(__name__)

SITE = "outage"
FLAVOR = f"h100-sxm-80gb.1.{SITE}"
DOWN_SECONDS = 30.0


@pytest.fixture
def site(portal: Portal, own_lab: Lab) -> Iterator[Lab]:
    """A cluster of its own as site `outage`, priced and with limits like the others."""
    words = ("--slug", SITE, "--kubeconfig", str(own_lab.kubeconfig), "--publish")
    portal.run("manage.py", "site_attach", *words)
    portal.run("-m", "deploy.embedded.seed")
    yield own_lab
    if own_lab.kubeconfig.exists():
        own_lab.start_program("kube-apiserver")


@pytest.fixture
def alice(portal: Portal, tmp_path: Path) -> Tenant:
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
    caught = [alice.request(FLAVOR, 1) for _ in range(2)]
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
    one_namespace_each(Kubectl(site.kubeconfig), everything)
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

    said = wait_until("the condition that says so", unreachable, seconds=25)
    assert said["reason"] == "NoAnswer"
    assert "does not answer" in said["message"]
    portal = alice.client.portal
    page = alice.client.opener.open(f"{portal.url}/p/weather-lm/workspaces/{caught['id']}/").read().decode()
    assert "does not answer" in page


def one_namespace_each(admin: Kubectl, workspaces: list[Any]) -> None:
    found = admin.get("namespaces", "-l", "gpuaas.io/workspace")["items"]
    assert sorted(item["metadata"]["labels"]["gpuaas.io/workspace"] for item in found) == sorted(
        row["id"] for row in workspaces
    )
    assert {item["metadata"]["name"] for item in found} == {row["external_name"] for row in workspaces}


def metered_once(alice: Tenant, kubectl: Kubectl, key: str) -> None:
    """Each pod is one interval, exactly as long as kubectl says; what is held was held all the time."""
    pods = [kubectl.pod_in(name, "Succeeded") for name in ("ends-while-down", "spans-it")]
    for pod in pods:
        interval = alice.metered(key, pod["metadata"]["uid"])
        assert span(interval) == truth(pod)
        assert interval["ended_by"] == "observed"
    rows = alice.intervals(key, "gpu_allocated")
    assert sorted(row["consumer_uid"] for row in rows) == sorted(pod["metadata"]["uid"] for pod in pods)
    (held,) = alice.intervals(key, "gpu_held")
    assert (held["quantity"], held["ended_at"]) == (2, None)

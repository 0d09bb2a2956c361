"""The main job on a real API server: request by REST, use by kubectl, be refused beyond it, be metered, see the bill."""

import logging
import time
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.e2e.portal import Client, Portal, wait_until
from tests.e2e.tenant import HOME, Kubectl, Refused, Tenant, span, truth
from tests.lab.fixtures import LabSite

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

log = logging.getLogger(__name__)

FLAVOR = "h100-sxm-80gb.1.lab"
LIMIT = "gpu:h100-sxm-80gb"
BILLED_IN = ZoneInfo("Europe/Berlin")
QUOTA_KEY = "requests.nvidia.com/gpu"


@pytest.fixture(scope="module")
def attached(portal: Portal, lab: LabSite) -> Portal:
    """By the command that `make lab` is."""
    portal.run("-m", "deploy.demo", "lab", GPUAAS_LAB_KUBECONFIG=str(lab.kubeconfig_path))
    return portal


@pytest.fixture
def alice(attached: Portal, tmp_path: Path) -> Tenant:
    return Tenant(Client(attached, "alice"), tmp_path)


@pytest.fixture
def admin(lab: LabSite) -> Kubectl:
    return Kubectl(lab.kubeconfig_path)


def test_from_request_to_bill(alice: Tenant, admin: Kubectl) -> None:
    before = alice.used()
    asked = time.monotonic()
    made = alice.request(FLAVOR, 2)
    key, namespace = made["id"], made["external_name"]
    alice.in_state(key, "ready")
    log.info("request to ready on the lab, whole portal: %.1f s", time.monotonic() - asked)
    assert alice.used()[LIMIT] == (before[LIMIT][0] + 2, before[LIMIT][1] + 2)
    quota = admin.get("resourcequota", "gpuaas", "-n", namespace)
    assert quota["spec"]["hard"][QUOTA_KEY] == "2"
    assert quota["spec"]["hard"]["requests.nvidia.com/mig-1g.5gb"] == "0"
    kubectl = alice.kubectl(key)
    the_quota_is_hard(kubectl)
    what_guards_her_is_not_hers(kubectl, namespace)
    metered_to_the_second(alice, kubectl, key)
    over_by_itself(alice, admin, key, namespace)
    assert alice.used() == before
    the_bill_is_exact(alice, key)


def the_quota_is_hard(kubectl: Kubectl) -> None:
    for name in ("one", "two"):
        kubectl.start_pod(name)
        assert kubectl.pod_in(name, "Running")["spec"]["nodeName"].startswith("h100-")
    with pytest.raises(Refused, match="exceeded quota"):
        kubectl.start_pod("three")
    for unsold in ("nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "gpuaas.io/h200"):
        with pytest.raises(Refused, match=r"exceeded quota|gpuaas-"):
            kubectl.start_pod("other", resource=unsold)
    kubectl.run("delete", "pod", "one", "two", "--wait=true")


def what_guards_her_is_not_hers(kubectl: Kubectl, namespace: str) -> None:
    more = f'{{"spec":{{"hard":{{"{QUOTA_KEY}":"8"}}}}}}'
    every = f'{{"status":{{"hard":{{"{QUOTA_KEY}":"8"}}}}}}'
    tries = (
        ("patch", "resourcequota", "gpuaas", "--type=merge", "-p", more),
        ("patch", "resourcequota", "gpuaas", "--type=merge", "--subresource=status", "-p", every),
        ("delete", "resourcequota", "gpuaas"),
        ("create", "quota", "mine", f"--hard={QUOTA_KEY}=8"),
        ("delete", "limitrange", "gpuaas"),
        ("label", "namespace", namespace, "gpuaas.io/workspace-"),
        ("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"),
        ("annotate", "namespace", namespace, "gpuaas.io/pins=nvidia.com/gpu@", "--overwrite"),
        ("delete", "namespace", namespace),
        ("delete", "networkpolicy", "gpuaas-default-deny"),
        ("patch", "networkpolicy", "gpuaas-default-deny", "--type=merge", "-p", '{"spec":{"ingress":[{}]}}'),
        ("delete", "rolebinding", "--all"),
        ("create", "rolebinding", "mine", "--clusterrole=cluster-admin", "--serviceaccount=default:default"),
        ("create", "token", "default"),
    )
    for words in tries:
        with pytest.raises(Refused, match=r"(?i)forbidden"):
            kubectl.run(*words)


def metered_to_the_second(alice: Tenant, kubectl: Kubectl, key: str) -> None:
    pods = {"short": 1, "longer": 4}
    for name, seconds in pods.items():
        kubectl.start_pod(name, run_seconds=seconds)
    for name in pods:
        pod = kubectl.pod_in(name, "Succeeded")
        interval = alice.metered(key, pod["metadata"]["uid"])
        assert span(interval) == truth(pod)
        assert (interval["quantity"], interval["ended_by"]) == (1, "observed")
        assert interval["node"] == pod["spec"]["nodeName"]


def over_by_itself(alice: Tenant, admin: Kubectl, key: str, namespace: str) -> None:
    alice.delete(key)
    alice.in_state(key, "deleted", seconds=90)
    with pytest.raises(Refused, match="not found"):
        admin.get("namespace", namespace)
    answer = alice.client.call("POST", f"{HOME}/{key}/kubeconfig", {})
    assert answer.status == 409, answer.body


def the_bill_is_exact(alice: Tenant, key: str) -> None:
    """Of the one flavor that nobody else rents: the line is its holdings × the price, rounded once."""

    def ended() -> list[Any] | None:
        rows = alice.intervals(key, "gpu_held")
        return rows if rows and all(row["ended_at"] for row in rows) else None

    rows = wait_until("the holding's end in the usage", ended, seconds=40)
    seconds = sum(row["quantity"] * int((span(row)[1] - span(row)[0]).total_seconds()) for row in rows)
    assert seconds > 0
    month = span(rows[0])[0].astimezone(BILLED_IN).strftime("%Y-%m")
    statement = alice.client.get(f"/projects/weather-lm/statements/{month}")
    (line,) = [row for row in statement["lines"] if (row["flavor"], row["meter"]) == (FLAVOR, "gpu_held")]
    assert line["unit_seconds"] == seconds
    exact = Decimal(seconds) * Decimal(line["unit_price"]) / 3600
    assert Decimal(line["amount"]) == exact.quantize(Decimal("0.01"), ROUND_HALF_UP)
    amounts = [Decimal(row["amount"]) for row in statement["lines"] if row["amount"] is not None]
    assert Decimal(statement["total"]) == sum(amounts)

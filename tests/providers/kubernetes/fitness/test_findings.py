"""What the preflight finds at a site that is not as it should be; each on the real control plane."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from deploy.lab.kubernetes import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi import names, spot
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import preflight
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.preflight import canary, rights
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.fitness.conftest import PortalSite, with_token

pytestmark = pytest.mark.lab

DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


def found(site: LabSite, kind: str) -> Check:
    return next(check for check in site.driver().preflight() if check.type == kind)


@contextmanager
def standing(admin: Api, collection: str, body: Object) -> Iterator[None]:
    admin.create(collection, body)
    try:
        yield
    finally:
        admin.delete(f"{collection}/{body['metadata']['name']}")


def daemon_set(name: str, image: str, *, nodes: str = "linux", env: Object | None = None) -> Object:
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    labels = {"app": name}
    pod = {
        "nodeSelector": {"kubernetes.io/os": nodes},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": image, "env": variables}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


# -- what limits tenants ---------------------------------------------------------------------------------------------


def test_a_quota_controller_that_is_dead_is_found_and_forbids_to_sell(
    fit_lab: Lab, portal: PortalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "QUOTA_SECONDS", 2)
    assert found(portal, "QuotaController").status == Status.TRUE, "so its canary stands"
    fit_lab.stop_program("kube-controller-manager")
    try:
        check = found(portal, "QuotaController")
    finally:
        fit_lab.start_program("kube-controller-manager")
    assert (check.status, check.reason, check.blocking) == (Status.FALSE, "Silent", True)
    until(lambda: found(portal, "QuotaController").status == Status.TRUE, "it is well again")


def test_each_preflight_asks_the_controller_anew(portal: PortalSite, admin: Api) -> None:
    path = f"/api/v1/namespaces/{canary.NAMESPACE}/resourcequotas/gpuaas"
    seen = []
    for _ in range(3):
        portal.driver().preflight()
        seen.append(admin.get(path)["spec"]["hard"][canary.COUNTED])
    assert len(set(seen)) == 3


def test_the_canary_has_no_pods_and_is_no_workspace(portal: PortalSite, admin: Api) -> None:
    portal.driver().preflight()
    assert admin.items(f"/api/v1/namespaces/{canary.NAMESPACE}/pods") == []
    labels = admin.get(f"/api/v1/namespaces/{canary.NAMESPACE}")["metadata"]["labels"]
    assert "gpuaas.io/workspace" not in labels


def test_guards_that_are_gone_come_back_and_ones_that_do_not_act_are_found(
    portal: PortalSite, admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    portal.driver().preflight()
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    admin.delete(f"{bindings}/gpuaas-pods")
    assert found(portal, "Guards").status == Status.TRUE
    monkeypatch.setattr(canary, "GUARDS_SECONDS", 2.0)
    monkeypatch.setattr(
        canary, "prepare", lambda *given: ""
    )  # somebody takes them away faster than we set them
    admin.delete(f"{bindings}/gpuaas-pods")
    check = until(
        lambda: next((one for one in [found(portal, "Guards")] if one.status == Status.FALSE), None), "seen"
    )
    assert (check.reason, check.blocking) == ("DoNotAct", True)


def test_without_a_right_it_is_named_and_nothing_else_breaks(
    fit_lab: Lab, portal: PortalSite, admin: Api
) -> None:
    role = next(each for each in rights.site_role() if each["kind"] == "ClusterRole")
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{rights.ROLE}"
    less = [rule for rule in role["rules"] if "resourcequotas" not in rule.get("resources", [])]
    admin.merge(path, {"rules": less})
    try:
        check = until(
            lambda: next((one for one in [found(portal, "Permissions")] if one.status == Status.FALSE), None),
            "the right is missed",
        )
        assert check.blocking
        assert "create resourcequotas" in check.message
        assert "site_role" in check.remedy
        assert found(portal, "QuotaController").reason == "NotAllowed"
        assert found(portal, "NetworkPolicy").reason != "NotAllowed"
    finally:
        admin.merge(path, {"rules": role["rules"]})
    until(lambda: found(portal, "Permissions").status == Status.TRUE, "the right is back")


def test_an_administrator_is_told_that_less_would_do(fit_lab: Lab) -> None:
    assert found(LabSite(fit_lab.kubeconfig), "Permissions").reason == "All"


# -- what runs at the site -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "image", "status", "words"),
    [
        ("calico-node", "docker.io/calico/node:v3.31", Status.TRUE, "Calico"),
        ("cilium", "quay.io/cilium/cilium:v1.18", Status.TRUE, "Cilium"),
        ("ovnkube-node", "registry:5000/ovn:1", Status.TRUE, "OVN-Kubernetes"),
        ("antrea-agent", "antrea/antrea-agent-ubuntu:v2", Status.TRUE, "Antrea"),
        ("kube-router", "cloudnativelabs/kube-router", Status.TRUE, "kube-router"),
        ("weave-net", "weaveworks/weave-kube:2.8", Status.TRUE, "Weave"),
        ("policy", "mirror.example:5000/calico/node@sha256:0", Status.TRUE, "Calico"),
        ("kube-flannel-ds", "flannel/flannel:v0.27", Status.FALSE, "flannel"),
        ("cilium-envoy", "quay.io/cilium/cilium-envoy:v1", Status.UNKNOWN, "recognizes nothing"),
        ("kube-proxy", "kube-proxy:v1", Status.UNKNOWN, "recognizes nothing"),
    ],
)
def test_what_enforces_network_policies_is_recognized(
    portal: PortalSite, admin: Api, name: str, image: str, status: Status, words: str
) -> None:
    with standing(admin, DAEMON_SETS, daemon_set(name, image)):

        def on_all() -> bool:
            counts = admin.get(f"{DAEMON_SETS}/{name}")["status"]
            return bool(0 < counts["desiredNumberScheduled"] == counts.get("numberReady"))

        until(on_all, "it runs")
        check = found(portal, "NetworkPolicy")
    assert (check.status, words in check.message) == (status, True), check
    assert check.remedy or status == Status.TRUE


def test_one_that_runs_nowhere_enforces_nothing(portal: PortalSite, admin: Api) -> None:
    with standing(admin, DAEMON_SETS, daemon_set("calico-node", "calico/node:v3", nodes="plan9")):
        check = found(portal, "NetworkPolicy")
    assert (check.status, check.reason) == (Status.FALSE, "NotOnEveryNode")


def test_a_default_storage_class(portal: PortalSite, admin: Api) -> None:
    assert found(portal, "DefaultStorageClass").status == Status.FALSE
    fast: Object = {"metadata": {"name": "fast"}, "provisioner": "example.com/none"}
    with standing(admin, CLASSES, fast):
        assert found(portal, "DefaultStorageClass").status == Status.FALSE
        mark = {"storageclass.kubernetes.io/is-default-class": "true"}
        admin.merge(f"{CLASSES}/fast", {"metadata": {"annotations": mark}})
        check = found(portal, "DefaultStorageClass")
    assert check.status == Status.TRUE
    assert "fast" in check.message


def test_the_toolkit_as_its_daemon_set_shows_it(portal: PortalSite, admin: Api) -> None:
    assert found(portal, "VisibleDevices").status == Status.UNKNOWN
    name = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
    for value, status in (("true", Status.FALSE), ("false", Status.TRUE)):
        toolkit = daemon_set("nvidia-container-toolkit-daemonset", "toolkit:1", env={name: value})
        with standing(admin, DAEMON_SETS, toolkit):
            assert found(portal, "VisibleDevices").status == status


@pytest.fixture
def operator(admin: Api) -> Iterator[None]:
    """The GPU operator's kind, as far as the check reads it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"plural": "clusterpolicies", "singular": "clusterpolicy", "kind": "ClusterPolicy"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": spec,
    }
    with standing(admin, CRDS, body):
        until(lambda: _is_served(admin), "the kind is served")
        yield


def _is_served(admin: Api) -> bool:
    try:
        return admin.items(POLICIES) == []
    except NotFound:
        return False


def test_the_toolkit_as_the_gpu_operator_shows_it(portal: PortalSite, admin: Api, operator: None) -> None:
    name = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
    for said, status in ((None, Status.FALSE), ("true", Status.FALSE), ("false", Status.TRUE)):
        env = [{"name": name, "value": said}] if said else []
        policy: Object = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"},
            "spec": {"toolkit": {"enabled": True, "env": env}},
        }
        with standing(admin, POLICIES, policy):
            check = found(portal, "VisibleDevices")
        assert check.status == status, said
        assert "guards" in check.message or status == Status.TRUE


@pytest.mark.parametrize(
    ("name", "value", "policy", "reason"),
    [
        ("calm", 0, "Never", "Never"),
        ("usual", 0, "PreemptLowerPriority", "Preempts"),
        (names.SPOT, 1_000, "PreemptLowerPriority", "NotOurs"),
    ],
)
def test_a_class_by_which_buyers_would_wait_for_borrowers(
    portal: PortalSite, admin: Api, name: str, value: int, policy: str, reason: str
) -> None:
    assert found(portal, "Preemption").reason == "Preempts"
    made: Object = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
    with standing(admin, spot.CLASSES, made | {"globalDefault": name != names.SPOT}):
        check = found(portal, "Preemption")
    assert (check.reason, check.blocking) == (reason, False)
    assert name in check.message or check.status == Status.TRUE


# -- clocks and credentials ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "status"), [(-120, Status.FALSE), (0, Status.TRUE), (120, Status.FALSE)])
def test_clocks_apart_are_found(portal: PortalSite, seconds: int, status: Status) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(seconds=seconds)):
        assert found(portal, "Clock").status == status


def test_a_nodes_clock_that_is_ahead_is_found(portal: PortalSite, admin: Api, fit_lab: Lab) -> None:
    assert found(portal, "NodeHeartbeats").status == Status.TRUE
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/cpu-1"
    fit_lab.pause_program("kwok")
    try:
        ahead = (datetime.now(UTC) + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        admin.merge(path, {"spec": {"renewTime": ahead}})
        check = found(portal, "NodeHeartbeats")
    finally:
        fit_lab.resume_program("kwok")
    assert check.status == Status.FALSE
    assert "cpu-1" in check.message


def test_credentials_that_end_soon_are_found(fit_lab: Lab, portal: PortalSite) -> None:
    assert found(portal, "Credentials").reason == "ExpireSoon", "the account's token is for a day"
    assert found(LabSite(fit_lab.kubeconfig), "Credentials").reason == "Valid", "a certificate for years"


@pytest.mark.parametrize("token", ["opaque", "a.b.c", f"a.{base64.b64encode(b'[]').decode()}.c", "a..c"])
def test_a_token_that_says_nothing_has_no_end(fit_lab: Lab, token: str) -> None:
    assert preflight.server.credentials(with_token(fit_lab, token)).reason == "NoEnd"


# -- versions, as sites say them -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("major", "minor", "status", "reason"),
    [
        ("1", "29", Status.FALSE, "TooOld"),
        ("1", "30", Status.TRUE, "Supported"),
        ("1", "33+", Status.TRUE, "Supported"),
        ("1", "36", Status.TRUE, "Supported"),
        ("1", "40", Status.TRUE, "Newer"),
        ("", "", Status.FALSE, "TooOld"),
    ],
)
def test_versions(
    portal: PortalSite, monkeypatch: pytest.MonkeyPatch, major: str, minor: str, status: Status, reason: str
) -> None:
    said = {"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}"}
    monkeypatch.setattr(Api, "get", lambda self, path, **query: said)
    driver = portal.driver()
    assert isinstance(driver, KubernetesDriver)
    check = preflight.server.version(driver._api)
    assert (check.status, check.reason) == (status, reason)

"""What the plan of taking over finds in the way, thing by thing, on the real control plane."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gpuaas.core.errors import Permanent, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import AdoptionStep, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes import adoption
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import make_spec

pytestmark = pytest.mark.lab

RBAC = "rbac.authorization.k8s.io/v1"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Old:
    """A namespace of somebody else's, and the wish to take it over with two H100."""

    api: Api
    spec: WorkspaceSpec

    @property
    def name(self) -> str:
        return self.spec.external_name

    def make(self, path: str, body: Object) -> Object:
        """`path` is {group/version}/{plural}, "v1/pods" for the core's."""
        group, plural = path.rsplit("/", 1)
        base = "/api/v1" if group == "v1" else f"/apis/{group}"
        return self.api.create(f"{base}/namespaces/{self.name}/{plural}", body)

    def run(self, name: str, *, gpus: int = 0, **spec: Any) -> None:
        limits = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        self.make("v1/pods", pod(name, limits, **{"tolerations": [TOLERATION], **spec}))
        path = f"/api/v1/namespaces/{self.name}/pods/{name}"
        until(lambda: self.api.get(path)["status"].get("phase") == "Running", f"{name} runs")

    def plan(self, **changes: Any) -> tuple[AdoptionStep, ...]:
        return adoption.Plan(self.api, replace(self.spec, **changes)).steps()

    def in_the_way(self, **changes: Any) -> list[str]:
        return [f"{step.object}: {step.detail}" for step in self.plan(**changes) if step.blocking]


@pytest.fixture
def old(lab: LabSite) -> Iterator[Old]:
    made = uuid.uuid4()
    api = lab.api()
    spec = make_spec(id=made, external_name=f"old-{short(made)}")
    api.create("/api/v1/namespaces", {"metadata": {"name": spec.external_name}})
    space = f"/api/v1/namespaces/{spec.external_name}"
    until(lambda: api.find(f"{space}/serviceaccounts/default"), "its default account")
    yield Old(api, spec)
    api.delete(f"{space}/pods", gracePeriodSeconds="0")
    api.merge(space, {"metadata": {"finalizers": None}})
    api.delete(space)


def binding(role: str, *subjects: Object, kind: str = "ClusterRole") -> Object:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    return {"metadata": {"name": "given"}, "roleRef": ref, "subjects": list(subjects)}


def account(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def test_an_ordinary_namespace_has_nothing_in_the_way(old: Old) -> None:
    old.run("train", gpus=2, nodeSelector={"gpuaas.io/pool": "h100-sxm-80gb"})
    old.make("v1/configmaps", {"metadata": {"name": "settings"}, "data": {"epochs": "3"}})
    role = {"metadata": {"name": "reader"}, "rules": [_rule("", "pods", "get", "list")]}
    old.make(f"{RBAC}/roles", role)
    old.make(f"{RBAC}/rolebindings", binding("reader", account("default", old.name), kind="Role"))
    assert old.in_the_way() == []
    told = {(step.object, step.action) for step in old.plan()}
    assert {
        (f"Namespace/{old.name}", "change"),
        ("ResourceQuota/gpuaas", "create"),
        ("LimitRange/gpuaas", "create"),
        ("NetworkPolicy/gpuaas-default-deny", "create"),
        ("ServiceAccount/u-alice", "create"),
        ("RoleBinding/u-alice-admin", "create"),
        ("RoleBinding/given", "keep"),
        ("Pods", "keep"),
    } <= told


PODS: dict[str, tuple[dict[str, Any], str]] = {
    "another pool": ({"gpus": 1, "nodeSelector": {"gpuaas.io/pool": "a100-40gb-mig"}}, "outside the pool"),
    "every taint": ({"tolerations": [{"operator": "Exists"}]}, "tolerates every taint"),
    "host network": ({"hostNetwork": True}, "Pod Security"),
    "host path": ({"volumes": [{"name": "etc", "hostPath": {"path": "/etc"}}]}, "hostPath"),
    "nfs": ({"volumes": [{"name": "n", "nfs": {"server": "10.0.0.1", "path": "/"}}]}, "nfs"),
    "foreign affinity": (
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "topologyKey": "kubernetes.io/hostname",
                                "namespaceSelector": {},
                            },
                        }
                    ]
                }
            }
        },
        "affinity to pods of other namespaces",
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_a_pod_that_would_be_refused_today(old: Old, case: str) -> None:
    given, words = PODS[case]
    old.run("odd", **given)
    found = old.in_the_way()
    assert any(line.startswith("Pod/odd: ") and words in line for line in found), found


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, "containers"),
        (
            {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            "initContainers",
        ),
        ({"name": "AMD_VISIBLE_DEVICES", "value": "0"}, "containers"),
    ],
)
def test_devices_past_the_scheduler(old: Old, entry: Object, kind: str) -> None:
    plain = {"name": "main", "image": "cuda"}
    odd = {"name": "odd", "image": "cuda", "env": [entry]}
    containers = [plain, odd] if kind == "containers" else [plain]
    extra = {"initContainers": [odd]} if kind == "initContainers" else {}
    body = {"metadata": {"name": "sly"}, "spec": {"containers": containers, **extra}}
    old.make("v1/pods", body)
    assert any(f"sets {entry['name']} in odd" in line for line in old.in_the_way())


def test_devices_by_a_config_map(old: Old) -> None:
    old.make("v1/configmaps", {"metadata": {"name": "env"}, "data": {"NVIDIA_VISIBLE_DEVICES": "all"}})
    assert any(line.startswith("ConfigMap/env: ") for line in old.in_the_way())


OBJECTS: dict[str, tuple[str, Object, str]] = {
    "quota": (
        "v1/resourcequotas",
        {"metadata": {"name": "team"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}},
        "ResourceQuota/team: with a second quota",
    ),
    "our quota's name": ("v1/resourcequotas", {"metadata": {"name": "gpuaas"}}, "ResourceQuota/gpuaas: "),
    "limits": ("v1/limitranges", {"metadata": {"name": "team"}, "spec": {"limits": []}}, "LimitRange/team: "),
    "open network": (
        "networking.k8s.io/v1/networkpolicies",
        {"metadata": {"name": "open"}, "spec": {"podSelector": {}, "ingress": [{}]}},
        "NetworkPolicy/open: allows traffic from",
    ),
    "network to another namespace": (
        "networking.k8s.io/v1/networkpolicies",
        {
            "metadata": {"name": "to"},
            "spec": {
                "podSelector": {},
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"namespaceSelector": {}, "podSelector": {}}]}],
            },
        },
        "NetworkPolicy/to: allows traffic from",
    ),
    "a person": (
        f"{RBAC}/rolebindings",
        binding("view", {"kind": "User", "name": "erin", "apiGroup": "rbac.authorization.k8s.io"}),
        "RoleBinding/given: gives User erin access",
    ),
    "everybody": (
        f"{RBAC}/rolebindings",
        binding(
            "view", {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}
        ),
        "RoleBinding/given: gives Group system:authenticated access",
    ),
    "an account of another namespace": (
        f"{RBAC}/rolebindings",
        binding("view", account("ci", "elsewhere")),
        "RoleBinding/given: gives ServiceAccount ci access",
    ),
    "a load balancer": (
        "v1/services",
        {"metadata": {"name": "lb"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
        "services.loadbalancers in use",
    ),
    "a volume too large": (
        "v1/persistentvolumeclaims",
        {
            "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}},
        },
        "20Gi of requests.storage in use, 10Gi",
    ),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_that_is_in_the_way(old: Old, case: str) -> None:
    path, body, words = OBJECTS[case]
    old.make(path, body)
    found = old.in_the_way()
    assert any(words in line for line in found), found


@pytest.mark.parametrize("role", ["admin", "edit", "cluster-admin"])
def test_an_account_with_more_rights_than_members_have(old: Old, role: str) -> None:
    old.make(f"{RBAC}/rolebindings", binding(role, account("default", old.name)))
    assert any("grants more than an admin of a workspace has" in line for line in old.in_the_way())


def test_rights_beyond_the_namespace(old: Old, lab: LabSite) -> None:
    api, name = lab.api(), f"over-all-{old.name}"
    path = f"/apis/{RBAC}/clusterrolebindings"
    api.create(path, {**binding("view", account("default", old.name)), "metadata": {"name": name}})
    elsewhere = f"/apis/{RBAC}/namespaces/default/rolebindings"
    api.create(elsewhere, {**binding("view", account("default", old.name)), "metadata": {"name": name}})
    try:
        found = old.in_the_way()
    finally:
        api.delete(f"{path}/{name}")
        api.delete(f"{elsewhere}/{name}")
    assert any(line.startswith(f"ClusterRoleBinding/{name}") for line in found), found
    assert any(line.startswith(f"RoleBinding/default/{name}") for line in found), found


def test_a_token_that_never_ends(old: Old) -> None:
    role = {"metadata": {"name": "reader"}, "rules": [_rule("", "pods", "get")]}
    old.make(f"{RBAC}/roles", role)
    old.make(f"{RBAC}/rolebindings", binding("reader", account("default", old.name), kind="Role"))
    annotations = {"kubernetes.io/service-account.name": "default"}
    secret = {"metadata": {"name": "for-ever", "annotations": annotations}}
    old.make("v1/secrets", {**secret, "type": "kubernetes.io/service-account-token"})
    assert any(line.startswith("Secret/for-ever: ") for line in old.in_the_way())


def test_a_foreign_finalizer(old: Old) -> None:
    path = f"/api/v1/namespaces/{old.name}"
    old.api.merge(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    assert any("example.com/hold" in line for line in old.in_the_way())


def test_what_was_set_on_the_namespace_is_told_before_it_is_changed(old: Old) -> None:
    path = f"/api/v1/namespaces/{old.name}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    old.api.merge(path, {"metadata": {"labels": labels, "annotations": {"openshift.io/requester": "erin"}}})
    told = [step.detail for step in old.plan() if step.object.startswith("Namespace/")]
    assert "label pod-security.kubernetes.io/enforce: baseline instead of restricted" in told
    assert old.api.get(path)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert adoption.adopt(adoption.Plan(old.api, old.spec)).done
    after = old.api.get(path)["metadata"]
    assert after["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    assert after["annotations"]["openshift.io/requester"] == "erin"


def test_parts_of_the_site_are_never_offered(old: Old, lab: LabSite) -> None:
    driver = lab.driver()
    assert old.name in {one.external_name for one in driver.adoptable()}
    connection = replace(driver.connection, options={"sites_namespaces": ["old-*"]})
    chosen = type(driver)(connection)
    assert old.name not in {one.external_name for one in chosen.adoptable()}
    with pytest.raises(Permanent, match="belongs to the site itself"):
        chosen.adoption_plan(old.spec)
    with pytest.raises(Permanent, match="belongs to the site itself"):
        driver.adoption_plan(replace(old.spec, external_name="default"))


def test_a_namespace_that_moves_under_our_hands_is_looked_at_again(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes to it between our look and our mark: the site refuses the version that we looked at."""
    plan = adoption.Plan(old.api, old.spec)
    steps = adoption.Plan.steps

    def meanwhile(self: adoption.Plan) -> tuple[AdoptionStep, ...]:
        seen = steps(self)
        old.api.merge(f"/api/v1/namespaces/{old.name}", {"metadata": {"labels": {"team": "late"}}})
        return seen

    monkeypatch.setattr(adoption.Plan, "steps", meanwhile)
    with pytest.raises(Unavailable):
        adoption.adopt(plan)
    monkeypatch.undo()
    assert "gpuaas.io/workspace" not in old.api.get(f"/api/v1/namespaces/{old.name}")["metadata"]["labels"]
    assert adoption.adopt(plan).done


def _rule(group: str, resource: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}

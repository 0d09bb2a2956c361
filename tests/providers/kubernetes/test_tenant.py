"""What a tenant can and cannot do with the kubeconfig that the portal gave them."""

from dataclasses import replace

import pytest

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import GpuAmount
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import (
    BOB,
    H100,
    UNSOLD,
    Room,
    forget,
    kubeconfig,
    make_room,
    make_spec,
    provision,
)

pytestmark = pytest.mark.lab

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NETWORK = "/apis/networking.k8s.io/v1"
GPU = {"nvidia.com/gpu": "1"}
CPU = {"cpu": "1"}
Change = tuple[str, str, str, Object]


def test_two_pods_run_on_the_pool_and_the_third_is_refused(room: Room) -> None:
    for name in ("one", "two"):
        room.tenant.create(room.path("pods"), pod(name, GPU))
    for name in ("one", "two"):
        assert room.run_to(name, "Running")["spec"]["nodeName"].startswith("h100-")
    with pytest.raises(GpuaasError, match="exceeded quota"):
        room.tenant.create(room.path("pods"), pod("three", GPU))


def test_a_job_gets_its_gpus_without_knowing_of_taints(room: Room) -> None:
    template = pod("unnamed", GPU, run_seconds=1)["spec"]
    job = {"metadata": {"name": "train"}, "spec": {"completions": 2, "template": {"spec": template}}}
    room.tenant.create(room.path("jobs", "/apis/batch/v1"), job)
    pods = room.path("pods")

    def succeeded() -> bool:
        found = room.admin.items(pods, labelSelector="job-name=train")
        return [each["status"].get("phase") for each in found] == ["Succeeded"] * 2

    assert until(succeeded, "both pods of the job")


def test_revisions_that_a_stateful_set_keeps_are_bounded(lab: LabSite) -> None:
    """Each change of one leaves a copy of its template at the site, as many as a tenant says in revisionHistoryLimit."""
    options = {"object_bounds": {"controller_revisions": 10}}
    driver, spec = KubernetesDriver(replace(lab.connection(), options=options)), make_spec()
    provision(driver, spec)
    path = f"/apis/apps/v1/namespaces/{spec.external_name}/controllerrevisions"
    for number in range(10):
        lab.api().create(path, {"metadata": {"name": f"kept-{number}"}, "data": {}, "revision": number})
    with pytest.raises(GpuaasError, match="exceeded quota"):
        lab.api().create(path, {"metadata": {"name": "kept-10"}, "data": {}, "revision": 10})
    forget(lab, spec)


PROTECTED: dict[str, Change] = {
    "quota": ("/api/v1", "resourcequotas", "gpuaas", {"spec": {"hard": {"requests.nvidia.com/gpu": "9"}}}),
    "quota status": ("/api/v1", "resourcequotas", "gpuaas/status", {"status": {"hard": {}}}),
    "limit range": ("/api/v1", "limitranges", "gpuaas", {"spec": {"limits": []}}),
    "network policy": (NETWORK, "networkpolicies", "gpuaas-default-deny", {"spec": {"ingress": [{}]}}),
    "own binding": (RBAC, "rolebindings", "u-alice-admin", {"subjects": []}),
    "own account": ("/api/v1", "serviceaccounts", "u-alice", {"metadata": {"labels": {"a": "b"}}}),
}


@pytest.mark.parametrize("what", PROTECTED)
def test_the_portals_objects_cannot_be_changed(shared_room: Room, what: str) -> None:
    group, kind, name, change = PROTECTED[what]
    path = f"{shared_room.path(kind, group)}/{name}"
    with pytest.raises(GpuaasError, match=r"cannot patch|belongs? to the portal"):
        shared_room.tenant.merge(path, change)
    with pytest.raises(GpuaasError, match=r"cannot delete|belongs? to the portal"):
        shared_room.tenant.delete(path.removesuffix("/status"))


CREATED: dict[str, Change] = {
    "binding": (RBAC, "rolebindings", "", {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}),
    "role": (RBAC, "roles", "", {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    "quota": ("/api/v1", "resourcequotas", "", {"spec": {"hard": {}}}),
    "network policy": (NETWORK, "networkpolicies", "", {"spec": {"podSelector": {}, "ingress": [{}]}}),
    "token of ten years": (
        "/api/v1",
        "serviceaccounts",
        "u-alice/token",
        {"spec": {"expirationSeconds": 315360000}},
    ),
    "daemon set": ("/apis/apps/v1", "daemonsets", "", {"spec": {}}),
}


@pytest.mark.parametrize("what", CREATED)
def test_nothing_that_widens_rights_can_be_made(shared_room: Room, what: str) -> None:
    group, kind, name, body = CREATED[what]
    path = shared_room.path(kind, group) + (f"/{name}" if name else "")
    with pytest.raises(GpuaasError, match="cannot create"):
        shared_room.tenant.create(path, {"metadata": {"name": "mine"}, **body})


@pytest.mark.parametrize("part", ["", "/status"])
def test_the_namespace_cannot_be_changed(shared_room: Room, part: str) -> None:
    path = f"/api/v1/namespaces/{shared_room.spec.external_name}"
    for key in ("gpuaas.io/workspace", "pod-security.kubernetes.io/enforce"):
        with pytest.raises(GpuaasError, match="cannot patch"):
            shared_room.tenant.merge(path + part, {"metadata": {"labels": {key: None}}})
    with pytest.raises(GpuaasError, match="cannot delete"):
        shared_room.tenant.delete(path)


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/namespaces", "/api/v1/pods", "/api/v1/secrets"])
def test_other_tenants_are_not_seen(shared_room: Room, path: str) -> None:
    with pytest.raises(GpuaasError, match="cannot list"):
        shared_room.tenant.items(path)


@pytest.mark.parametrize("resource", UNSOLD)
def test_a_gpu_that_was_not_bought_is_refused(shared_room: Room, resource: str) -> None:
    with pytest.raises(GpuaasError, match="did not buy"):
        shared_room.tenant.create(shared_room.path("pods"), pod("unsold", {resource: "1"}))


def test_a_name_that_no_node_has_yet_is_refused_too(shared_room: Room) -> None:
    with pytest.raises(GpuaasError, match=r"did not buy|whitelist"):
        shared_room.tenant.create(shared_room.path("pods"), pod("new", {"nvidia.com/gb300": "1"}))


def affinity(kind: str) -> Object:
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def with_env(where: str) -> Object:
    one = {"name": "env", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    return {where: [one]}


REFUSED_PODS: dict[str, tuple[Object, str]] = {
    "chooses its node": ({"nodeName": "h100-1"}, "choose its node"),
    "another scheduler": ({"schedulerName": "mine"}, "default one"),
    "system priority": ({"priorityClassName": "system-node-critical"}, "system priority"),
    "tolerates everything": ({"tolerations": [{"operator": "Exists"}]}, "whitelist|GPU taints"),
    "another pool": ({"nodeSelector": {"gpuaas.io/pool": "cpu"}}, "conflict|nodeSelector"),
    "keeps others away": (affinity("podAntiAffinity"), "other namespaces"),
    "follows others": (affinity("podAffinity"), "other namespaces"),
    "all GPUs by environment": (with_env("containers"), "NVIDIA_VISIBLE_DEVICES"),
    "the same in an init container": (with_env("initContainers"), "NVIDIA_VISIBLE_DEVICES"),
    "host network": ({"hostNetwork": True}, "PodSecurity"),
}


@pytest.mark.parametrize("what", REFUSED_PODS)
def test_a_pod_is_refused_that(shared_room: Room, what: str) -> None:
    spec, words = REFUSED_PODS[what]
    with pytest.raises(GpuaasError, match=words):
        shared_room.tenant.create(shared_room.path("pods"), pod("bad", CPU, **spec))


def test_services_reach_no_further_than_the_namespace(shared_room: Room) -> None:
    ports = [{"port": 80}]
    for body in ({"type": "NodePort"}, {"type": "LoadBalancer"}, {"externalIPs": ["192.0.2.1"]}):
        service = {"metadata": {"name": "open"}, "spec": {"ports": ports, **body}}
        with pytest.raises(GpuaasError, match=r"no further than the workspace|external IPs"):
            shared_room.tenant.create(shared_room.path("services"), service)


def test_a_viewer_sees_and_changes_nothing(shared_room: Room) -> None:
    viewer = Api(kubeconfig(shared_room.driver, shared_room.spec, BOB))
    assert viewer.get(f"{shared_room.path('resourcequotas')}/gpuaas")["status"]["hard"]
    with pytest.raises(GpuaasError, match="cannot create"):
        viewer.create(shared_room.path("pods"), pod("bobs", CPU))
    with pytest.raises(GpuaasError, match="cannot list"):
        viewer.items(shared_room.path("secrets"))


def test_guards_hold_even_where_rbac_would_not(lab: LabSite, room: Room) -> None:
    """A site's own binding gives the tenant every right in the namespace; the portal's objects still stand."""
    binding = {
        "metadata": {"name": "too-much"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "u-alice", "namespace": room.spec.external_name}],
    }
    lab.api().create(room.path("rolebindings", RBAC), binding)
    for group, kind, name, change in PROTECTED.values():
        with pytest.raises(GpuaasError, match="belongs to the portal"):
            room.tenant.merge(f"{room.path(kind, group)}/{name}", change)
    space = f"/api/v1/namespaces/{room.spec.external_name}"
    with pytest.raises(GpuaasError, match="belongs to the portal"):
        room.tenant.merge(space, {"metadata": {"labels": {"gpuaas.io/workspace": None}}})
    with pytest.raises(GpuaasError, match="belongs to the portal"):
        room.tenant.delete(space)


def test_dra_devices_are_held_by_the_same_quota(lab: LabSite) -> None:
    h200 = GpuAmount("gpuaas.io/h200", 1, {"gpuaas.io/pool": "h200-dra"}, device_class="h200")
    spec = make_spec(gpus=(h200,), closed=("nvidia.com/gpu",))
    room = make_room(lab, spec)
    try:
        room.tenant.create(room.path("pods"), pod("one", {"gpuaas.io/h200": "1"}))
        assert room.run_to("one", "Running")["spec"]["nodeName"] == "h200-dra-1"
        with pytest.raises(GpuaasError, match="exceeded quota"):
            room.tenant.create(room.path("pods"), pod("two", {"gpuaas.io/h200": "1"}))
    finally:
        forget(lab, spec)


def test_gpus_of_two_pools_are_each_taken_from_their_own(lab: LabSite) -> None:
    slices = GpuAmount("nvidia.com/mig-1g.5gb", 1, {"gpuaas.io/pool": "a100-40gb-mig"})
    spec = make_spec(gpus=(H100, slices), closed=("nvidia.com/gpu.shared",))
    room = make_room(lab, spec)
    try:
        # the nodes of the slices have whole A100s of the very name that the H100s have
        with pytest.raises(GpuaasError, match="nodeSelector of its pool"):
            room.tenant.create(room.path("pods"), pod("a100", GPU, nodeSelector=dict(slices.selector)))
        room.tenant.create(room.path("pods"), pod("h100", GPU))
        room.tenant.create(room.path("pods"), pod("slice", {slices.resource_name: "1"}))
        assert room.run_to("h100", "Running")["spec"]["nodeName"].startswith("h100-")
        assert room.run_to("slice", "Running")["spec"]["nodeName"] == "a100-mig-1"
    finally:
        forget(lab, spec)


def test_a_name_of_one_pool_alone_needs_no_selector_beside_others(lab: LabSite) -> None:
    mine = {"gpuaas.io/pool": "a100-40gb-mig"}
    slices = GpuAmount("nvidia.com/mig-1g.5gb", 1, mine, exclusive=True)
    spec = make_spec(gpus=(H100, slices), closed=("nvidia.com/gpu.shared",))
    room = make_room(lab, spec)
    try:
        with pytest.raises(GpuaasError, match=r"nvidia.com/gpu@gpuaas.io/pool=h100-sxm-80gb"):
            room.tenant.create(room.path("pods"), pod("any", GPU, nodeSelector=mine))
        room.tenant.create(room.path("pods"), pod("slice", {slices.resource_name: "1"}))
        assert room.run_to("slice", "Running")["spec"]["nodeName"] == "a100-mig-1"
    finally:
        forget(lab, spec)

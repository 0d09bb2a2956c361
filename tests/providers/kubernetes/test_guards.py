"""The rules as objects of a site: installed once, healed, shared by portals, and held over namespaces of any name."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import yaml

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import GpuaasError, Permanent
from gpuaas.providers.base import Change, Difference, GpuAmount, Placement, Tuning
from gpuaas.providers.kubeapi import guards, manifests, names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import Site, kinds, writing
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, in_the_end, until
from tests.providers.kubernetes.conftest import H100, Room, make_room, make_spec
from tests.providers.kubernetes.escapes.shapes import CPU, GPU

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("own-lab")]
ADDITIONS = kinds.mutating("v1")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EDITOR = "kubectl-edit"
OTHERS = "belongs to the portal"


def install(api: Api) -> Site:
    """The site writes down what it thinks of a policy, and may be faster."""
    return in_the_end(lambda: guards.install(api))


def repaired(driver: KubernetesDriver) -> tuple[Difference, ...]:
    return in_the_end(driver.site_repair)


@pytest.fixture(scope="module")
def site(own_lab: Lab) -> LabSite:
    return LabSite(own_lab.kubeconfig)


@pytest.fixture(scope="module")
def api(site: LabSite) -> Api:
    found = site.api()
    install(found)
    return found


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written, in order; reads and reviews are not."""
    written: list[str] = []
    send = Api._send

    def counted(self: Api, method: str, path: str, **more: Any) -> Any:
        if method != "GET" and "selfsubjectreviews" not in path:
            written.append(f"{method} {path.rpartition('/')[2]}")
        return send(self, method, path, **more)

    monkeypatch.setattr(Api, "_send", counted)
    return written


def somebody(site: LabSite, name: str, space: str = "default", role: str = "cluster-admin") -> Api:
    """A service account with a right for the whole cluster (or in a workspace, for a role of ours)."""
    api = site.api()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    api.apply(f"/api/v1/namespaces/{space}/serviceaccounts", account)
    where = (
        f"{RBAC}/clusterrolebindings"
        if role == "cluster-admin"
        else f"{RBAC}/namespaces/{space}/rolebindings"
    )
    kind = "ClusterRoleBinding" if role == "cluster-admin" else "RoleBinding"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space}],
    }
    api.apply(where, binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token", request)["status"]["token"]
    entry = yaml.safe_load(site.kubeconfig)
    entry["users"][0]["user"] = {"token": token}
    return Api(yaml.safe_dump(entry))


def refused(attempt: Callable[[], object], words: str) -> bool:
    """Any other refusal is the test's own failure."""
    try:
        attempt()
    except GpuaasError as error:
        if words not in error.message:
            raise
        return True
    return False


def test_what_stands_is_read_and_not_written(api: Api, calls: list[str]) -> None:
    install(api)
    install(api)
    assert calls == []


def test_a_holder_costs_one_call_where_they_stand(site: LabSite, api: Api, calls: list[str]) -> None:
    spec = make_spec(members=())
    api.apply("/api/v1/namespaces", manifests.namespace(spec))
    driver = site.driver()
    until(lambda: driver.perform(Change.CREATE, spec, "guards").done, "they act")
    calls.clear()
    assert driver.perform(Change.CREATE, spec, "guards").done
    assert calls == ["POST pods"]


def test_a_policy_that_was_deleted_comes_back(site: LabSite, api: Api) -> None:
    wanted = {
        name
        for collection, body in guards.site_objects(api)
        for name in [(collection, body["metadata"]["name"])]
    }
    for collection, name in wanted:
        api.delete(f"{collection}/{name}")
    install(api)
    assert all(api.find(f"{collection}/{name}") for collection, name in wanted)


CHANGES: dict[str, tuple[str, Object]] = {
    "one that lets all through": (
        f"{guards.POLICIES}/{guards.PODS}",
        {"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}},
    ),
    "one that does not matter when broken": (
        f"{guards.POLICIES}/{guards.SERVICES}",
        {"spec": {"failurePolicy": "Ignore"}},
    ),
    "a binding that only warns": (
        f"{guards.BINDINGS}/{guards.PODS}",
        {"spec": {"validationActions": ["Audit"]}},
    ),
    "a binding for some namespaces": (
        f"{guards.BINDINGS}/{guards.PODS}",
        {"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}},
    ),
    "an addition for none": (f"{ADDITIONS}/gpuaas-places", {"spec": {"matchConditions": None}}),
    "a wider role": (
        f"{guards.CLUSTER_ROLES}/gpuaas-workspace-view",
        {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_set_right(api: Api, what: str) -> None:
    path, change = CHANGES[what]
    before = api.get(path)
    api.merge(path, change, fieldManager=EDITOR)
    install(api)
    after = api.get(path)
    part = "rules" if "rules" in change else "spec"
    assert after[part] == before[part]


def test_guards_that_somebody_weakened_are_set_right_for_the_whole_site(site: LabSite, api: Api) -> None:
    driver = site.driver()
    repaired(driver)
    assert repaired(driver) == ()
    path = f"{guards.POLICIES}/{guards.PODS}"
    api.merge(path, {"spec": {"failurePolicy": "Ignore"}}, fieldManager=EDITOR)
    conditions = api.get(path)["spec"]["matchConditions"]
    more = [*conditions, {"name": "nobody", "expression": "false"}]
    api.merge(path, {"spec": {"matchConditions": more}}, fieldManager=EDITOR)
    told = repaired(driver)
    assert {one.path for one in told} >= {"spec.failurePolicy", "spec.matchConditions"}
    assert all(one.changed_by.startswith(EDITOR) for one in told)
    assert repaired(driver) == ()
    assert api.get(path)["spec"]["matchConditions"] == conditions
    api.delete(f"{guards.BINDINGS}/{guards.PODS}")
    (told_binding,) = repaired(driver)
    assert told_binding.found == "missing"
    assert repaired(driver) == ()


def test_two_portals_share_a_site(site: LabSite, api: Api, calls: list[str]) -> None:
    """Each adds its account to the rules of both; somebody else with every right still goes through a portal."""
    other, third = somebody(site, "portal-b"), somebody(site, "site-admin")
    portals = install(other).portals
    assert set(portals) == {guards.whoami(api), "system:serviceaccount:default:portal-b"}
    calls.clear()
    assert install(api).portals == portals
    assert calls == []
    room = make_room(site, make_spec())
    quota = f"{room.path('resourcequotas')}/{names.QUOTA}"
    change = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    until(lambda: not refused(lambda: other.merge(quota, change), OTHERS), "the other portal is known")
    with pytest.raises(Permanent, match=OTHERS):
        third.merge(quota, change)
    with pytest.raises(Permanent, match=OTHERS):
        third.delete(f"/api/v1/namespaces/{room.spec.external_name}")
    with pytest.raises(Permanent, match=OTHERS):
        third.create("/api/v1/namespaces", {"metadata": {"name": "theirs", "labels": {names.WORKSPACE: "x"}}})


@pytest.fixture
def adopted(site: LabSite, api: Api) -> Iterator[tuple[str, Api]]:
    """A namespace of the site's own name, as adoption marks it, and a member of it."""
    spec = make_spec(members=())
    spec = replace(spec, external_name=f"climate-{spec.id.hex[:8]}")
    api.apply("/api/v1/namespaces", manifests.namespace(spec))
    assert spec.external_name in install(api).adopted
    yield spec.external_name, somebody(site, "u-alice", spec.external_name, "gpuaas-workspace-edit")
    api.delete(f"/api/v1/namespaces/{spec.external_name}")


def test_a_namespace_of_any_name_is_guarded_whatever_becomes_of_its_labels(
    site: LabSite, api: Api, adopted: tuple[str, Api]
) -> None:
    space, alice = adopted
    pods = f"/api/v1/namespaces/{space}/pods"
    foreign = pod("foreign", {"nvidia.com/gpu.shared": "1"})
    until(lambda: refused(lambda: alice.create(pods, foreign, dryRun="All"), "did not buy"), "it is guarded")
    namespace = f"/api/v1/namespaces/{space}"
    admin = somebody(site, "site-admin")
    with pytest.raises(Permanent, match=OTHERS):
        admin.merge(namespace, {"metadata": {"labels": {names.ADOPTED: None, names.WORKSPACE: None}}})
    # only Kubernetes' own administrators are beyond the rules; even so it stays guarded
    api.merge(namespace, {"metadata": {"labels": {names.ADOPTED: None, names.WORKSPACE: None}}})
    assert space in install(api).adopted
    with pytest.raises(Permanent, match="did not buy"):
        alice.create(pods, foreign, dryRun="All")
    with pytest.raises(Permanent, match=OTHERS):
        admin.merge(namespace, {"metadata": {"labels": {"a": "b"}}})


def test_an_adopted_name_is_free_again_when_it_is_gone(api: Api, adopted: tuple[str, Api]) -> None:
    space, _ = adopted
    api.delete(f"/api/v1/namespaces/{space}")
    until(lambda: api.find(f"/api/v1/namespaces/{space}") is None, "it is gone")
    assert space not in install(api).adopted


def test_processes_that_adopt_at_once_lose_nothing(api: Api) -> None:
    """The one that has read before the other wrote is told to look again."""
    late = api.get(f"{guards.POLICIES}/{guards.SERVICES}")
    api.merge(f"{guards.POLICIES}/{guards.SERVICES}", {"metadata": {"annotations": {"example.com/a": "b"}}})
    body = dict(guards.site_objects(api))[guards.POLICIES]
    with pytest.raises(GpuaasError, match="changed concurrently"):
        writing._write(
            api, guards.POLICIES, {**body, "metadata": {**body["metadata"], "name": guards.SERVICES}}, late
        )


def test_processes_that_write_at_once_look_again(site: LabSite, api: Api) -> None:
    """All of them read what was loosened, one writes first; none of the others is sent away for it."""
    path = f"{guards.POLICIES}/{guards.SERVICES}"
    api.merge(path, {"spec": {"failurePolicy": "Ignore"}}, fieldManager=EDITOR)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(guards.install, [Api(site.kubeconfig) for _ in range(8)]))
    assert len({each.adopted for each in made}) == 1
    assert api.get(path)["spec"]["failurePolicy"] == "Fail"


def tuned_room(site: LabSite, **changes: Any) -> Room:
    return make_room(site, make_spec(**changes))


def test_sysctls_that_were_bought_and_no_others(site: LabSite, api: Api) -> None:
    room = tuned_room(site, tuning=Tuning(sysctls=("net.core.somaxconn", "kernel.shm_rmid_forced")))

    def with_sysctl(name: str) -> Object:
        return pod("tuned", GPU, securityContext={"sysctls": [{"name": name, "value": "1"}]})

    pods = room.path("pods")
    for name in ("net.core.somaxconn", "kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies"):
        room.tenant.create(pods, with_sysctl(name), dryRun="All")
    with pytest.raises(Permanent, match="not among those that this workspace's flavors give"):
        room.tenant.create(pods, with_sysctl("kernel.msgmax"), dryRun="All")
    # the level of Pod Security is lifted, so the guards alone stand for the rest of it
    for harm, words in (
        ({"hostNetwork": True}, "hostNetwork"),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, "only these volumes"),
        (
            {"containers": [{"name": "m", "image": "x", "securityContext": {"privileged": True}}]},
            "privileged",
        ),
    ):
        with pytest.raises(Permanent, match=f"gpuaas-pods.*{words}"):
            room.tenant.create(pods, pod("harm", CPU, **harm), dryRun="All")


def test_hugepages_are_held_by_the_quota(site: LabSite, api: Api) -> None:
    room = tuned_room(site, tuning=Tuning(hugepages={"1Gi": 2}))
    room.tenant.create(room.path("pods"), pod("huge", {"hugepages-1Gi": "2Gi", "memory": "1Gi", **GPU}))
    room.run_to("huge", "Running")
    with pytest.raises(Permanent, match="exceeded quota"):
        room.tenant.create(room.path("pods"), pod("more", {"hugepages-1Gi": "1Gi", "memory": "1Gi"}))


def test_a_profile_and_a_taint_of_the_pool_are_met(site: LabSite, api: Api) -> None:
    """One node of the pool has the profile; both keep out whoever does not tolerate their pool."""
    taint = {"key": names.POOL_LABEL, "value": "h100-sxm-80gb", "effect": "NoSchedule"}
    gpu_taint = {"key": names.GPU_TAINT, "value": "present", "effect": "NoSchedule"}
    for node in ("h100-1", "h100-2"):
        api.merge(f"/api/v1/nodes/{node}", {"spec": {"taints": [gpu_taint, taint]}})
    api.merge("/api/v1/nodes/h100-2", {"metadata": {"labels": {names.PROFILE_LABEL: "realtime"}}})
    room = tuned_room(site, tuning=Tuning(profile="realtime"))
    room.tenant.create(room.path("pods"), pod("fast", GPU))
    assert room.run_to("fast", "Running")["spec"]["nodeName"] == "h100-2"
    room.tenant.create(room.path("pods"), pod("plain", CPU))
    assert room.run_to("plain", "Running")["spec"]["nodeName"] == "h100-2"


@pytest.mark.parametrize("placement", [each for each in Placement if each])
def test_pods_are_put_together_unless_they_say_otherwise(
    site: LabSite, api: Api, placement: Placement
) -> None:
    room = tuned_room(site, placement=placement)
    made = room.tenant.create(room.path("pods"), pod("near", GPU))["spec"]["affinity"]["podAffinity"]
    terms = made["preferredDuringSchedulingIgnoredDuringExecution"]
    assert tuple(term["podAffinityTerm"]["topologyKey"] for term in terms) == manifests.NEAR[placement]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    own = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
        }
    }
    kept = room.tenant.create(room.path("pods"), pod("own", GPU, affinity=own))["spec"]["affinity"]
    assert kept == own
    spread = {"podAntiAffinity": own["podAffinity"]}
    both = room.tenant.create(room.path("pods"), pod("both", CPU, affinity=spread), dryRun="All")
    assert set(both["spec"]["affinity"]) == {"podAffinity", "podAntiAffinity"}
    room.run_to("near", "Running")


def test_a_daemon_of_the_site_is_left_alone(site: LabSite, api: Api) -> None:
    """Its controller gives each pod a node and tolerations of its own, which a tenant may not."""
    room = tuned_room(site)
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": pod("any", CPU)["spec"]}
    template["spec"]["tolerations"] = [
        {"key": names.GPU_TAINT, "operator": "Exists"},
        {"key": names.POOL_LABEL, "value": "h100-sxm-80gb"},
    ]
    body = {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    api.create(room.path("daemonsets", "/apis/apps/v1"), body)
    path = f"{room.path('daemonsets', '/apis/apps/v1')}/agent"
    until(lambda: api.get(path)["status"].get("numberReady", 0) >= 2, "it runs on both nodes")


def test_without_additions_the_plugins_still_do(
    site: LabSite, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that serves no mutations, with PodNodeSelector and PodTolerationRestriction."""
    monkeypatch.setattr(kinds, "MUTATING_VERSIONS", ())
    for item in api.items(ADDITIONS):
        api.delete(f"{kinds.mutating('v1', bindings=True)}/{item['metadata']['name']}")
        api.delete(f"{ADDITIONS}/{item['metadata']['name']}")
    room = tuned_room(site)
    until(lambda: guards.probe(api, room.spec.external_name) is guards.Acting.REFUSALS, "they no longer add")
    room.tenant.create(room.path("pods"), pod("plain", GPU))
    assert room.run_to("plain", "Running")["spec"]["nodeName"].startswith("h100-")
    slices = GpuAmount("nvidia.com/mig-1g.5gb", 1, {"gpuaas.io/pool": "a100-40gb-mig"}, exclusive=True)
    two = tuned_room(site, gpus=(H100, slices), closed=("nvidia.com/gpu.shared",))
    with pytest.raises(Permanent, match=r"nvidia.com/gpu@gpuaas.io/pool=h100-sxm-80gb"):
        two.tenant.create(two.path("pods"), pod("any", GPU))
    two.tenant.create(two.path("pods"), pod("slice", {slices.resource_name: "1"}))
    two.run_to("slice", "Running")


def test_accounts_in_the_rules_are_quoted(api: Api) -> None:
    site = guards.Site(portals=("o'brien\\",))
    assert "'o\\'brien\\\\'" in site.outsiders

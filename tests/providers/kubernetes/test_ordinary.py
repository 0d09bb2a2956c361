"""What people do all day, with their own kubeconfig and no word of tolerations, selectors or quotas: it just works."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpuaas.providers.base import GpuAmount, Member
from gpuaas.providers.kubeapi.client import Api, Object
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import ALICE, UNSOLD, Room, forget, kubeconfig, make_room, make_spec
from tests.providers.kubernetes.escapes.shapes import APPS, BATCH, CPU, DRA, GPU, POLICY, claim, container

pytestmark = pytest.mark.lab

BOB = Member(subject="u-bob", name="bob", role="edit")
H100 = GpuAmount("nvidia.com/gpu", 4, {"gpuaas.io/pool": "h100-sxm-80gb"})
HIDDEN = [
    {"name": f"{vendor}_VISIBLE_DEVICES", "value": "void"} for vendor in ("NVIDIA", "AMD", "HABANA", "ASCEND")
]
H200 = GpuAmount("gpuaas.io/h200", 3, {"gpuaas.io/pool": "h200-dra"}, device_class="h200")
SLICES = GpuAmount("nvidia.com/mig-1g.5gb", 2, {"gpuaas.io/pool": "a100-40gb-mig"})
SCALING, LEASES = "/apis/autoscaling/v2", "/apis/coordination.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture(scope="module")
def workspace(lab: LabSite) -> Iterator[Room]:
    """Of three pools, with bob in it; `tenant` is he."""
    bought = (H100, H200, SLICES)
    closed = tuple(name for name in UNSOLD if name not in {gpu.resource_name for gpu in bought})
    spec = make_spec(gpus=bought, closed=closed, members=(ALICE, BOB), vcpus=64)
    room = make_room(lab, spec)
    yield Room(spec, room.driver, room.admin, Api(kubeconfig(room.driver, spec, BOB)))
    forget(lab, spec)


@pytest.fixture
def bob(workspace: Room) -> Iterator[Room]:
    """Nothing of one test is there for the next."""
    yield workspace
    for kind, group in (("deployments", APPS), ("statefulsets", APPS), ("cronjobs", BATCH), ("jobs", BATCH)):
        workspace.tenant.delete(workspace.path(kind, group), propagationPolicy="Background")
    workspace.admin.delete(workspace.path("pods"), gracePeriodSeconds="0")
    until(lambda: not workspace.admin.items(workspace.path("pods")), "all pods are gone")


def workload(name: str, limits: dict[str, str], **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, limits)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def job(limits: dict[str, str], **spec: Any) -> Object:
    return {"template": {"spec": {**pod("any", limits, run_seconds=1)["spec"]}}, **spec}


def made(room: Room, body: Object, **spec: Any) -> Object:
    """The pod as it runs."""
    body["spec"] |= spec
    room.tenant.create(room.path("pods"), body)
    return room.run_to(body["metadata"]["name"], "Running")


def pods_of(room: Room, selector: str, phase: str = "Running") -> list[Object]:
    found = room.tenant.items(room.path("pods"), labelSelector=selector)
    return [each for each in found if each["status"].get("phase") == phase]


@pytest.mark.parametrize(
    ("resource", "node"),
    [("nvidia.com/gpu", "h100-"), ("nvidia.com/mig-1g.5gb", "a100-mig-"), ("gpuaas.io/h200", "h200-")],
)
def test_a_deployment_of_any_gpu_runs_on_its_own_pool(bob: Room, resource: str, node: str) -> None:
    bob.tenant.create(bob.path("deployments", APPS), workload("web", {resource: "1"}, replicas=2))
    found = until(lambda: (seen := pods_of(bob, "app=web"))[1:] and seen, "both run")
    assert all(each["spec"]["nodeName"].startswith(node) for each in found)


def test_a_deployment_is_updated_and_scaled(bob: Room) -> None:
    deployments = bob.path("deployments", APPS)
    rolling = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
    bob.tenant.create(deployments, workload("web", GPU, replicas=1, **rolling))
    until(lambda: pods_of(bob, "app=web"), "it runs")
    template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    bob.tenant.merge(f"{deployments}/web", {"spec": {"template": template}})
    sets = bob.path("replicasets", APPS)
    until(lambda: len(bob.tenant.items(sets, labelSelector="app=web")) == 2, "a second set is made")
    status = f"{deployments}/web"
    until(lambda: bob.tenant.get(status)["status"].get("updatedReplicas") == 1, "the new one runs")
    bob.tenant.merge(f"{deployments}/web/scale", {"spec": {"replicas": 0}})
    until(lambda: not pods_of(bob, "app=web"), "none runs")
    bob.tenant.delete(f"{deployments}/web", propagationPolicy="Foreground")
    until(lambda: bob.tenant.find(f"{deployments}/web") is None, "it is gone")


def test_a_stateful_set_behind_a_headless_service(bob: Room) -> None:
    service = {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]}
    bob.tenant.create(bob.path("services"), {"metadata": {"name": "db"}, "spec": service})
    bob.tenant.create(bob.path("statefulsets", APPS), workload("db", GPU, replicas=2, serviceName="db"))
    names = until(lambda: (seen := pods_of(bob, "app=db"))[1:] and seen, "both run")
    assert {each["metadata"]["name"] for each in names} == {"db-0", "db-1"}
    bob.tenant.delete(f"{bob.path('services')}/db")


def test_volumes_of_a_stateful_set_are_claimed(bob: Room) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": storage}]
    bob.tenant.create(
        bob.path("statefulsets", APPS), workload("disk", CPU, serviceName="disk", volumeClaimTemplates=claims)
    )
    path = f"{bob.path('persistentvolumeclaims')}/data-disk-0"
    until(lambda: bob.tenant.find(path), "the claim is made")
    bob.tenant.merge(path, {"spec": {"resources": {"requests": {"storage": "1Gi"}}}})
    bob.tenant.delete(bob.path("persistentvolumeclaims"))


def test_a_parallel_job_ends(bob: Room) -> None:
    body = {"metadata": {"name": "train"}, "spec": job(GPU, completions=3, parallelism=2)}
    bob.tenant.create(bob.path("jobs", BATCH), body)
    until(lambda: len(pods_of(bob, "job-name=train", "Succeeded")) == 3, "all three ended well")


def test_a_cron_job_makes_jobs_by_itself_and_by_hand(bob: Room) -> None:
    cron = {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job(GPU)}},
    }
    uid = bob.tenant.create(bob.path("cronjobs", BATCH), cron)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": uid, "controller": True}
    by_hand = {"metadata": {"name": "now", "ownerReferences": [owner]}, "spec": job(GPU)}
    bob.tenant.create(bob.path("jobs", BATCH), by_hand)

    def both() -> bool:
        jobs = bob.tenant.items(bob.path("jobs", BATCH))
        return len([each for each in jobs if each["status"].get("succeeded")]) > 1

    until(both, "one by hand and one by the clock", seconds=100)


def test_a_pod_with_a_claim_and_one_with_a_template(bob: Room) -> None:
    bob.tenant.create(bob.path("resourceclaims", DRA), {"metadata": {"name": "one"}, "spec": claim()})
    template = {"metadata": {"name": "each"}, "spec": {"spec": claim(count=1)}}
    bob.tenant.create(bob.path("resourceclaimtemplates", DRA), template)
    for name, source in (("a", {"resourceClaimName": "one"}), ("b", {"resourceClaimTemplateName": "each"})):
        using = container(resources={"claims": [{"name": "gpu"}]})
        running = made(bob, pod(name, CPU), containers=[using], resourceClaims=[{"name": "gpu", **source}])
        assert running["spec"]["nodeName"].startswith("h200-")
        assert running["spec"]["containers"][0]["env"] == HIDDEN, "claimed devices come by CDI, no others may"
    bob.admin.delete(bob.path("pods"), gracePeriodSeconds="0")
    until(lambda: not bob.admin.items(bob.path("pods")), "the pods are gone")
    bob.tenant.delete(bob.path("resourceclaims", DRA))
    bob.tenant.delete(bob.path("resourceclaimtemplates", DRA))


def test_a_device_by_the_name_that_its_class_always_has(bob: Room) -> None:
    running = made(bob, pod("implicit", {"deviceclass.resource.kubernetes.io/h200": "1"}))
    assert running["spec"]["nodeName"].startswith("h200-")


def test_a_chart_as_helm_makes_it(bob: Room) -> None:
    """An account of its own, a release kept in a secret, labels of Helm's, security of the strict kind."""
    labels = {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "demo-0.1.0"}
    notes = {"meta.helm.sh/release-name": "demo"}
    metadata = {"name": "demo", "labels": labels, "annotations": notes}
    bob.tenant.create(
        bob.path("serviceaccounts"), {"metadata": metadata, "automountServiceAccountToken": True}
    )
    release = {"metadata": {"name": "sh.helm.release.v1.demo.v1", "labels": {"owner": "helm"}}}
    bob.tenant.create(
        bob.path("secrets"), {**release, "type": "helm.sh/release.v1", "stringData": {"release": "x"}}
    )
    body = workload("demo", CPU, replicas=1)
    body["metadata"] = metadata
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    probe = {"httpGet": {"path": "/", "port": 80}}
    inner = container(securityContext=strict, livenessProbe=probe, ports=[{"containerPort": 80}])
    context = {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 2000}
    body["spec"]["template"]["spec"] |= {
        "serviceAccountName": "demo",
        "containers": [inner],
        "securityContext": context,
    }
    bob.tenant.create(bob.path("deployments", APPS), body)
    until(lambda: pods_of(bob, "app=demo"), "it runs")
    bob.tenant.delete(f"{bob.path('serviceaccounts')}/demo")
    bob.tenant.delete(f"{bob.path('secrets')}/sh.helm.release.v1.demo.v1")


def test_settings_come_from_config_maps_and_secrets(bob: Room) -> None:
    bob.tenant.create(bob.path("configmaps"), {"metadata": {"name": "settings"}, "data": {"LEVEL": "3"}})
    key = {"metadata": {"name": "key"}, "stringData": {"TOKEN": "s"}}
    bob.tenant.create(bob.path("secrets"), key)
    sources = [{"configMapRef": {"name": "settings"}}, {"prefix": "APP_", "secretRef": {"name": "key"}}]
    env = [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]
    inner = container(
        envFrom=sources, env=env, resources={"limits": GPU}, volumeMounts=[{"name": "c", "mountPath": "/c"}]
    )
    volumes = [
        {"name": "c", "configMap": {"name": "settings"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    running = made(bob, pod("configured", GPU), containers=[inner], volumes=volumes)
    assert [each["name"] for each in running["spec"]["containers"][0]["env"]] == [
        "NVIDIA_DRIVER_CAPABILITIES"
    ]
    bob.tenant.merge(f"{bob.path('configmaps')}/settings", {"data": {"LEVEL": "4"}})
    bob.tenant.delete(f"{bob.path('configmaps')}/settings")
    bob.tenant.delete(f"{bob.path('secrets')}/key")


@pytest.mark.parametrize("value", ["void", "none"])
def test_a_container_without_a_gpu_may_hide_them(bob: Room, value: str) -> None:
    hidden = container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}])
    running = made(bob, pod("hidden", CPU), containers=[hidden])
    assert running["spec"]["containers"][0]["env"] == [*hidden["env"], *HIDDEN[1:]]


def test_containers_without_a_gpu_see_none_whatever_their_image_says(bob: Room) -> None:
    inits = [{"name": "init", "image": "cuda"}, {"name": "side", "image": "cuda", "restartPolicy": "Always"}]
    body = pod("mixed", GPU)
    body["spec"]["containers"].append({"name": "log", "image": "cuda", "env": [{"name": "A", "value": "b"}]})
    spec = made(bob, body, initContainers=inits)["spec"]
    assert "env" not in spec["containers"][0]
    assert spec["containers"][1]["env"] == [{"name": "A", "value": "b"}, *HIDDEN]
    assert [each["env"] for each in spec["initContainers"]] == [HIDDEN, HIDDEN]


def test_a_running_pod_is_debugged(bob: Room) -> None:
    made(bob, pod("app", GPU))
    path = f"{bob.path('pods')}/app/ephemeralcontainers"
    for name in ("first", "second"):
        held = bob.tenant.get(path)["spec"].get("ephemeralContainers") or []
        new = {"name": name, "image": "busybox", "targetContainerName": "main", "stdin": True, "tty": True}
        bob.tenant.merge(path, {"spec": {"ephemeralContainers": [*held, new]}})
    added = bob.tenant.get(path)["spec"]["ephemeralContainers"]
    assert [one["env"] for one in added] == [HIDDEN, HIDDEN]


def test_logs_are_read_and_shells_and_ports_opened(bob: Room) -> None:
    made(bob, pod("talks", CPU))
    assert bob.tenant.text(f"{bob.path('pods')}/talks/log", most=1000)
    for sub, verb in (("exec", "create"), ("exec", "get"), ("attach", "create"), ("portforward", "create")):
        asked = {"namespace": bob.spec.external_name, "verb": verb, "resource": "pods", "subresource": sub}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = bob.tenant.create(REVIEWS, {**review, "spec": {"resourceAttributes": asked}})
        assert answer["status"]["allowed"], sub


def test_a_pod_is_resized_within_the_quota(bob: Room) -> None:
    """One that waits: the lab's kubelets cannot resize what runs."""
    bob.tenant.create(bob.path("pods"), pod("wait", CPU, schedulingGates=[{"name": "example.com/wait"}]))
    bigger = container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})
    bob.tenant.merge(f"{bob.path('pods')}/wait/resize", {"spec": {"containers": [bigger]}})
    found = bob.pod("wait")["spec"]["containers"][0]["resources"]
    assert found["requests"]["cpu"] == "2"
    bob.tenant.merge(f"{bob.path('pods')}/wait", {"spec": {"schedulingGates": []}})
    bob.run_to("wait", "Running")


def test_a_disruption_budget_and_an_eviction(bob: Room) -> None:
    budget = {
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    bob.tenant.create(bob.path("poddisruptionbudgets", POLICY), budget)
    made(bob, pod("app", CPU))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "app"}}
    bob.tenant.create(f"{bob.path('pods')}/app/eviction", body)
    until(lambda: bob.tenant.find(f"{bob.path('pods')}/app") is None, "it is evicted")
    bob.tenant.delete(bob.path("poddisruptionbudgets", POLICY))


def test_an_autoscaler_and_a_lease(bob: Room) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler = {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
    bob.tenant.create(bob.path("horizontalpodautoscalers", SCALING), scaler)
    bob.tenant.delete(bob.path("horizontalpodautoscalers", SCALING))
    leases = bob.path("leases", LEASES)
    bob.tenant.create(leases, {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "me"}})
    bob.tenant.merge(f"{leases}/leader", {"spec": {"holderIdentity": "you"}})
    bob.tenant.delete(leases)


def test_services_and_volumes(bob: Room) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    bob.tenant.create(bob.path("services"), {"metadata": {"name": "web"}, "spec": spec})
    bob.tenant.merge(f"{bob.path('services')}/web", {"metadata": {"labels": {"tier": "front"}}})
    storage = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Gi"}}}
    bob.tenant.create(bob.path("persistentvolumeclaims"), {"metadata": {"name": "data"}, "spec": storage})
    bob.tenant.delete(bob.path("services"))
    bob.tenant.delete(bob.path("persistentvolumeclaims"))


SIZES: dict[str, Object] = {
    "nothing": {},
    "requests": {"requests": {"cpu": "4", "memory": "8Gi"}},
    "limits": {"limits": {"cpu": "2", "memory": "1Gi"}},
    "both": {"requests": {"cpu": "1"}, "limits": {"cpu": "8"}},
    "disk": {"limits": {"ephemeral-storage": "1Gi"}, "requests": {"ephemeral-storage": "0"}},
    "no GPU": {"limits": {"nvidia.com/gpu": "0"}},
}


@pytest.mark.parametrize("what", SIZES)
def test_a_pod_may_say_as_much_of_its_size_as_it_likes(bob: Room, what: str) -> None:
    made(bob, pod("sized", CPU), containers=[container(resources=SIZES[what])])


PLACES: dict[str, Object] = {
    "the known toleration": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    "an exact toleration": {
        "tolerations": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    },
    "its pool's selector": {"nodeSelector": {"gpuaas.io/pool": "h100-sxm-80gb"}},
    "a node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["h100-2"]}
                            ]
                        }
                    ]
                }
            }
        }
    },
    "a spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ]
    },
    "seconds on lost nodes": {
        "tolerations": [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 30,
            }
        ]
    },
    "an NVIDIA runtime": {"runtimeClassName": "nvidia"},
}


@pytest.mark.parametrize("what", PLACES)
def test_a_pod_may_say_where_it_goes_among_its_own_nodes(bob: Room, lab: LabSite, what: str) -> None:
    lab.api().apply(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
    )
    assert made(bob, pod("placed", GPU), **PLACES[what])["spec"]["nodeName"].startswith("h100-")


def test_everything_is_deleted_at_once(bob: Room) -> None:
    for name in ("one", "two"):
        made(bob, pod(name, GPU))
        bob.tenant.create(bob.path("configmaps"), {"metadata": {"name": name}})
    bob.tenant.delete(bob.path("pods"))
    until(lambda: not bob.tenant.items(bob.path("pods")), "no pod is left")
    bob.tenant.delete(bob.path("configmaps"))
    until(lambda: bob.tenant.find(f"{bob.path('configmaps')}/one") is None, "no config map is left")


def test_the_tenant_sees_what_is_theirs(bob: Room) -> None:
    for kind in ("resourcequotas", "limitranges", "events", "serviceaccounts"):
        assert bob.tenant.items(bob.path(kind)) is not None
    space = bob.tenant.get(f"/api/v1/namespaces/{bob.spec.external_name}")
    assert "nvidia.com/gpu@gpuaas.io/pool=h100-sxm-80gb" in space["metadata"]["annotations"]["gpuaas.io/pins"]

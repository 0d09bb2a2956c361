"""What may not be asked of a pod."""

from collections.abc import Iterator
from typing import Any

from gpuaas.providers.kubeapi.client import Object
from tests.providers.kubernetes.escapes.shapes import (
    CORE,
    DEVICES,
    GPU,
    OURS,
    VISIBLE,
    Escape,
    a_pod,
    container,
    meta,
    owner,
)

FOREIGN_TAINTS = {
    "everything": {"operator": "Exists"},
    "control planes": {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
    "cordoned nodes": {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    "another pool": {"key": "gpuaas.io/pool", "value": "cpu"},
    "every pool": {"key": "gpuaas.io/pool", "operator": "Exists"},
}
INJECTING = (
    "cdi.k8s.io/gpu",
    "cdi-devices.nri.io/container.main",
    "devices.nri.io/pod",
    "io.kubernetes.cri-o.Devices",
)


def one(**more: Any) -> Object:
    return a_pod(containers=[container(**more)])


def env(value: str = "all", **more: Any) -> Object:
    return one(env=[{"name": VISIBLE, "value": value}], **more)


def secured(**context: Any) -> Object:
    return one(securityContext=context)


def volume(**source: Any) -> Object:
    return a_pod(volumes=[{"name": "data", **source}])


def tolerating(**toleration: Any) -> Object:
    return a_pod(tolerations=[toleration])


def near(kind: str, **term: Any) -> Object:
    terms = [{"topologyKey": "kubernetes.io/hostname", **term}]
    return a_pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


Found = Iterator[tuple[str, str, Object]]


def pods_and_templates() -> Found:
    """(what, words, pod): refused as a pod, and in a template already in the tenant's own request."""
    yield from _asked()
    yield from _seen()
    yield from _handed()
    yield from _placed()
    yield from _secured()


def _asked() -> Found:
    """What it asks for."""
    yield "another scheduler", "default one", a_pod(schedulerName="mine")
    yield "system priority", "priority classes", a_pod(priorityClassName="system-node-critical")
    yield "an account of a member", "as a member", a_pod(serviceAccountName="u-alice")
    yield "an unsold MIG profile", "did not buy", a_pod({"nvidia.com/mig-1g.5gb": "1"})
    yield "an unsold share", "did not buy", a_pod({"nvidia.com/gpu.shared": "1"})
    yield "a name that no node has yet", "did not buy", a_pod({"nvidia.com/gb300": "1"})
    yield "another vendor's", "did not buy", a_pod({"amd.com/gpu": "1"})
    unsold = "deviceclass.resource.kubernetes.io/unsold"
    yield "an unsold class by its implicit name", "did not buy", a_pod({unsold: "1"})
    yield "a fraction of a GPU", "integer", a_pod({"nvidia.com/gpu": "500m"})
    yield (
        "an unsold GPU in an init container",
        "did not buy",
        a_pod(
            initContainers=[
                {"name": "init", "image": "x", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}
            ]
        ),
    )


def _seen() -> Found:
    """GPUs past what it asks for, by variables."""
    yield "all GPUs by environment", DEVICES, env()
    yield "one GPU by its number", DEVICES, env("0")
    yield "all GPUs on top of one", DEVICES, env(resources={"limits": GPU})
    yield "none on top of one", DEVICES, env("void", resources={"limits": GPU})
    twice = [{"name": VISIBLE, "value": "void"}, {"name": VISIBLE, "value": "all"}]
    yield "a duplicate entry", DEVICES, one(env=twice)
    expanded = [{"name": "A", "value": "all"}, {"name": VISIBLE, "value": "$(A)"}]
    yield "an expanded entry", DEVICES, one(env=expanded)
    referred = {"configMapKeyRef": {"name": "any", "key": "any"}}
    yield "a value from a config map", DEVICES, one(env=[{"name": VISIBLE, "valueFrom": referred}])
    file = {"fileKeyRef": {"volumeName": "data", "path": "env", "key": "any"}}
    yield (
        "a value from a file",
        DEVICES,
        a_pod(
            containers=[container(env=[{"name": VISIBLE, "valueFrom": file}])],
            volumes=[{"name": "data", "emptyDir": {}}],
        ),
    )
    yield (
        "a prefix that completes the name",
        "prefix of envFrom",
        one(envFrom=[{"prefix": "NVIDIA_VISIBLE_", "configMapRef": {"name": "any"}}]),
    )
    yield (
        "a prefix with a secret",
        "prefix of envFrom",
        one(envFrom=[{"prefix": "NV", "secretRef": {"name": "any", "optional": True}}]),
    )


def _handed() -> Found:
    """GPUs past what it asks for, by other ways."""
    yield "IMEX channels", DEVICES, one(env=[{"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}])
    sidecar = {
        "name": "side",
        "image": "x",
        "restartPolicy": "Always",
        "env": [{"name": VISIBLE, "value": "all"}],
    }
    yield "by a sidecar's environment", DEVICES, a_pod(initContainers=[sidecar])
    mount = {"name": "d", "mountPath": "/var/run/nvidia-container-devices/all"}
    mounted = a_pod(containers=[container(volumeMounts=[mount])], volumes=[{"name": "d", "emptyDir": {}}])
    yield "devices by a mount", "by a mount", mounted
    for key in INJECTING:
        handed = a_pod(annotations={key: "nvidia.com/gpu=all"})
        yield f"annotation {key}", "annotations that hand out", handed
    networks = {"k8s.v1.cni.cncf.io/networks": "other/net"}
    yield "a network of another tenant", "annotations that hand out", a_pod(annotations=networks)
    yield "an NVIDIA runtime without a GPU", "runtime class", a_pod(runtimeClassName="nvidia-cdi")


def _placed() -> Found:
    """Where it goes."""
    for what, toleration in FOREIGN_TAINTS.items():
        yield f"toleration of {what}", "may be tolerated|whitelist", tolerating(**toleration)
    yield (
        "keeping others away",
        "other namespaces",
        near("podAntiAffinity", namespaceSelector={}, labelSelector={}),
    )
    yield "following others", "other namespaces", near("podAffinity", namespaces=["kube-system"])
    yield (
        "GPUs of another pool",
        "lacks|other nodes",
        a_pod(GPU, nodeSelector={"gpuaas.io/pool": "a100-40gb-mig"}),
    )


def _secured() -> Found:
    """What Pod Security knows."""
    yield "the node's network", "hostNetwork|host namespaces", a_pod(hostNetwork=True)
    yield "the node's processes", "hostPID|host namespaces", a_pod(hostPID=True)
    yield "the node's shared memory", "hostIPC|host namespaces", a_pod(hostIPC=True)
    yield "a port of the node", "hostPort", one(ports=[{"containerPort": 80, "hostPort": 80}])
    yield "a folder of the node", "hostPath|only these volumes", volume(hostPath={"path": "/dev"})
    yield "an NFS export", "only these volumes", volume(nfs={"server": "nfs.example.com", "path": "/others"})
    yield "an inline CSI volume", "only these volumes", volume(csi={"driver": "nfs.csi.k8s.io"})
    yield "a privileged container", "privileged", secured(privileged=True)
    yield "another capability", "capabilities", secured(capabilities={"add": ["SYS_ADMIN"]})
    yield "no seccomp", "seccomp", secured(seccompProfile={"type": "Unconfined"})
    yield "no AppArmor", "(?i)apparmor", secured(appArmorProfile={"type": "Unconfined"})
    yield "another SELinux type", "seLinux", secured(seLinuxOptions={"type": "spc_t"})
    sysctl = {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}
    yield "an unsafe sysctl", "sysctl", a_pod(securityContext=sysctl)
    probe = {"httpGet": {"host": "169.254.169.254", "port": 80}}
    yield "a probe of another host", "host", one(livenessProbe=probe)


def pod_escapes() -> list[Escape]:
    found = [Escape(what, words, f"{CORE}|pods", body) for what, words, body in pods_and_templates()]
    return [*found, *_forged(), *_larger()]


def _forged() -> list[Escape]:
    return [
        Escape("a node by name", "choose its node", f"{CORE}|pods", a_pod(nodeName="h100-1")),
        Escape(
            "a pod that is a controller's",
            "ownerReferences",
            f"{CORE}|pods",
            {**a_pod(), **meta(ownerReferences=[owner("ReplicaSet", "apps/v1", controller=True)])},
        ),
        Escape(
            "a pod of the node",
            "ownerReferences",
            f"{CORE}|pods",
            {**a_pod(), **meta(ownerReferences=[owner("Node", "v1", controller=True)])},
        ),
        Escape(
            "a mirror pod",
            "annotations that hand|nodeName",
            f"{CORE}|pods",
            a_pod(annotations={"kubernetes.io/config.mirror": "x"}),
        ),
    ]


def _larger() -> list[Escape]:
    return [
        Escape("more GPUs than bought", "exceeded quota", f"{CORE}|pods", a_pod({"nvidia.com/gpu": "9"})),
        Escape(
            "more memory than bought", "exceeded|maximum memory", f"{CORE}|pods", a_pod({"memory": "4Ti"})
        ),
        Escape(
            "a limit above what was bought",
            "maximum cpu",
            f"{CORE}|pods",
            a_pod(containers=[container(resources={"requests": {"cpu": "10m"}, "limits": {"cpu": "500"}})]),
        ),
        Escape(
            "more of the node's disk",
            "maximum ephemeral-storage",
            f"{CORE}|pods",
            a_pod({"ephemeral-storage": "40Ti"}),
        ),
        Escape(
            "hugepages that were not bought",
            "exceeded quota",
            f"{CORE}|pods",
            a_pod({"hugepages-1Gi": "1Gi", "memory": "1Gi"}),
        ),
    ]


def later_escapes() -> Iterator[Escape]:
    """What is changed of a pod that runs."""
    ephemeral = {"name": "debug", "image": "x", "env": [{"name": VISIBLE, "value": "all"}]}
    change = {"spec": {"ephemeralContainers": [ephemeral]}}
    yield Escape("an ephemeral container", DEVICES, f"{CORE}|pods/mine/ephemeralcontainers", change, "merge")
    privileged = {"name": "debug", "image": "x", "securityContext": {"privileged": True}}
    yield Escape(
        "a privileged ephemeral container",
        "privileged",
        f"{CORE}|pods/mine/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [privileged]}},
        "merge",
    )
    yield Escape(
        "a CDI annotation",
        "annotations that hand",
        f"{CORE}|pods/mine",
        {"metadata": {"annotations": {"cdi.k8s.io/a": "b"}}},
        "merge",
    )
    yield Escape(
        "a label of ours", OURS, f"{CORE}|pods/mine", {"metadata": {"labels": {"gpuaas.io/a": "b"}}}, "merge"
    )
    resources = {"requests": {"cpu": "999"}, "limits": {"cpu": "999"}}
    resized = {"spec": {"containers": [container(resources=resources)]}}
    yield Escape(
        "a size beyond the quota",
        "exceeded quota|maximum cpu",
        f"{CORE}|pods/waiting/resize",
        resized,
        "merge",
    )

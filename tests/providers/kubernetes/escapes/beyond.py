"""What is not the workspace's at all."""

from collections.abc import Iterator

from tests.providers.kubernetes.escapes.shapes import (
    APPS,
    CORE,
    DRA,
    NO_RIGHT,
    Escape,
    a_pod,
    meta,
)


def foreign_escapes() -> Iterator[Escape]:
    space = f"{CORE}/namespaces/{{ns}}"
    for part in ("", "/status"):
        for key in (
            "gpuaas.io/workspace",
            "pod-security.kubernetes.io/enforce",
            "kubernetes.io/metadata.name",
        ):
            yield Escape(
                f"namespace{part}: label {key}",
                NO_RIGHT,
                space + part,
                {"metadata": {"labels": {key: None}}},
                "merge",
            )
        pins = {"metadata": {"annotations": {"gpuaas.io/pins": "nvidia.com/gb300@"}}}
        yield Escape(f"namespace{part}: annotation", NO_RIGHT, space + part, pins, "merge")
    yield Escape("namespace: delete", NO_RIGHT, space, verb="delete")
    yield Escape("namespace: finalize", NO_RIGHT, f"{space}/finalize", {"spec": {"finalizers": []}})
    yield Escape("another namespace", NO_RIGHT, f"{CORE}/namespaces", meta("gpu-00000000-mine"))
    yield Escape("a pod in kube-system", NO_RIGHT, f"{CORE}/namespaces/kube-system/pods", a_pod())
    yield Escape(
        "others' pods evicted",
        NO_RIGHT,
        f"{CORE}/namespaces/kube-system/pods/x/eviction",
        {"metadata": {"name": "x"}},
    )
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "h100-1"}}
    yield Escape("a pod bound by hand", NO_RIGHT, f"{CORE}|pods/mine/binding", {**meta("mine"), **target})
    yield Escape("a binding by hand", NO_RIGHT, f"{CORE}|bindings", {**meta("mine"), **target})
    yield Escape(
        "a pod's status", NO_RIGHT, f"{CORE}|pods/mine/status", {"status": {"phase": "Succeeded"}}, "merge"
    )
    yield from _site()


def _site() -> Iterator[Escape]:
    node = f"{CORE}/nodes/h100-1"
    yield Escape(
        "a node's labels", NO_RIGHT, node, {"metadata": {"labels": {"gpuaas.io/pool": "x"}}}, "merge"
    )
    yield Escape("a node's status", NO_RIGHT, f"{node}/status", {"status": {}}, "merge")
    yield Escape("a pod through the server", NO_RIGHT, f"{CORE}|pods/mine/proxy")
    yield Escape(
        "a webhook", NO_RIGHT, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", meta()
    )
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    yield Escape("the guards deleted", NO_RIGHT, f"{policies}/gpuaas-pods", verb="delete")
    yield Escape(
        "a binding of a guard deleted",
        NO_RIGHT,
        policies.replace("policies", "policybindings") + "/gpuaas-pods",
        verb="delete",
    )
    yield Escape(
        "a priority class", NO_RIGHT, "/apis/scheduling.k8s.io/v1/priorityclasses", {**meta(), "value": 1000}
    )
    yield Escape("a device class", NO_RIGHT, f"{DRA}/deviceclasses", {**meta(), "spec": {}})
    yield Escape("resource slices", NO_RIGHT, f"{DRA}/resourceslices", meta())
    yield Escape(
        "a signed certificate", NO_RIGHT, "/apis/certificates.k8s.io/v1/certificatesigningrequests", meta()
    )
    yield Escape("a daemon set", NO_RIGHT, f"{APPS}|daemonsets", {**meta(), "spec": {}})
    yield Escape("a forged event", NO_RIGHT, f"{CORE}|events", meta())

"""The portal's objects, rights, and whatever else a tenant might write."""

from collections.abc import Iterator

from gpuaas.providers.kubeapi.client import Object
from tests.providers.kubernetes.escapes.shapes import (
    CORE,
    DRA,
    EXTENDED,
    NETWORK,
    NO_RIGHT,
    OURS,
    RBAC,
    VISIBLE,
    Escape,
    claim,
    meta,
    owner,
)

_ALTERNATIVES = [
    {"name": "a", "deviceClassName": "h200"},
    {"name": "b", "deviceClassName": "unsold"},
]
CLAIMED: dict[str, tuple[str, Object]] = {
    "all devices": ("ExactCount", claim(allocationMode="All")),
    "admin access": ("adminAccess|admin access", claim(adminAccess=True)),
    "an unsold class": ("did not buy", claim("unsold")),
    "an unsold alternative": (
        "did not buy",
        {"devices": {"requests": [{"name": "gpu", "firstAvailable": _ALTERNATIVES}]}},
    ),
    "all as an alternative": (
        "ExactCount",
        {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "firstAvailable": [{"name": "a", "deviceClassName": "h200", "allocationMode": "All"}],
                    }
                ]
            }
        },
    ),
    "a tainted device": ("tolerations", claim(tolerations=[{"operator": "Exists"}])),
    "nothing": ("at least one device", {}),
    "no devices": ("at least one device", {"devices": {"requests": []}}),
    "more than bought": ("exceeded quota", claim(count=2)),
}


def claim_escapes() -> Iterator[Escape]:
    for what, (words, spec) in CLAIMED.items():
        yield Escape(f"claim: {what}", words, f"{DRA}|resourceclaims", {**meta(), "spec": spec})
        if what != "more than bought":
            yield Escape(
                f"claim template: {what}",
                words,
                f"{DRA}|resourceclaimtemplates",
                {**meta(), "spec": {"spec": spec}},
            )
    yield from _forged_claims()


def _forged_claims() -> Iterator[Escape]:
    words, one = "by Kubernetes alone", f"{DRA}|resourceclaims/mine"
    claims, templates = f"{DRA}|resourceclaims", f"{DRA}|resourceclaimtemplates"
    forged: Object = {"annotations": {EXTENDED: "true"}}
    owned: Object = {"ownerReferences": [owner("Pod", "v1", controller=True)]}
    in_template = {**meta(), "spec": {"metadata": forged, "spec": claim()}}
    forged_template = {**meta(**forged), "spec": {"spec": claim()}}
    yield Escape("claim: forged", words, claims, {**meta(**forged), "spec": claim()})
    yield Escape("claim: owned by a pod", words, claims, {**meta(**owned), "spec": claim()})
    yield Escape("claim template: forged", words, templates, in_template)
    yield Escape("claim template: forged itself", words, templates, forged_template)
    yield Escape("claim: forged later", words, one, {"metadata": forged}, "merge")
    yield Escape("claim: owned later", f"{words}|ownerReferences", one, {"metadata": owned}, "merge")
    yield Escape("claim: its status", NO_RIGHT, f"{one}/status", {"status": {"reservedFor": []}}, "merge")


def object_escapes() -> Iterator[Escape]:
    """The portal's objects, rights, and whatever else a tenant might write."""
    yield from _kept()
    yield from _rights()
    yield from _accounts()
    yield from _faked()
    yield from _keys()
    yield from _service_escapes()
    yield from _volume_escapes()


def _kept() -> Iterator[Escape]:
    for kind, group, name in (
        ("resourcequotas", CORE, "gpuaas"),
        ("limitranges", CORE, "gpuaas"),
        ("networkpolicies", NETWORK, "gpuaas-default-deny"),
        ("rolebindings", RBAC, "u-alice-admin"),
    ):
        yield Escape(
            f"change {kind}",
            NO_RIGHT,
            f"{group}|{kind}/{name}",
            {"metadata": {"labels": {"a": "b"}}},
            "merge",
        )
        yield Escape(f"delete {kind}", NO_RIGHT, f"{group}|{kind}/{name}", verb="delete")
        yield Escape(f"delete all {kind}", NO_RIGHT, f"{group}|{kind}", verb="delete")
        yield Escape(f"a second of {kind}", NO_RIGHT, f"{group}|{kind}", meta())
    yield Escape(
        "the quota's status",
        NO_RIGHT,
        f"{CORE}|resourcequotas/gpuaas/status",
        {"status": {"hard": {}}},
        "merge",
    )


def _rights() -> Iterator[Escape]:
    yield Escape("a role", NO_RIGHT, f"{RBAC}|roles", {**meta(), "rules": []})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    yield Escape("a binding for oneself", NO_RIGHT, f"{RBAC}|rolebindings", {**meta(), "roleRef": ref})
    yield Escape(
        "a binding for the cluster", NO_RIGHT, f"{RBAC}/clusterrolebindings", {**meta(), "roleRef": ref}
    )
    yield Escape(
        "a token of ten years",
        NO_RIGHT,
        f"{CORE}|serviceaccounts/u-alice/token",
        {"spec": {"expirationSeconds": 315360000}},
    )
    yield Escape(
        "a token of one's own account", NO_RIGHT, f"{CORE}|serviceaccounts/default/token", {"spec": {}}
    )
    token: Object = {"annotations": {"kubernetes.io/service-account.name": "u-alice"}}
    yield Escape(
        "a token without an end",
        "never ends",
        f"{CORE}|secrets",
        {**meta(**token), "type": "kubernetes.io/service-account-token"},
    )


def _accounts() -> Iterator[Escape]:
    yield Escape("a member's account", OURS, f"{CORE}|serviceaccounts", meta("u-12345678"))
    yield Escape("a robot's account", OURS, f"{CORE}|serviceaccounts", meta("ci-12345678"))
    yield Escape(
        "one's own account changed",
        OURS,
        f"{CORE}|serviceaccounts/u-alice",
        {"metadata": {"labels": {"gpuaas.io/role": "admin"}}},
        "merge",
    )
    yield Escape("a mate's account deleted", OURS, f"{CORE}|serviceaccounts/u-alice", verb="delete")
    yield Escape("all accounts deleted", OURS, f"{CORE}|serviceaccounts", verb="delete")


def _faked() -> Iterator[Escape]:
    for what, body in (
        ("label gpuaas.io/workspace", {"labels": {"gpuaas.io/workspace": "x"}}),
        ("label managed-by", {"labels": {"app.kubernetes.io/managed-by": "gpuaas"}}),
        ("annotation gpuaas.io/pins", {"annotations": {"gpuaas.io/pins": "x@"}}),
    ):
        words = f"{OURS}|what the portal made"
        yield Escape(f"faked {what}", words, f"{CORE}|configmaps", meta(**body))
        yield Escape(f"faked {what} later", words, f"{CORE}|configmaps/mine", {"metadata": body}, "merge")
    for kind, api in (
        ("ResourceQuota", "v1"),
        ("ServiceAccount", "v1"),
        ("Namespace", "v1"),
        ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ):
        yield Escape(
            f"owned by a {kind}",
            "ownerReferences",
            f"{CORE}|configmaps",
            meta(ownerReferences=[owner(kind, api)]),
        )
    yield Escape(
        "owned by a Node later",
        "ownerReferences",
        f"{CORE}|configmaps/mine",
        {"metadata": {"ownerReferences": [owner("Node", "v1")]}},
        "merge",
    )


def _keys() -> Iterator[Escape]:
    yield Escape(
        "a config map with the key", "rename it", f"{CORE}|configmaps", {**meta(), "data": {VISIBLE: "all"}}
    )
    yield Escape(
        "the key put in later", "rename it", f"{CORE}|configmaps/mine", {"data": {VISIBLE: "all"}}, "merge"
    )
    yield Escape(
        "a secret with the key", "rename it", f"{CORE}|secrets", {**meta(), "stringData": {VISIBLE: "all"}}
    )


def _service_escapes() -> Iterator[Escape]:
    ports = [{"port": 80}]
    for what, words, spec in (
        ("external IPs", "external IPs", {"externalIPs": ["192.0.2.1"], "ports": ports}),
        ("a node port", "ClusterIP", {"type": "NodePort", "ports": ports}),
        ("a load balancer", "ClusterIP", {"type": "LoadBalancer", "ports": ports}),
        ("an external name", "ClusterIP", {"type": "ExternalName", "externalName": "kubernetes.default.svc"}),
    ):
        yield Escape(f"service: {what}", words, f"{CORE}|services", {**meta(), "spec": spec})
    later = {"spec": {"type": "NodePort"}}
    yield Escape("service: a node port later", "ClusterIP", f"{CORE}|services/mine", later, "merge")
    named = {"external-dns.alpha.kubernetes.io/hostname": "www.example.com"}
    yield Escape(
        "service: a host name of the site",
        "host names",
        f"{CORE}|services",
        {**meta(annotations=named), "spec": {"clusterIP": "None", "ports": ports}},
    )
    yield Escape("service: its status", NO_RIGHT, f"{CORE}|services/mine/status", {"status": {}}, "merge")
    yield Escape("endpoints of one's own", NO_RIGHT, f"{CORE}|endpoints", meta())
    yield Escape(
        "endpoint slices",
        NO_RIGHT,
        "/apis/discovery.k8s.io/v1|endpointslices",
        {**meta(), "addressType": "IPv4", "endpoints": []},
    )
    yield Escape(
        "an ingress",
        NO_RIGHT,
        f"{NETWORK}|ingresses",
        {**meta(), "spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}}},
    )


def _volume_escapes() -> Iterator[Escape]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for what, words, more in (
        ("by name", "volumeName", {"volumeName": "pv-of-others"}),
        ("by label", "selector", {"selector": {"matchLabels": {"tenant": "others"}}}),
        ("beyond the quota", "exceeded quota", {"resources": {"requests": {"storage": "9Ti"}}}),
    ):
        body = {**meta(), "spec": {**spec, **more}}
        yield Escape(f"a volume {what}", words, f"{CORE}|persistentvolumeclaims", body)
    later = {"spec": {"volumeName": "pv-of-others"}}
    yield Escape(
        "a volume by name later", "volumeName", f"{CORE}|persistentvolumeclaims/mine", later, "merge"
    )
    yield Escape("a volume of the cluster", NO_RIGHT, f"{CORE}/persistentvolumes", meta())

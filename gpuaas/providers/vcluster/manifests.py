"""The control plane of a virtual cluster in its namespace: pure. Written for the vcluster image of release 0.30.

Its configuration has no defaults at run time, so everything is stated.
"""

import base64
from typing import Any

import yaml

from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.kubeapi import names as site_names
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.names import NAMESPACES, RELEASE
from gpuaas.providers.vcluster import names, roles
from gpuaas.providers.vcluster.settings import VirtualSettings

API_PORTS = (443, 6443)
# runs as root in its container, as upstream does, but with no access to the node
_SECURITY = {"allowPrivilegeEscalation": False, "runAsUser": 0, "runAsGroup": 0}
ON, OFF, NEVER = {"enabled": True}, {"enabled": False}, {"enabled": "false"}
_COPIED = ("services", "endpoints", "endpointSlices", "persistentVolumeClaims")
_OF_SITE = ("csiDrivers", "csiNodes", "csiStorageCapacities", "storageClasses")
# of the cluster's own DNS, which is an ordinary pod of the cluster
_NAMES_DEPLOYMENT = {
    "replicas": 1,
    "resources": {
        "requests": {"cpu": "20m", "memory": "64Mi"},
        "limits": {"cpu": "1", "memory": "170Mi"},
    },
}
_EMPTY = ("binaries", "certs", "helm-cache", "tmp")
_MOUNTS = {
    "data": "/data",
    "binaries": "/binaries",
    "certs": "/pki",
    "helm-cache": "/.cache/helm",
    "tmp": "/tmp",  # noqa: S108 - a volume of the container's own
    "vcluster-config": "/var/lib/vcluster",
}


def tag(spec: ClusterSpec) -> dict[str, str]:
    return {site_names.MANAGED_BY: site_names.MANAGER, names.TAG: str(spec.id)}


def version(release: str) -> str:
    return release.removeprefix("v")


def selector(name: str) -> dict[str, str]:
    """The labels by which upstream's tools find a control plane."""
    return {"app": "vcluster", "release": name}


def objects(spec: ClusterSpec, settings: VirtualSettings, api_blocks: list[str]) -> list[tuple[str, Object]]:
    """(collection, object), in the order of creation: the role binding last but one, the StatefulSet last.

    api_blocks: addresses of the site's API server, which the syncer must reach."""
    name, space = spec.external_name, names.space(spec.external_name)
    core, rbac = f"{NAMESPACES}/{space}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}"
    found = [
        (f"{core}/secrets", _config(spec, settings)),
        (f"{core}/services", _service(spec, name, headless=False)),
        (f"{core}/services", _service(spec, names.headless(name), headless=True)),
        (
            f"/apis/networking.k8s.io/v1/namespaces/{space}/networkpolicies",
            _network(spec, settings, api_blocks),
        ),
    ]
    if settings.ingress_class:
        found.append((f"/apis/networking.k8s.io/v1/namespaces/{space}/ingresses", _ingress(spec, settings)))
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(spec, names.account(name)),
        "automountServiceAccountToken": False,
    }
    return [
        *found,
        (f"{core}/serviceaccounts", account),
        (f"{rbac}/rolebindings", roles.binding(name, _metadata(spec, names.account(name)))),
        (f"/apis/apps/v1/namespaces/{space}/statefulsets", _stateful_set(spec, settings)),
    ]


def configuration(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    """Syncs only pods and what they need in the namespace: no nodes, ingresses, policies or other namespaces."""
    address = settings.address(spec.external_name)
    return {
        "controlPlane": _control(spec, settings),
        "sync": {"toHost": _to_site(settings), "fromHost": {"events": ON, **dict.fromkeys(_OF_SITE, NEVER)}},
        "networking": {
            "advanced": {
                "clusterDomain": "cluster.local",
                "proxyKubelets": {"byHostname": False, "byIP": False},
            }
        },
        "exportKubeConfig": {"server": f"https://{address}"},
        # otherwise every pod of a Deployment or Job would have a controlling owner, which the guards refuse
        "experimental": {"syncSettings": {"setOwner": False}},
        "telemetry": OFF,
        "logging": {"encoding": "json"},
    }


def _control(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    address, own = settings.address(spec.external_name), {"image": settings.dns_image}
    names_deployment = {**_NAMES_DEPLOYMENT, **(own if settings.dns_image else {})}
    return {
        "distro": {"k8s": {**ON, "apiServer": ON, "controllerManager": ON, "scheduler": OFF}},
        "backingStore": {"database": {"embedded": ON}},
        "proxy": {
            "bindAddress": "0.0.0.0",  # noqa: S104 - in its pod
            "port": names.PORT,
            "extraSANs": [address.partition(":")[0]],
        },
        "coredns": {**ON, "service": {"spec": {"type": "ClusterIP"}}, "deployment": names_deployment},
        "service": ON,
        "statefulSet": {"highAvailability": {"replicas": spec.control_plane.count}},
        "advanced": {"workloadServiceAccount": {"name": "default"}},
    }


def _to_site(settings: VirtualSettings) -> Object:
    place, _, image_tag = settings.hosts_image.rpartition(":")
    registry, _, repository = place.partition("/")
    image = {"registry": registry, "repository": repository, "tag": image_tag}
    small = {"cpu": "30m", "memory": "64Mi"}
    rewrite = {"image": image, "resources": {"limits": small, "requests": small}}
    return {
        **dict.fromkeys(_COPIED, ON),
        "configMaps": {**ON, "all": False},
        "secrets": {**ON, "all": False},
        "pods": {
            **ON,
            "rewriteHosts": {**ON, "initContainer": rewrite},
        },
    }


def _metadata(spec: ClusterSpec, name: str, **labels: str) -> Object:
    return {"name": name, "namespace": names.space(spec.external_name), "labels": {**tag(spec), **labels}}


def _config(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    text = yaml.safe_dump(configuration(spec, settings))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": _metadata(spec, names.config_secret(spec.external_name), app="vcluster"),
        "data": {"config.yaml": base64.b64encode(text.encode()).decode()},
    }


def _service(spec: ClusterSpec, name: str, *, headless: bool) -> Object:
    port = {"name": "https", "port": 443, "targetPort": names.PORT, "protocol": "TCP"}
    body: Object = {"selector": selector(spec.external_name), "ports": [port]}
    if headless:
        body |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    labels = {"app": "vcluster"} if headless else {"app": "vcluster", "vcluster.loft.sh/service": "true"}
    # the syncer writes into the annotations of its service, and fails if there are none
    metadata = {**_metadata(spec, name, **labels), "annotations": {names.TAG: spec.external_name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": body}


def _network(spec: ClusterSpec, settings: VirtualSettings, api_blocks: list[str]) -> Object:
    """Only the control plane may reach the site's API server, and only routers may reach the control plane."""
    ports = [{"protocol": "TCP", "port": port} for port in API_PORTS]
    egress = [{"to": [{"ipBlock": {"cidr": block}} for block in api_blocks], "ports": ports}]
    routers = [
        {"namespaceSelector": {"matchLabels": {key: value}}} for key, value in settings.routers.items()
    ]
    ingress = [{"from": routers, "ports": [{"protocol": "TCP", "port": names.PORT}]}]
    body: Object = {
        "podSelector": {"matchLabels": {names.CONTROL: spec.external_name}},
        "policyTypes": ["Egress", "Ingress"],
        **({"egress": egress} if api_blocks else {}),
        **({"ingress": ingress} if routers else {}),
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(spec, names.NETWORK),
        "spec": body,
    }


def _ingress(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    service = {"name": spec.external_name, "port": {"number": 443}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    host = settings.address(spec.external_name).partition(":")[0]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {**_metadata(spec, spec.external_name), "annotations": dict(settings.annotations)},
        "spec": {
            "ingressClassName": settings.ingress_class,
            "rules": [{"host": host, "http": {"paths": [path]}}],
        },
    }


def _stateful_set(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    name, control = spec.external_name, spec.control_plane
    labels = {**tag(spec), **selector(name), names.CONTROL: name, RELEASE: spec.release}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{control.disk_gib}Gi"}},
        **({"storageClassName": settings.storage_class} if settings.storage_class else {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(spec, name, app="vcluster", release=name),
        "spec": {
            "replicas": control.count,
            "serviceName": names.headless(name),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(name)},
            "template": {"metadata": {"labels": labels}, "spec": _pod(spec, settings)},
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": tag(spec)}, "spec": claim}],
        },
    }


def _pod(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    name = spec.external_name
    config = {"secretName": names.config_secret(name)}
    return {
        "serviceAccountName": names.account(name),
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": 10,
        "enableServiceLinks": False,
        "volumes": [
            *({"name": each, "emptyDir": {}} for each in _EMPTY),
            {"name": "vcluster-config", "secret": config},
        ],
        "initContainers": [
            {
                "name": "kubernetes",
                "image": settings.kubernetes_image.replace("{release}", version(spec.release)),
                "command": ["cp", "-r", "/kubernetes/.", "/binaries/"],
                "volumeMounts": [{"name": "binaries", "mountPath": "/binaries"}],
                "securityContext": _SECURITY,
                "resources": {"requests": {"cpu": "40m", "memory": "64Mi"}},
            }
        ],
        "containers": [_syncer(spec, settings)],
    }


def _syncer(spec: ClusterSpec, settings: VirtualSettings) -> Object:
    control = spec.control_plane
    size = {"cpu": str(control.vcpus), "memory": f"{control.memory_gib}Gi"}
    fields = {
        "POD_NAME": "metadata.name",
        "POD_IP": "status.podIP",
        "NODE_NAME": "spec.nodeName",
        "NODE_IP": "status.hostIP",
    }
    own = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    return {
        "name": "syncer",
        "image": settings.image,
        "env": [{"name": "VCLUSTER_NAME", "value": spec.external_name}, *own],
        "volumeMounts": [{"name": key, "mountPath": path} for key, path in _MOUNTS.items()],
        "securityContext": _SECURITY,
        "resources": {"requests": size, "limits": size},
        "livenessProbe": _probe("/healthz", initialDelaySeconds=60, periodSeconds=2, failureThreshold=60),
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=60),
        "startupProbe": _probe("/readyz", periodSeconds=6, failureThreshold=300),
    }


def _probe(path: str, **times: Any) -> Object:
    asked = {"path": path, "port": names.PORT, "scheme": "HTTPS"}
    return {"httpGet": asked, "timeoutSeconds": 3, **times}

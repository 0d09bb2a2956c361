"""The hub's kinds at a real API server: of each the fields that we write or read, by their real names and types.

Their own schemas are larger (GPUAAS_HUB_CRDS names a folder of them, which is used instead, kind by kind); what is not
in here a strict server refuses, so a field that we misspell or put in the wrong place is seen.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import in_the_end, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REAL = "GPUAAS_HUB_CRDS"
TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXTS = {"type": "object", "additionalProperties": TEXT}
MAC = {"type": "string", "pattern": "^([0-9A-Fa-f]{2}[:]){5}([0-9A-Fa-f]{2})$"}
BOOT_MAC = {"type": "string", "pattern": "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"}


def choice(*values: str) -> Object:
    return {"type": "string", "enum": list(values)}


def fields(required: tuple[str, ...] = (), **properties: Any) -> Object:
    """A list of one schema is an array of it; a dict without `type` an object of its own."""
    made: Object = {
        "type": "object",
        "properties": {key.replace("__", "-"): _schema(value) for key, value in properties.items()},
    }
    return {**made, "required": list(required)} if required else made


def _schema(value: Any) -> Object:
    if isinstance(value, list):
        return {"type": "array", "items": _schema(value[0])}
    found: Object = value
    return found


NAMED = fields(name=TEXT)
CONDITIONS = [
    fields(
        ("type", "status"),
        type=TEXT,
        status=TEXT,
        reason=TEXT,
        message=TEXT,
        lastTransitionTime=TEXT,
        lastProbeTime=TEXT,
        lastHeartbeatTime=TEXT,
    )
]
SELECTOR = fields(matchLabels=TEXTS)
INTERFACES = [fields(("name", "macAddress"), name=TEXT, macAddress=MAC)]

IMAGE_SET = fields(spec=fields(("releaseImage",), releaseImage=TEXT))
DEPLOYMENT = fields(
    spec=fields(
        ("baseDomain", "clusterName", "platform"),
        clusterName=TEXT,
        baseDomain=TEXT,
        platform=fields(agentBareMetal=fields(("agentSelector",), agentSelector=SELECTOR)),
        clusterInstallRef=fields(
            ("group", "kind", "name", "version"), group=TEXT, version=TEXT, kind=TEXT, name=TEXT
        ),
        pullSecretRef=NAMED,
        installed=FLAG,
    ),
    status=fields(apiURL=TEXT, webConsoleURL=TEXT, conditions=CONDITIONS),
)
INSTALL = fields(
    spec=fields(
        ("clusterDeploymentRef", "networking", "provisionRequirements"),
        clusterDeploymentRef=NAMED,
        imageSetRef=fields(("name",), name=TEXT),
        clusterMetadata=fields(adminKubeconfigSecretRef=NAMED, clusterID=TEXT, infraID=TEXT),
        networking=fields(
            networkType=choice("OpenShiftSDN", "OVNKubernetes"),
            machineNetwork=[fields(("cidr",), cidr=TEXT)],
            clusterNetwork=[fields(("cidr",), cidr=TEXT, hostPrefix=NUMBER)],
            serviceNetwork=[TEXT],
            userManagedNetworking=FLAG,
        ),
        provisionRequirements=fields(("controlPlaneAgents",), controlPlaneAgents=NUMBER, workerAgents=NUMBER),
        apiVIPs=[TEXT],
        ingressVIPs=[TEXT],
        sshPublicKey=TEXT,
        holdInstallation=FLAG,
        manifestsConfigMapRefs=[fields(("name",), name=TEXT)],
    ),
    status=fields(
        conditions=CONDITIONS, debugInfo=fields(eventsURL=TEXT, logsURL=TEXT, state=TEXT, stateInfo=TEXT)
    ),
)
INFRA_ENV = fields(
    spec=fields(
        ("pullSecretRef",),
        pullSecretRef=NAMED,
        agentLabels=TEXTS,
        nmStateConfigLabelSelector=SELECTOR,
        sshAuthorizedKey=TEXT,
        osImageVersion=TEXT,
    ),
    status=fields(
        isoDownloadURL=TEXT,
        bootArtifacts=fields(ipxeScript=TEXT, kernel=TEXT, initrd=TEXT, rootfs=TEXT),
        conditions=CONDITIONS,
    ),
)
NETWORK = fields(spec=fields(interfaces=INTERFACES, config=ANY))
AGENT = fields(
    spec=fields(
        ("approved", "role"),
        clusterDeploymentName=fields(name=TEXT, namespace=TEXT),
        approved=FLAG,
        hostname=TEXT,
        role=choice("auto-assign", "master", "arbiter", "worker", "bootstrap"),
        nodeLabels=TEXTS,
        installation_disk_id=TEXT,
    ),
    status=fields(
        conditions=CONDITIONS,
        inventory=fields(hostname=TEXT, interfaces=[fields(name=TEXT, macAddress=TEXT)]),
    ),
)
HINTS = fields(
    deviceName=TEXT,
    hctl=TEXT,
    model=TEXT,
    vendor=TEXT,
    serialNumber=TEXT,
    minSizeGigabytes=NUMBER,
    wwn=TEXT,
    rotational=FLAG,
)
MACHINE = fields(
    spec=fields(
        ("online",),
        online=FLAG,
        bootMACAddress=BOOT_MAC,
        bootMode=choice("UEFI", "UEFISecureBoot", "legacy"),
        automatedCleaningMode=choice("metadata", "disabled"),
        bmc=fields(
            ("address", "credentialsName"),
            address=TEXT,
            credentialsName=TEXT,
            disableCertificateVerification=FLAG,
        ),
        rootDeviceHints=HINTS,
        image=fields(("url",), url=TEXT, format=TEXT),
        customDeploy=fields(("method",), method=TEXT),
    ),
    status=ANY,
)
KINDS = (
    ("hive.openshift.io", "v1", "clusterimagesets", "ClusterImageSet", "Cluster", IMAGE_SET),
    ("hive.openshift.io", "v1", "clusterdeployments", "ClusterDeployment", "Namespaced", DEPLOYMENT),
    (
        "extensions.hive.openshift.io",
        "v1beta1",
        "agentclusterinstalls",
        "AgentClusterInstall",
        "Namespaced",
        INSTALL,
    ),
    ("agent-install.openshift.io", "v1beta1", "infraenvs", "InfraEnv", "Namespaced", INFRA_ENV),
    ("agent-install.openshift.io", "v1beta1", "nmstateconfigs", "NMStateConfig", "Namespaced", NETWORK),
    ("agent-install.openshift.io", "v1beta1", "agents", "Agent", "Namespaced", AGENT),
    ("metal3.io", "v1alpha1", "baremetalhosts", "BareMetalHost", "Namespaced", MACHINE),
)


def crds_load(api: Api) -> None:
    """Once: processes that share a server find what another has made."""
    for group, version, plural, kind, scope, schema in KINDS:
        made = _real(group, plural) or _own(group, version, plural, kind, scope, schema)
        if os.environ.get(REAL) or api.find(f"{CRDS}/{plural}.{group}") is None:
            in_the_end(partial(api.apply, CRDS, made))
    for group, version, plural, *_ in KINDS:
        until(partial(_served, api, f"/apis/{group}/{version}/{plural}"), f"{plural} are served")


def _real(group: str, plural: str) -> Object | None:
    folder = os.environ.get(REAL)
    path = Path(folder) / f"{group}_{plural}.yaml" if folder else None
    return yaml.safe_load(path.read_text()) if path and path.exists() else None


def _own(group: str, version: str, plural: str, kind: str, scope: str, schema: Object) -> Object:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    served: Object = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


def _served(api: Api, path: str) -> bool:
    """A kind that is new answers 429 until its storage is there."""
    try:
        return api.find(path) is not None
    except GpuaasError:
        return False

"""The objects of one cluster at the hub, as Hive, the assisted service and Metal3 read them. Pure.

Sources: the types of hive.openshift.io/v1, extensions.hive.openshift.io/v1beta1 and agent-install.openshift.io/v1beta1
(assisted-service: docs/hive-integration), Metal3's BareMetalHost API, and nmstate's schema for the network of hosts.
"""

from typing import Any

from gpuaas.core.errors import Invalid
from gpuaas.providers.baremetal.models import Host
from gpuaas.providers.baremetal.plan import addon_name
from gpuaas.providers.baremetal.settings import Settings, vips_of
from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.kubeapi.client import Object

POD_NETWORK, HOST_PREFIX, SERVICE_NETWORK = "10.128.0.0/14", 23, "172.30.0.0/16"
INFRA_ENV_LABEL = "infraenvs.agent-install.openshift.io"
BMAC = "bmac.agent-install.openshift.io"
MASTER, WORKER = "master", "worker"


def workers(spec: ClusterSpec) -> int:
    return sum(pool.flavor.count for pool in spec.pools)


def image_set(spec: ClusterSpec, settings: Settings) -> Object:
    return {"spec": {"releaseImage": settings.image(spec.release)}}


def deployment(spec: ClusterSpec, settings: Settings, labels: dict[str, str]) -> Object:
    return {
        "spec": {
            "clusterName": spec.external_name,
            "baseDomain": settings.base_domain,
            "platform": {"agentBareMetal": {"agentSelector": {"matchLabels": labels}}},
            "clusterInstallRef": {
                "group": "extensions.hive.openshift.io",
                "version": "v1beta1",
                "kind": "AgentClusterInstall",
                "name": spec.external_name,
            },
            "pullSecretRef": {"name": settings.pull_secret},
        }
    }


def install(spec: ClusterSpec, settings: Settings) -> Object:
    api, ingress = vips_of(spec)
    body: Object = {
        "clusterDeploymentRef": {"name": spec.external_name},
        "imageSetRef": {"name": spec.external_name},
        "networking": {
            "networkType": "OVNKubernetes",
            "machineNetwork": [{"cidr": one} for one in settings.machine_networks],
            "clusterNetwork": [{"cidr": POD_NETWORK, "hostPrefix": HOST_PREFIX}],
            "serviceNetwork": [SERVICE_NETWORK],
            **({} if api else {"userManagedNetworking": True}),
        },
        "provisionRequirements": {
            "controlPlaneAgents": spec.control_plane.count,
            "workerAgents": workers(spec),
        },
    }
    if api:
        body |= {"apiVIPs": [api], "ingressVIPs": [ingress]}
    if settings.ssh_key:
        body["sshPublicKey"] = settings.ssh_key
    if spec.addons:
        body["manifestsConfigMapRefs"] = [{"name": addon_name(spec, one)} for one in spec.addons]
    return {"spec": body}


def infra_env(settings: Settings, labels: dict[str, str]) -> Object:
    """Machines that boot its image appear as Agents with our labels, and wait until we bind them."""
    body: Object = {
        "pullSecretRef": {"name": settings.pull_secret},
        "agentLabels": labels,
        "nmStateConfigLabelSelector": {"matchLabels": labels},
    }
    if settings.ssh_key:
        body["sshAuthorizedKey"] = settings.ssh_key
    return {"spec": body}


def addon(settings: Settings, name: str) -> Object:
    if name not in settings.addons:
        raise Invalid.field("settings", f"the template has no manifests of {name}")
    return {"data": dict(settings.addons[name])}


def network(host: Host) -> Object:
    """The host's own network configuration; DHCP on its boot port if it has none."""
    return {
        "spec": {
            "interfaces": [{"name": one["name"], "macAddress": one["mac"]} for one in host.interfaces],
            "config": host.network or _dhcp(host),
        }
    }


def _dhcp(host: Host) -> dict[str, Any]:
    boot = next((one["name"] for one in host.interfaces if one["mac"] == host.boot_mac), "eno1")
    return {
        "interfaces": [
            {"name": boot, "type": "ethernet", "state": "up", "ipv4": {"enabled": True, "dhcp": True}}
        ]
    }


def machine(host: Host, *, cluster: str, role: str) -> Object:
    """Disks are cleaned when a host is returned, so they need no cleaning here."""
    return {
        "metadata": {
            "labels": {INFRA_ENV_LABEL: cluster},
            "annotations": {
                "inspect.metal3.io": "disabled",
                f"{BMAC}/hostname": host.name,
                f"{BMAC}/role": role,
            },
        },
        "spec": {
            "online": True,
            "bootMACAddress": host.boot_mac,
            "bootMode": "UEFI",
            "automatedCleaningMode": "disabled",
            "bmc": {
                "address": host.bmc_address,
                "credentialsName": host.bmc_secret,
                "disableCertificateVerification": not host.bmc_verify,
            },
            **({"rootDeviceHints": host.root_device} if host.root_device else {}),
        },
    }


def wiping() -> Object:
    """A merge patch: the host no longer boots from the image, and the metadata of all its disks is erased."""
    return {
        "metadata": {
            "labels": {INFRA_ENV_LABEL: None},
            "annotations": {"baremetalhost.metal3.io/detached": None},
        },
        "spec": {"online": False, "automatedCleaningMode": "metadata", "image": None, "customDeploy": None},
    }


def binding(host: Host, *, namespace: str, cluster: str, role: str, labels: dict[str, str]) -> Object:
    """A merge patch of the Agent of a host that is bound to the cluster."""
    return {
        "spec": {
            "clusterDeploymentName": {"name": cluster, "namespace": namespace},
            "approved": True,
            "hostname": host.name,
            "role": role,
            "nodeLabels": labels,
        }
    }

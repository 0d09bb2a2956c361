"""install-config.yaml and agent-config.yaml of a cluster: what `openshift-install agent create image` takes, without a hub.

Source: OpenShift's documentation "Preparing to install with the Agent-based Installer". The pull secret is never in them.
"""

from collections.abc import Sequence

import yaml

from gpuaas.providers.baremetal import manifests
from gpuaas.providers.baremetal.models import Host
from gpuaas.providers.baremetal.plan import CONTROL
from gpuaas.providers.baremetal.settings import Settings, vips_of
from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.kubeapi.client import Object


def install_config(spec: ClusterSpec, settings: Settings) -> str:
    api, ingress = vips_of(spec)
    document: Object = {
        "apiVersion": "v1",
        "metadata": {"name": spec.external_name},
        "baseDomain": settings.base_domain,
        "controlPlane": {"name": manifests.MASTER, "replicas": spec.control_plane.count},
        "compute": [{"name": manifests.WORKER, "replicas": manifests.workers(spec)}],
        "networking": {
            "networkType": "OVNKubernetes",
            "machineNetwork": [{"cidr": one} for one in settings.machine_networks],
            "clusterNetwork": [{"cidr": manifests.POD_NETWORK, "hostPrefix": manifests.HOST_PREFIX}],
            "serviceNetwork": [manifests.SERVICE_NETWORK],
        },
        "platform": {"baremetal": {"apiVIPs": [api], "ingressVIPs": [ingress]}} if api else {"none": {}},
        "pullSecret": f"<the content of the Secret {settings.pull_secret} in {settings.namespace}>",
    }
    if settings.ssh_key:
        document["sshKey"] = settings.ssh_key
    return _text(document)


def agent_config(spec: ClusterSpec, hosts: Sequence[Host]) -> str:
    """The first host of the control plane leads the installation."""
    control = [host for host in hosts if host.pool == CONTROL]
    document: Object = {
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": spec.external_name},
        "hosts": [_host(host) for host in hosts],
    }
    if control and control[0].addresses:
        document["rendezvousIP"] = str(control[0].addresses[0])
    return _text(document)


def _host(host: Host) -> Object:
    described = manifests.network(host)["spec"]
    found: Object = {
        "hostname": host.name,
        "role": manifests.MASTER if host.pool == CONTROL else manifests.WORKER,
        "interfaces": described["interfaces"],
        "networkConfig": described["config"],
    }
    if host.root_device:
        found["rootDeviceHints"] = host.root_device
    return found


def _text(document: Object) -> str:
    made: str = yaml.safe_dump(document, sort_keys=False)
    return made

"""The kubelet and kube-proxy: who they are to the API server, and how they are called."""

import json
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.files import write_private
from deploy.lab.kubernetes import pki
from deploy.lab.node.network import Network
from deploy.lab.node.programs import Programs
from deploy.lab.node.runtime import SOCKET
from deploy.lab.node.settings import CLUSTER_DOMAIN, DNS_ADDRESS, LABELS, MEMORY_GIB, NAME

API_PORT = 6443
USER = f"/O=system:nodes/CN=system:node:{NAME}"
PROXY = "kube-proxy"
GIB_IN_KIB = 1 << 20


@dataclass(frozen=True)
class Kubelet:
    """keys: the control plane's, whose authority signs for the node too."""

    state_dir: Path
    keys: Path
    network: Network
    programs: Programs

    @property
    def command(self) -> list[str]:
        labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
        return [
            str(self.programs.path("kubelet")),
            f"--config={self.state_dir}/kubelet.json",
            f"--kubeconfig={self.state_dir}/kubelet.kubeconfig",
            f"--hostname-override={NAME}",
            f"--node-ip={self.network.node}",
            f"--node-labels={labels}",
        ]

    @property
    def proxy_command(self) -> list[str]:
        return [str(self.programs.path(PROXY)), f"--config={self.state_dir}/kube-proxy.json"]

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.programs.search_path, "LD_LIBRARY_PATH": self.programs.libraries}

    @property
    def _serving(self) -> str:
        """Its certificate, of a name of its own for each address that the lab may have."""
        return f"node-{self.network.number}"

    def write_files(self) -> None:
        self._certificates()
        server = f"https://{self.network.host}:{API_PORT}"
        for program, who in (("kubelet", "node"), (PROXY, PROXY)):
            text = pki.kubeconfig(self.keys, who, server, server_name="kubernetes")
            write_private(self.state_dir / f"{program}.kubeconfig", text)
        write_private(self.state_dir / "resolv.conf", "")  # names outside of the cluster are nobody's
        write_private(self.state_dir / "kubelet.json", json.dumps(self._config(), indent=1))
        write_private(self.state_dir / "kube-proxy.json", json.dumps(self._proxy_config(), indent=1))

    def _certificates(self) -> None:
        for name, subject in (("node", USER), (PROXY, f"/CN=system:{PROXY}")):
            if not (self.keys / f"{name}.crt").exists():
                pki.client_certificate(self.keys, name, subject)
        if not (self.keys / f"{self._serving}.crt").exists():
            pki.server_certificate(self.keys, self._serving, f"IP:{self.network.node},DNS:{NAME}")

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.network.node,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self.keys}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{self.keys}/{self._serving}.crt",
            "tlsPrivateKeyFile": f"{self.keys}/{self._serving}.key",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "maxOpenFiles": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "maxPods": 100,
            "systemReserved": {"memory": f"{_beyond_kib()}Ki"},
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": f"{self.state_dir}/resolv.conf",
            "volumePluginDir": f"{self.state_dir}/volume-plugins",
            # nobody could pull again what is collected; and how full the disk is, is no affair of the lab
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "nodeStatusUpdateFrequency": "5s",
        }

    def _proxy_config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "bindAddress": self.network.node,
            "hostnameOverride": NAME,
            "clusterCIDR": self.network.pods,
            "clientConnection": {"kubeconfig": f"{self.state_dir}/{PROXY}.kubeconfig"},
            # what it would set otherwise is the whole machine's
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }


def _beyond_kib() -> int:
    """What the machine has and pods are not to have."""
    total = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    return max(0, total - MEMORY_GIB * GIB_IN_KIB)

"""How each program of the control plane is called."""

import dataclasses
import json
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.files import write_private
from deploy.lab.kubernetes import pki
from deploy.lab.kubernetes.programs import Programs
from deploy.lab.kubernetes.settings import HERE, Settings

START_ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
# what a program listens on, counted from the port base
PORTS = {
    "kube-apiserver": 0,
    "etcd": 1,
    "etcd-peer": 2,
    "kube-controller-manager": 3,
    "kube-scheduler": 4,
    "kwok": 5,
}
REAL = "lab.gpuaas.io/kubelet"
RATE = ("--kube-api-qps=200", "--kube-api-burst=400")


def program_name(given: str) -> str:
    """Takes `apiserver` for `kube-apiserver`."""
    for name in (given, f"kube-{given}"):
        if name in START_ORDER:
            return name
    raise LabError(f"no program {given!r}; there are {', '.join(START_ORDER)}")


@dataclasses.dataclass(frozen=True)
class ControlPlane:
    """One lab's command lines: pure functions of its folder, its settings and the programs."""

    state_dir: Path
    settings: Settings
    programs: Programs

    @property
    def pki(self) -> Path:
        return self.state_dir / "pki"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port('kube-apiserver')}"

    def port(self, name: str) -> int:
        return self.settings.port_base + PORTS[name]

    def kubeconfig(self, who: str) -> Path:
        return self.state_dir / f"{who}.kubeconfig"

    def write_files(self) -> None:
        """What the programs read when they start."""
        pki.ensure(self.pki)
        for who in ("admin", "controller-manager", "scheduler", "kwok"):
            write_private(self.kubeconfig(who), pki.kubeconfig(self.pki, who, self.server))
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
        write_private(self.state_dir / "audit-policy.json", json.dumps(policy))
        # the first that fits a pod counts
        logs = (
            _logs("checks", "nvidia-smi.log", {"matchNamespaces": ["gpuaas-checks"]}),
            _logs("every-pod", "container.log"),
        )
        write_private(self.state_dir / "kubelet.json", "\n---\n".join(map(json.dumps, logs)))

    def command(self, name: str) -> list[str]:
        flags = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
            "kwok": self._kwok,
        }[name]()
        return [str(self.programs.path(name)), *flags]

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port(name)}"

    def _gates(self) -> list[str]:
        return [f"--feature-gates={self.settings.feature_gates}"] if self.settings.feature_gates else []

    def _etcd(self) -> list[str]:
        clients, peers = self._url("etcd"), self._url("etcd-peer")
        return [
            "--name=lab",
            f"--data-dir={self.state_dir}/etcd",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=lab={peers}",
            # fast, and safe against killed programs; only a crash of the machine may cost data
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        audit = [
            f"--audit-policy-file={self.state_dir}/audit-policy.json",
            f"--audit-log-path={self.state_dir}/log/audit.log",
        ]
        return [
            f"--etcd-servers={self._url('etcd')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port('kube-apiserver')}",
            # a loopback address is refused as an endpoint of the service `kubernetes`
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={self.pki}/apiserver.crt",
            f"--tls-private-key-file={self.pki}/apiserver.key",
            f"--client-ca-file={self.pki}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.pki}/service-accounts.pub",
            f"--service-account-signing-key-file={self.pki}/service-accounts.key",
            f"--kubelet-client-certificate={self.pki}/apiserver-to-kubelet.crt",
            f"--kubelet-client-key={self.pki}/apiserver-to-kubelet.key",
            f"--kubelet-certificate-authority={self.pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            f"--enable-admission-plugins={self.settings.admission_plugins}",
            *self._gates(),
            *([f"--runtime-config={served}"] if (served := self.settings.runtime_config) else []),
            *(audit if self.settings.audit else []),
        ]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('controller-manager')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port('kube-controller-manager')}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.pki}/service-accounts.key",
            f"--root-ca-file={self.pki}/ca.crt",
            f"--cluster-signing-cert-file={self.pki}/ca.crt",
            f"--cluster-signing-key-file={self.pki}/ca.key",
            *RATE,
            *self._gates(),
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('scheduler')}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port('kube-scheduler')}",
            "--leader-elect=false",
            *RATE,
            *self._gates(),
        ]

    def _kwok(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('kwok')}",
            # a node whose kubelet is real plays for itself (deploy/lab/node)
            f"--manage-nodes-with-label-selector=!{REAL}",
            *(f"--config={path}" for path in sorted((HERE / "stages").glob("*.yaml"))),
            f"--config={self.state_dir}/kubelet.json",
            "--node-ip=127.0.0.1",
            f"--node-port={self.port('kwok')}",
            f"--server-address=127.0.0.1:{self.port('kwok')}",
            "--cidr=10.0.0.1/16",
            f"--tls-cert-file={self.pki}/kubelet.crt",
            f"--tls-private-key-file={self.pki}/kubelet.key",
            "--node-lease-duration-seconds=40",
        ]


def _logs(name: str, file: str, selector: dict[str, list[str]] | None = None) -> dict[str, object]:
    """What the containers of pods that `selector` names have written; without one, of all pods."""
    spec: dict[str, object] = {"logs": [{"logsFile": str(HERE / file)}]}
    if selector:
        spec["selector"] = selector
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": name},
        "spec": spec,
    }

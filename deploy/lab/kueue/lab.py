"""One control plane with Kueue: started, brought back, interrupted on purpose, and stopped."""

import json
from functools import partial
from pathlib import Path

from deploy.lab.base import BaseLab, print_report
from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.controllers import healthy, insist
from deploy.lab.cluster_api.programs import Change, ChangedPrograms, Pins
from deploy.lab.cluster_api.settings import Controller
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, wait_limit, write_private
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kueue.accounts import account, certificates
from deploy.lab.locks import locked
from deploy.lab.ports import free_base
from deploy.lab.processes import Process, ProgramStatus, wait_until

HERE = Path(__file__).parent
DEFAULT_STATE_DIR = CACHE / "gpuaas-kueue-lab"
FIRST_PORT = 28000  # below the ports that the kernel gives to outgoing connections
PORTS = (0, 1)  # counted from the port base: webhooks, health
MODULE = "sigs.k8s.io/kueue"
KUEUE = Controller("kueue", MODULE, f"{MODULE}/cmd/kueue", "config/components", 0)
PINS = Pins(HERE / "build", (KUEUE,))
NAMESPACE = "kueue-system"
# the last two where the API server serves them, as the lab of Trainer does
FRAMEWORKS = (
    *("batch/job", "pod", "deployment", "statefulset"),
    *("jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"),
)


class KueuePrograms(ChangedPrograms):
    """Without certificates of its own Kueue reads those of its metrics at a fixed place."""

    changes = (
        Change(KUEUE.name, "cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', 'os.Getenv("CERTIFICATES")'),
    )


class Lab(BaseLab):
    def __init__(self, *, state_dir: Path | str = DEFAULT_STATE_DIR, report: Report = print_report) -> None:
        super().__init__(state_dir, report)
        self._programs = KueuePrograms(PINS, cache=CACHE / "gpuaas-kueue-bin")
        self.cluster = KubernetesLab(state_dir=self.state_dir / "kubernetes", report=report)
        self._process = Process(self.state_dir, KUEUE.name)

    @property
    def kubeconfig(self) -> Path:
        """The admin's; it is there after `up`."""
        return self.cluster.kubeconfig

    @property
    def controller_kubeconfig(self) -> Path:
        """Kueue's own."""
        return self.state_dir / "kueue.kubeconfig"

    @property
    def kubectl(self) -> Path:
        return self.cluster.kubectl

    def status(self) -> list[ProgramStatus]:
        return [
            ProgramStatus(KUEUE.name, self._process.pid(), self._process.memory_mib()),
            *self.cluster.status(),
        ]

    def build(self) -> None:
        """Only the programs: what takes minutes, once per machine."""
        self._programs.ensure(self._report)
        self.cluster.build()

    def up(self) -> None:
        """Returns when Kueue answers. Starts only what does not run."""
        self.build()
        with self._locked():
            self.cluster.up()
            if not self._process.pid():
                with locked(CACHE / "gpuaas-kueue-lab.ports", limit=5 * wait_limit()):
                    base = free_base(PORTS, given=None, before=self._port_base, first=FIRST_PORT)
                    self._start(base)
            self._report(f"ready: Kueue at {self.cluster.server}")

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` ends it. Its webhooks stay, and refuse what they would judge."""
        if name != KUEUE.name:
            raise LabError(f"no program {name!r}; there is {KUEUE.name}")
        with self._locked():
            self._process.stop(kill=kill)

    def _stop_all(self) -> None:
        self._process.stop()
        self.cluster.down()

    @property
    def _port_base(self) -> int:
        record = self.state_dir / "ports.json"
        return int(json.loads(record.read_text())) if record.exists() else FIRST_PORT

    def _start(self, base: int) -> None:
        client, keys = self.cluster.client(), self.cluster.pki
        write_private(self.state_dir / "ports.json", json.dumps(base))
        certificates(self.cluster, self.state_dir)
        found = json.loads(self._programs.manifests(KUEUE).read_text())
        url = f"https://127.0.0.1:{base}"
        insist(partial(install.webhooks_remove, client, KUEUE.name))
        insist(partial(install.types_install, client, found, url, keys / "ca.crt"))
        write_private(self.controller_kubeconfig, account(self.cluster, KUEUE.name, NAMESPACE))
        write_private(self.state_dir / "config.json", json.dumps(self._configuration(base)))
        environment = {
            "KUBECONFIG": str(self.controller_kubeconfig),
            "CERTIFICATES": str(self.state_dir / "certificates"),
        }
        command = [
            str(self._programs.path(KUEUE)),
            f"--config={self.state_dir}/config.json",
            "--zap-log-level=2",
        ]
        self._process.start(command, environment)
        wait_until(partial(healthy, base + 1), "it is not ready", [self._process])
        insist(partial(install.webhooks_install, client, KUEUE.name, found, url, keys / "ca.crt"))

    def _configuration(self, base: int) -> dict[str, object]:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{base + 1}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": base, "certDir": f"{self.state_dir}/certificates"},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": list(FRAMEWORKS)},
            "featureGates": {"VisibilityOnDemand": False},
        }

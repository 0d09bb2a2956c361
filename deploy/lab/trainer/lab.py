"""One control plane with Kueue, JobSet and Trainer: started, brought back, interrupted on purpose, and stopped."""

import json
from functools import partial
from pathlib import Path

from deploy.lab.base import BaseLab, print_report
from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.controllers import healthy, insist
from deploy.lab.cluster_api.settings import Controller
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, wait_limit, write_private
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kueue import Lab as KueueLab
from deploy.lab.kueue.accounts import account, certificates
from deploy.lab.locks import locked
from deploy.lab.ports import free_base
from deploy.lab.processes import Process, ProgramStatus, wait_until
from deploy.lab.trainer.programs import JOBSET, PINS, TRAINER, TrainerPrograms

DEFAULT_STATE_DIR = CACHE / "gpuaas-trainer-lab"
FIRST_PORT = 28050  # of a hundred, the part that Kueue's lab leaves
PORTS = tuple(port for one in PINS.controllers for port in one.ports[:2])
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
NAMESPACES = {JOBSET: "jobset-system", TRAINER: "kubeflow-system"}


class Lab(BaseLab):
    def __init__(self, *, state_dir: Path | str = DEFAULT_STATE_DIR, report: Report = print_report) -> None:
        super().__init__(state_dir, report)
        self._programs = TrainerPrograms(PINS, cache=CACHE / "gpuaas-trainer-bin")
        self.kueue = KueueLab(state_dir=self.state_dir / "kueue", report=report)
        self._processes = {one: Process(self.state_dir, one.name) for one in PINS.controllers}

    @property
    def cluster(self) -> KubernetesLab:
        return self.kueue.cluster

    @property
    def kubeconfig(self) -> Path:
        """The admin's; it is there after `up`."""
        return self.cluster.kubeconfig

    @property
    def kubectl(self) -> Path:
        return self.cluster.kubectl

    def status(self) -> list[ProgramStatus]:
        own = [
            ProgramStatus(one.name, process.pid(), process.memory_mib())
            for one, process in self._processes.items()
        ]
        return [*own, *self.kueue.status()]

    def build(self) -> None:
        """Only the programs: what takes minutes, once per machine."""
        self._programs.ensure(self._report)
        self.kueue.build()

    def up(self) -> None:
        """Returns when all answer. Starts only what does not run."""
        self.build()
        with self._locked():
            self._types()  # first: a Kueue that finds none looks for them in its own time
            self.kueue.up()
            missing = [one for one, process in self._processes.items() if not process.pid()]
            if missing:
                with locked(CACHE / "gpuaas-trainer-lab.ports", limit=5 * wait_limit()):
                    base = self._base(fresh=len(missing) == len(self._processes))
                    for one in missing:
                        self._start(one, base)
            self._report(f"ready: JobSet and Trainer at {self.cluster.server}")

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` ends it. Its webhooks stay, and refuse what they would judge."""
        found = {one.name: process for one, process in self._processes.items()}
        if name not in found:
            raise LabError(f"no program {name!r}; there are {', '.join(found)}")
        with self._locked():
            found[name].stop(kill=kill)

    def _stop_all(self) -> None:
        for process in self._processes.values():
            process.stop()
        self.kueue.down()

    def _base(self, *, fresh: bool) -> int:
        record = self.state_dir / "ports.json"
        before = int(json.loads(record.read_text())) if record.exists() else FIRST_PORT
        base = free_base(PORTS, given=None, before=before, first=FIRST_PORT) if fresh else before
        write_private(record, json.dumps(base))
        return base

    def _types(self) -> None:
        self.cluster.up()
        client, authority = self.cluster.client(), self.cluster.pki / "ca.crt"
        for one in PINS.controllers:
            found = json.loads(self._programs.manifests(one).read_text())
            insist(partial(install.types_install, client, found, "", authority))

    def _start(self, one: Controller, base: int) -> None:
        client, authority = self.cluster.client(), self.cluster.pki / "ca.crt"
        found = json.loads(self._programs.manifests(one).read_text())
        port, health = (base + number for number in one.ports[:2])
        url = f"https://127.0.0.1:{port}"
        insist(partial(install.webhooks_remove, client, one.name))
        kubeconfig = self.state_dir / f"{one.name}.kubeconfig"
        write_private(kubeconfig, account(self.cluster, one.name, NAMESPACES[one]))
        folder = certificates(self.cluster, self.state_dir)
        environment = {"KUBECONFIG": str(kubeconfig), "CERTIFICATES": str(folder)}
        self._processes[one].start(
            [str(self._programs.path(one)), *self._words(one, port, health)], environment
        )
        wait_until(partial(healthy, health), "it is not ready", [self._processes[one]])
        insist(partial(install.webhooks_install, client, one.name, found, url, authority))
        for runtime in found.get("runtimes", []):
            insist(partial(client.apply, RUNTIMES, runtime))

    def _words(self, one: Controller, port: int, health: int) -> list[str]:
        if one == TRAINER:
            return [f"--webhook-server-port={port}", f"--health-probe-bind-address=127.0.0.1:{health}"]
        settings = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": f"{self.state_dir}/certificates"},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        write_private(self.state_dir / "jobset.json", json.dumps(settings))
        return [f"--config={self.state_dir}/jobset.json"]

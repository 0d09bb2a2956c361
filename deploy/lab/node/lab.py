"""One lab: a control plane, and the node beside it; started, brought back, interrupted on purpose, and stopped."""

import hashlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from deploy.lab.base import BaseLab, print_report
from deploy.lab.errors import LabError
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kubernetes.client import Client
from deploy.lab.node import cluster, images
from deploy.lab.node.cgroups import trees
from deploy.lab.node.kubelet import API_PORT, PROXY, Kubelet
from deploy.lab.node.machine import Inside, Machine
from deploy.lab.node.network import Network, network_of, network_release, network_take
from deploy.lab.node.programs import Programs
from deploy.lab.node.runtime import Runtime
from deploy.lab.node.settings import DEFAULT_STATE_DIR, GPUS, HERE, NAME
from deploy.lab.node.systems import SYSTEMS
from deploy.lab.processes import Process, ProgramStatus, wait_until


def cannot_run() -> str:
    """Why no node can stand on this machine; "" where it can."""
    if os.geteuid():
        return "the node needs root: namespaces, mounts and control groups of its own"
    return "" if trees() else "the node needs control groups of version 1, each mounted below /sys/fs/cgroup"


class Lab(BaseLab):
    def __init__(self, *, state_dir: Path | str = DEFAULT_STATE_DIR, report: Report = print_report) -> None:
        super().__init__(state_dir, report)
        self._programs = Programs()
        self.control = KubernetesLab(state_dir=self.state_dir / "kubernetes", report=report)
        tag = hashlib.sha256(str(self.state_dir).encode()).hexdigest()[:8]
        self.machine = Machine(self.state_dir, tag, hold=self._programs.path("hold"))
        self._runtime = Runtime(self.state_dir, self._programs, self.machine)
        self._relay = Process(self.state_dir, "relay")
        # in the order in which they start
        self._programs_inside: dict[str, Inside] = {
            "containerd": self._runtime.process,
            "kubelet": Inside(self.state_dir, "kubelet"),
            PROXY: Inside(self.state_dir, PROXY),
        }

    @property
    def kubeconfig(self) -> Path:
        """The admin's; it is there after `up`."""
        return self.control.kubeconfig

    @property
    def kubectl(self) -> Path:
        return self.control.kubectl

    @property
    def network(self) -> Network:
        network = network_of(self.state_dir)
        if network is None:
            raise LabError(f"there is no node in {self.state_dir}; `up` makes one")
        return network

    def status(self) -> list[ProgramStatus]:
        """Without the pods, which are the node's own."""
        ours = [self.machine.process, self._relay, *self._programs_inside.values()]
        found = [ProgramStatus(one.name, one.pid(), one.memory_mib()) for one in ours]
        return [*found, *self.control.status()]

    def build(self) -> None:
        """Only the programs and images: what takes minutes, once per machine."""
        self._build_programs()
        for name in SYSTEMS:
            self._programs.ensure_system(name, self._report)

    def _build_programs(self) -> None:
        self.control.build()
        self._programs.ensure(self._report)

    def up(self) -> None:
        """Returns when a pod with a GPU would run. Starts only what does not run."""
        if reason := cannot_run():
            raise LabError(reason)
        self._build_programs()
        with self._locked():
            self.control.up(topology=HERE / "topology.json")
            begun = _now()
            network = network_take(self.state_dir)
            started = self._start(network)
            client = self.control.client()
            cluster.install(client, network)
            self._wait_ready(client, since=begun if started else "")
            self._report(f"ready: {NAME} with {GPUS} nvidia.com/gpu at {self.control.server}")

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` or `start_program` ends it. `node` takes all that runs in it along."""
        if name == "node":
            with self._locked():
                self._stop_node()
        elif name in self._programs_inside:
            with self._locked():
                self._programs_inside[name].stop(kill=kill)
        else:
            self.control.stop_program(name, kill=kill)

    def start_program(self, name: str) -> None:
        if name != "node" and name not in self._programs_inside:
            self.control.start_program(name)
            return
        with self._locked():
            self._start(self.network)

    def pause_program(self, name: str) -> None:
        """It hangs: connections stay, nothing answers."""
        found = self._programs_inside.get(name)
        found.pause() if found else self.control.pause_program(name)

    def resume_program(self, name: str) -> None:
        found = self._programs_inside.get(name)
        found.resume() if found else self.control.resume_program(name)

    def load_image(self, archive: Path) -> None:
        """An archive as `images.pack` writes it; pods name it by its reference."""
        self._runtime.load([archive])

    def load_system(self, name: str) -> str:
        """Likewise one of `systems.py`, which is made where it is not there yet: its reference."""
        self.load_image(self._programs.ensure_system(name, self._report))
        return images.reference(name)

    def _start(self, network: Network) -> bool:
        """False where all of it runs already."""
        kubelet = Kubelet(self.state_dir, self.control.pki, network, self._programs)
        kubelet.write_files()
        self._runtime.write_files(network)
        first = self.machine.first()
        if first is None or not network.is_plugged:
            self._stop_node()
            self.machine.start()
            first = self.machine.first()
            assert first is not None
            network.plug(first)
        self._start_relay(network)
        started = self._start_inside("containerd", self._runtime.command, kubelet.environment)
        self._runtime.wait()
        self._runtime.load(self._programs.archives())
        started |= self._start_inside("kubelet", kubelet.command, kubelet.environment)
        return self._start_inside(PROXY, kubelet.proxy_command, kubelet.environment) or started

    def _start_relay(self, network: Network) -> None:
        server = self.control.server.rpartition(":")[2]
        command = [sys.executable, str(HERE / "relay.py"), network.host, str(API_PORT), server]
        if not self._relay.runs(command):
            self._relay.stop()
            self._relay.start(command)

    def _start_inside(self, name: str, program: list[str], environment: dict[str, str]) -> bool:
        process, command = self._programs_inside[name], self.machine.command(program)
        if process.runs(command):
            process.resume()
            return False
        process.stop()
        process.start(command, environment)
        return True

    def _stop_node(self) -> None:
        self.machine.stop()
        for process in (*self._programs_inside.values(), self._relay):
            process.stop(kill=True)
        network = network_of(self.state_dir)
        if network is not None:
            network.unplug()

    def _stop_all(self) -> None:
        """Pods are not drained."""
        self._stop_node()
        self.control.down()
        network_release(self.state_dir)

    def _wait_ready(self, client: Client, *, since: str) -> None:
        inside = self._programs_inside
        programs = [self.machine.process, self._relay, inside["containerd"], inside[PROXY], inside["kubelet"]]
        wait_until(
            lambda: cluster.is_ready(client, since=since),
            f"{NAME}, its GPUs or its names are missing",
            programs,
        )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

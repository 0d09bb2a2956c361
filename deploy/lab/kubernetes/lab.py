"""One control plane: started, brought back, interrupted on purpose, and stopped."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy.lab.base import BaseLab, print_report
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, wait_limit
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes.client import Client
from deploy.lab.kubernetes.controlplane import PORTS, START_ORDER, ControlPlane, program_name
from deploy.lab.kubernetes.nodes import Topology
from deploy.lab.kubernetes.programs import Programs
from deploy.lab.kubernetes.settings import DEFAULT_PORT_BASE, DEFAULT_STATE_DIR, Settings
from deploy.lab.locks import locked
from deploy.lab.ports import free_base
from deploy.lab.processes import Process, ProgramStatus, wait_until

SERVERS, FOLLOWERS = START_ORDER[:2], START_ORDER[2:]
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Lab(BaseLab):
    lock_waits = 5

    def __init__(
        self,
        *,
        state_dir: Path | str = DEFAULT_STATE_DIR,
        report: Report = print_report,
        programs: Programs | None = None,
    ) -> None:
        super().__init__(state_dir, report)
        self._programs = programs or Programs()
        self._processes = {name: Process(self.state_dir, name) for name in START_ORDER}

    @property
    def kubeconfig(self) -> Path:
        """The admin's; it is there after `up`."""
        return self._plane().kubeconfig("admin")

    @property
    def kubectl(self) -> Path:
        return self._programs.path("kubectl")

    @property
    def server(self) -> str:
        return self._plane().server

    @property
    def pki(self) -> Path:
        """Its keys: `ca.crt` signs for everything of the lab, `apiserver.*` for whatever listens on loopback."""
        return self._plane().pki

    def client(self) -> Client:
        plane = self._plane()
        return Client(plane.port("kube-apiserver"), plane.pki)

    def status(self) -> list[ProgramStatus]:
        return [ProgramStatus(p.name, p.pid(), p.memory_mib()) for p in self._processes.values()]

    def build(self) -> None:
        """Only the programs: what takes minutes, once per machine."""
        self._programs.ensure(self._report)

    def up(
        self,
        *,
        fresh: bool = False,
        port_base: int | None = None,
        topology: Path | str | None = None,
        admission_plugins: str | None = None,
        feature_gates: str | None = None,
        runtime_config: str | None = None,
        audit: bool | None = None,
    ) -> None:
        """Returns when all of it is ready. Starts only what does not run as wanted; None means: as before."""
        self.build()
        with self._locked():
            wanted = self._settings().changed(
                topology=str(Path(topology).absolute()) if topology else None,
                admission_plugins=admission_plugins,
                feature_gates=feature_gates,
                runtime_config=runtime_config,
                audit=audit,
            )
            nodes = Topology(wanted.topology_path)
            if fresh:
                self._stop_all()
                shutil.rmtree(self.state_dir / "etcd", ignore_errors=True)
            with self._ports(wanted, port_base) as settings:
                plane = ControlPlane(self.state_dir, settings, self._programs)
                plane.write_files()
                settings.save(self._settings_path)
                self._start_all(plane, nodes)
            self._report(f"ready: {len(nodes.node_names())} nodes at {plane.server}")

    def start_program(self, name: str) -> None:
        """Undoes `stop_program`, and returns when the API server answers, where that was it."""
        name = self._program(name)
        self.build()
        with self._locked():
            plane = self._plane()
            started = self._start(plane, name)
            if name in SERVERS and self._processes["kube-apiserver"].pid():
                self._wait_api(plane)
                self._start_followers(
                    plane, again=started, names=[n for n in FOLLOWERS if self._processes[n].pid()]
                )

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` or `start_program` ends it."""
        process = self._processes[self._program(name)]
        with self._locked():
            process.stop(kill=kill)

    def pause_program(self, name: str) -> None:
        """Connections stay open and nothing answers; for tests of timeouts."""
        self._processes[self._program(name)].pause()

    def resume_program(self, name: str) -> None:
        self._processes[self._program(name)].resume()

    def _program(self, given: str) -> str:
        if not self._settings_path.exists():
            raise LabError(f"there is no lab in {self.state_dir}; `up` makes one")
        return program_name(given)

    @property
    def _settings_path(self) -> Path:
        return self.state_dir / "settings.json"

    def _settings(self) -> Settings:
        return Settings.load(self._settings_path)

    def _plane(self) -> ControlPlane:
        return ControlPlane(self.state_dir, self._settings(), self._programs)

    @contextlib.contextmanager
    def _ports(self, wanted: Settings, given: int | None) -> Iterator[Settings]:
        """Ports stay as they are while anything uses them; else they are free, and kept from labs that
        start at the same time until all programs listen."""
        running = [process for process in self._processes.values() if process.pid()]
        if running and given in (None, wanted.port_base):
            yield wanted
            return
        with locked(CACHE / "gpuaas-kubernetes-lab.ports", limit=5 * wait_limit()):
            base = free_base(PORTS.values(), given=given, before=wanted.port_base, first=DEFAULT_PORT_BASE)
            settings = wanted.changed(port_base=base)
            self._stop_all()  # only now, so that a base that is taken does no harm
            yield settings

    def _start_all(self, plane: ControlPlane, nodes: Topology) -> None:
        started = [self._start(plane, name) for name in SERVERS]
        client = self._wait_api(plane)
        self._start_followers(plane, again=any(started), names=FOLLOWERS)
        nodes.apply(client, kubelet_port=plane.port("kwok"))
        self._wait("kwok", lambda: nodes.ready(client), "the nodes are not ready")
        self._wait_for(client, "kube-controller-manager", DEFAULT_ACCOUNT, "it makes no service accounts")
        for name in START_ORDER:
            if not self._processes[name].pid():
                raise LabError(f"{name} ended:\n{self._processes[name].log_end()}")

    def _start_followers(self, plane: ControlPlane, *, again: bool, names: Sequence[str]) -> None:
        """`again` after an outage: by themselves they try again only after up to a minute."""
        for name in names:
            if again:
                self._processes[name].stop()
            self._start(plane, name)

    def _start(self, plane: ControlPlane, name: str) -> bool:
        """False where it runs already."""
        process, command = self._processes[name], plane.command(name)
        if process.runs(command):
            process.resume()
            return False
        process.stop()
        if name == "kwok":
            # it would wait until the leases that its predecessor held run out
            self._wait_api(plane).call("DELETE", NODE_LEASES)
        process.start(command)
        return True

    def _stop_all(self) -> None:
        for name in reversed(START_ORDER):
            self._processes[name].stop()

    def _wait_api(self, plane: ControlPlane) -> Client:
        client = Client(plane.port("kube-apiserver"), plane.pki)
        self._wait_for(client, "kube-apiserver", "/readyz", "it is not ready")
        return client

    def _wait_for(self, client: Client, name: str, path: str, problem: str) -> None:
        self._wait(name, lambda: bool(client.call("GET", path)), problem)

    def _wait(self, name: str, probe: Callable[[], bool], problem: str) -> None:
        names = ("etcd", "kube-apiserver", name)
        wait_until(probe, problem, [self._processes[each] for each in names])

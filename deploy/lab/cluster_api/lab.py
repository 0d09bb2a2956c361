"""The controllers of one lab and the management cluster below them: started, brought back, killed on purpose, stopped."""

import contextlib
import dataclasses
import http.client
import json
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import yaml

from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.programs import Programs
from deploy.lab.cluster_api.settings import (
    CONTROLLERS,
    DEFAULT_PORT_BASE,
    DEFAULT_STATE_DIR,
    FIXED_PORTS,
    HERE,
    PORTS,
    Controller,
)
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE, wait_limit, write_private
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kubernetes.client import Client
from deploy.lab.kubernetes.errors import ApiError
from deploy.lab.locks import locked
from deploy.lab.ports import free_base
from deploy.lab.processes import Process

# reconciled as often as there is something to do, not once a second
GATES = "ClusterTopology=true,ReconcilerRateLimiting=false"
ONLY_ONE = CACHE / "gpuaas-cluster-api-lab.ports"


def print_report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class ProgramStatus:
    name: str
    pid: int | None
    memory_mib: int


class Lab:
    """Everything of one lab is in its state folder, so that any process can take it over from any other."""

    def __init__(self, *, state_dir: Path | str = DEFAULT_STATE_DIR, report: Report = print_report) -> None:
        self.state_dir = Path(state_dir).absolute()
        self._report = report
        self._programs = Programs()
        self.management = KubernetesLab(state_dir=self.state_dir / "kubernetes", report=report)
        self._processes = {one.name: Process(self.state_dir, one.name) for one in CONTROLLERS}

    @property
    def kubeconfig(self) -> Path:
        """The management cluster's, of its admin; it is there after `up`."""
        return self.management.kubeconfig

    def status(self) -> list[ProgramStatus]:
        found = [ProgramStatus(p.name, p.pid(), p.memory_mib()) for p in self._processes.values()]
        below = [ProgramStatus(p.name, p.pid, p.memory_mib) for p in self.management.status()]
        return [*found, *below]

    def build(self) -> None:
        """Only the programs: what takes minutes, once per machine."""
        self._programs.ensure(self._report)
        self.management.build()

    def up(self) -> None:
        """Returns when an order would be taken. Starts only what does not run."""
        self.build()
        with self._locked():
            self.management.up()
            client = self.management.client()
            missing = [one for one in CONTROLLERS if not self._processes[one.name].pid()]
            if missing:
                with self._ports(missing) as base:
                    self._start(client, missing, base)
            manifests = list(yaml.safe_load_all((HERE / "class.yaml").read_text()))
            self._wait("core", partial(install.classes_install, client, manifests), "no ClusterClass")
            releases = manifests[-1]["spec"]["kubernetesVersions"]
            self._wait("core", lambda: install.order_passes(client, releases[0]), "orders are not taken")
            self._report(f"ready: clusters can be ordered at {self.management.server}")

    def down(self, *, purge: bool = False) -> None:
        """Stops what this lab started and nothing else; what was ordered stays unless it is purged."""
        if not self.state_dir.exists():
            return
        with self._locked():
            for process in reversed(self._processes.values()):
                process.stop()
            self.management.down(purge=purge)
            if purge:
                shutil.rmtree(self.state_dir, ignore_errors=True)

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` ends it."""
        if name not in self._processes:
            raise LabError(f"no controller {name!r}; there are {', '.join(self._processes)}")
        with self._locked():
            self._processes[name].stop(kill=kill)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return locked(self.state_dir / ".lock", limit=10 * wait_limit())

    @contextlib.contextmanager
    def _ports(self, missing: list[Controller]) -> Iterator[int]:
        """Those of before while anything uses them; else free ones, kept from labs that start at the same time."""
        record = self.state_dir / "ports.json"
        before = json.loads(record.read_text()) if record.exists() else DEFAULT_PORT_BASE
        with locked(ONLY_ONE, limit=5 * wait_limit()):
            base: int = before
            if len(missing) == len(CONTROLLERS):
                base = free_base(PORTS, given=None, before=before, first=DEFAULT_PORT_BASE)
            if any(one.name == "development" for one in missing):
                _fixed_ports_check()
            write_private(record, json.dumps(base))
            yield base

    def _start(self, client: Client, missing: list[Controller], base: int) -> None:
        authority = self.management.pki / "ca.crt"
        for file, source in (("tls.crt", "apiserver.crt"), ("tls.key", "apiserver.key")):
            write_private(self.state_dir / "webhooks" / file, (self.management.pki / source).read_text())
        for one in missing:
            _insist(partial(install.webhooks_remove, client, one.name))
        for one in missing:
            found = json.loads(self._programs.manifests(one).read_text())
            url = f"https://127.0.0.1:{base + one.ports[0]}"
            _insist(partial(install.types_install, client, found, url, authority))
            _insist(partial(install.webhooks_install, client, one.name, found, url, authority))
        environment = {"KUBECONFIG": str(self.kubeconfig), "POD_IP": "127.0.0.1"}
        for one in missing:
            self._processes[one.name].start(self._command(one, base), environment)
        for one in missing:
            self._wait(one.name, partial(_healthy, base + one.ports[1]), "it is not ready")

    def _command(self, one: Controller, base: int) -> list[str]:
        webhooks, health, diagnostics = (base + port for port in one.ports)
        return [
            str(self._programs.path(one)),
            f"--webhook-port={webhooks}",
            f"--webhook-cert-dir={self.state_dir}/webhooks",
            f"--health-addr=127.0.0.1:{health}",
            f"--diagnostics-address=127.0.0.1:{diagnostics}",
            "--insecure-diagnostics",
            f"--feature-gates={GATES}",
            "--v=2",
        ]

    def _wait(self, name: str, probe: Callable[[], bool], problem: str) -> None:
        limit, answer = wait_limit(), "no answer yet"
        end = time.monotonic() + limit
        process = self._processes[name]
        while time.monotonic() < end:
            if not process.pid():
                raise LabError(f"{name} ended:\n{process.log_end()}")
            try:
                if probe():
                    return
            except (OSError, http.client.HTTPException, ApiError) as error:
                answer = str(error)
                if isinstance(error, ApiError) and error.status == install.INVALID:
                    raise
            time.sleep(0.1)
        raise LabError(
            f"{name}: {problem} after {limit:.0f} s ({answer}); the end of its log:\n{process.log_end()}"
        )


def _insist(action: Callable[[], None]) -> None:
    """Again while the API server does not answer in time: it has much to do while types come in."""
    end = time.monotonic() + wait_limit()
    while True:
        try:
            action()
        except (OSError, http.client.HTTPException, ApiError) as error:
            refused = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            if refused or time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _fixed_ports_check() -> None:
    for port in FIXED_PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise LabError(
                    f"port {port} is taken, and the development provider takes no other: "
                    "another lab of this kind runs on this machine; stop it first"
                ) from error

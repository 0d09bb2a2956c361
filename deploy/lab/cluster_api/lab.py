"""The controllers of one lab and the management cluster below them: started, brought back, killed on purpose, stopped."""

import contextlib
import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import yaml

from deploy.lab.base import BaseLab, print_report
from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.controllers import Controllers
from deploy.lab.cluster_api.openstack import OpenStackProvider
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
from deploy.lab.locks import locked
from deploy.lab.ports import free_base
from deploy.lab.processes import ProgramStatus

# reconciled as often as there is something to do, not once a second
GATES = "ClusterTopology=true,ReconcilerRateLimiting=false"
ONLY_ONE = CACHE / "gpuaas-cluster-api-lab.ports"


class Lab(BaseLab):
    def __init__(self, *, state_dir: Path | str = DEFAULT_STATE_DIR, report: Report = print_report) -> None:
        super().__init__(state_dir, report)
        self._programs = Programs()
        self.management = KubernetesLab(state_dir=self.state_dir / "kubernetes", report=report)
        words = (f"--feature-gates={GATES}",)
        self._controllers = Controllers(self._programs, self.state_dir, self.management, words)
        self._openstack = OpenStackProvider(self.state_dir / "openstack", self.management, report)

    @property
    def kubeconfig(self) -> Path:
        """The management cluster's, of its admin; it is there after `up`."""
        return self.management.kubeconfig

    def status(self) -> list[ProgramStatus]:
        ours = [*self._controllers.processes.values(), *self._openstack.asked_for()]
        found = [ProgramStatus(p.name, p.pid(), p.memory_mib()) for p in ours]
        below = [ProgramStatus(p.name, p.pid, p.memory_mib) for p in self.management.status()]
        return [*found, *below]

    def build(self, *, openstack: bool = False) -> None:
        """Only the programs: what takes minutes, once per machine."""
        self._programs.ensure(self._report)
        self.management.build()
        if openstack:
            self._openstack.build()

    def up(self, *, openstack: bool = False) -> None:
        """Returns when an order would be taken. Starts only what does not run; `openstack` brings that provider and its class too."""
        self.build(openstack=openstack)
        with self._locked():
            self.management.up()
            client = self.management.client()
            missing = self._controllers.missing()
            if missing:
                with self._ports(missing) as base:
                    self._controllers.start(missing, base)
            manifests = list(yaml.safe_load_all((HERE / "class.yaml").read_text()))
            self._controllers.wait(
                "core", partial(install.classes_install, client, manifests), "no ClusterClass"
            )
            releases = manifests[-1]["spec"]["kubernetesVersions"]
            self._controllers.wait(
                "core", lambda: install.order_passes(client, releases[0]), "orders are not taken"
            )
            if openstack:
                with locked(ONLY_ONE, limit=5 * wait_limit()):
                    self._openstack.up()
            self._report(f"ready: clusters can be ordered at {self.management.server}")

    def _stop_all(self) -> None:
        self._openstack.down()
        self._controllers.stop()
        self.management.down()

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        """For tests of an outage; `up` ends it."""
        processes = self._controllers.processes | {one.name: one for one in self._openstack.asked_for()}
        if name not in processes:
            raise LabError(f"no controller {name!r}; there are {', '.join(processes)}")
        with self._locked():
            processes[name].stop(kill=kill)

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

"""Cluster API Provider OpenStack beside the others, where it is asked for: with the class that the portal ships, and with guests."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import yaml

from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.controllers import Controllers
from deploy.lab.cluster_api.programs import Pins, Programs
from deploy.lab.cluster_api.settings import DEFAULT_PORT_BASE, HERE, Controller
from deploy.lab.files import write_private
from deploy.lab.gobuild import Report
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.ports import free_base
from deploy.lab.processes import Process

ROOT = HERE.parents[2]
SHIPPED = ROOT / "deploy" / "cluster-classes" / "openstack.yaml"
MODULE = "sigs.k8s.io/cluster-api-provider-openstack"
PROVIDER = Controller("provider-openstack", MODULE, MODULE, "config", 0)
# the provider watches images of the resource controller for OpenStack
IMAGES = (
    "github.com/k-orc/openstack-resource-controller/v2",
    "config/crd/bases/openstack.k-orc.cloud_images.yaml",
)
PINS = Pins(HERE / "openstack_build", (PROVIDER,), (IMAGES,))
FIRST_PORT = DEFAULT_PORT_BASE + 50


class OpenStackProvider:
    """Which cloud it speaks to is said by each cluster: identities are made by whoever orders."""

    def __init__(self, state_dir: Path, management: KubernetesLab, report: Report) -> None:
        self._state_dir = state_dir
        self._management = management
        self._report = report
        self._programs = Programs(PINS)
        self._controllers = Controllers(self._programs, state_dir, management)
        self._guests = Process(state_dir, "guests")

    def asked_for(self) -> list[Process]:
        """Its programs; none where it was never brought up."""
        known = (self._state_dir / "ports.json").exists()
        return [*self._controllers.processes.values(), self._guests] if known else []

    def build(self) -> None:
        self._programs.ensure(self._report)

    def up(self) -> None:
        client = self._management.client()
        if missing := self._controllers.missing():
            record = self._state_dir / "ports.json"
            before = json.loads(record.read_text()) if record.exists() else FIRST_PORT
            base = free_base(PROVIDER.ports, given=None, before=before, first=FIRST_PORT)
            write_private(record, json.dumps(base))
            self._controllers.start(missing, base)
        manifests = list(yaml.safe_load_all(SHIPPED.read_text()))
        installed = partial(install.classes_install, client, manifests)
        self._controllers.wait(PROVIDER.name, installed, "its ClusterClass is refused")
        if not self._guests.pid():
            words = [sys.executable, "-m", "deploy.lab.cluster_api.guests", str(self._management.state_dir)]
            home = str(self._state_dir / "guests")
            self._guests.start([*words, home], {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]})

    def down(self) -> None:
        if self._state_dir.exists():
            self._guests.stop()
            self._controllers.stop()

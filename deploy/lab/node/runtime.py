"""containerd: its configuration, the network of pods, and the images that it is given."""

import json
import string
from pathlib import Path

from deploy.lab.files import write_private
from deploy.lab.node import images
from deploy.lab.node.machine import Inside, Machine
from deploy.lab.node.network import Network
from deploy.lab.node.programs import Programs
from deploy.lab.node.settings import HERE
from deploy.lab.processes import wait_until

SOCKET = "/run/containerd/containerd.sock"


class Runtime:
    def __init__(self, state_dir: Path, programs: Programs, machine: Machine) -> None:
        self.process = Inside(state_dir, "containerd")
        self._state_dir, self._programs, self._machine = state_dir, programs, machine

    @property
    def command(self) -> list[str]:
        return [str(self._programs.debian / "usr/bin/containerd"), "--config", str(self._config)]

    @property
    def _config(self) -> Path:
        return self._state_dir / "containerd.toml"

    @property
    def _ctr(self) -> tuple[str, ...]:
        return (str(self._programs.debian / "usr/bin/ctr"), "--address", SOCKET, "--namespace", "k8s.io")

    def write_files(self, network: Network) -> None:
        words = string.Template((HERE / "containerd.toml").read_text())
        text = words.substitute(
            hold=images.reference("hold"), debian=self._programs.debian, state=self._state_dir
        )
        write_private(self._config, text)
        addresses = {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": network.pods}]]}
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isDefaultGateway": True,
            "hairpinMode": True,  # a pod reaches itself through its service
            "ipam": addresses,
        }
        pods = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
        write_private(self._state_dir / "cni" / "pods.conflist", json.dumps(pods))

    def wait(self) -> None:
        wait_until(
            lambda: bool(self._machine.run(*self._ctr, "version")), "it does not answer", [self.process]
        )

    def load(self, archives: list[Path]) -> None:
        """The images that are not there yet, or as others."""
        rows = self._machine.run(*self._ctr, "images", "list").splitlines()[1:]
        there = {(row.split()[0], row.split()[2]) for row in rows}
        for archive in archives:
            if images.identity(archive) not in there:
                self._machine.run(*self._ctr, "images", "import", str(archive))

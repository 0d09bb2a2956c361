"""Controllers of one set of pins at a management cluster: brought in with their types and webhooks, started, waited for, stopped."""

import http.client
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from deploy.lab.cluster_api import install
from deploy.lab.cluster_api.programs import Programs
from deploy.lab.cluster_api.settings import Controller
from deploy.lab.files import wait_limit, write_private
from deploy.lab.kubernetes import Lab as KubernetesLab
from deploy.lab.kubernetes.errors import ApiError
from deploy.lab.processes import Process, wait_until


class Controllers:
    """`words` are arguments that all of them take beside their ports."""

    def __init__(
        self, programs: Programs, state_dir: Path, management: KubernetesLab, words: Sequence[str] = ()
    ) -> None:
        self._programs = programs
        self._state_dir = state_dir
        self._management = management
        self._words = words
        self.processes = {one.name: Process(state_dir, one.name) for one in programs.pins.controllers}

    def missing(self) -> list[Controller]:
        return [one for one in self._programs.pins.controllers if not self.processes[one.name].pid()]

    def start(self, missing: Sequence[Controller], base: int) -> None:
        """Ports are counted from the base."""
        client = self._management.client()
        authority = self._management.pki / "ca.crt"
        for file, source in (("tls.crt", "apiserver.crt"), ("tls.key", "apiserver.key")):
            text = (self._management.pki / source).read_text()
            write_private(self._state_dir / "webhooks" / file, text)
        for one in missing:
            insist(partial(install.webhooks_remove, client, one.name))
        for one in missing:
            found = json.loads(self._programs.manifests(one).read_text())
            url = f"https://127.0.0.1:{base + one.ports[0]}"
            insist(partial(install.types_install, client, found, url, authority))
            insist(partial(install.webhooks_install, client, one.name, found, url, authority))
        environment = {"KUBECONFIG": str(self._management.kubeconfig), "POD_IP": "127.0.0.1"}
        for one in missing:
            self.processes[one.name].start(self._command(one, base), environment)
        for one in missing:
            self.wait(one.name, partial(healthy, base + one.ports[1]), "it is not ready")

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.stop()

    def wait(self, name: str, probe: Callable[[], bool], problem: str) -> None:
        wait_until(
            probe,
            problem,
            [self.processes[name]],
            fatal=lambda error: isinstance(error, ApiError) and error.status == install.INVALID,
        )

    def _command(self, one: Controller, base: int) -> list[str]:
        webhooks, health, diagnostics = (base + port for port in one.ports)
        return [
            str(self._programs.path(one)),
            f"--webhook-port={webhooks}",
            f"--webhook-cert-dir={self._state_dir}/webhooks",
            f"--health-addr=127.0.0.1:{health}",
            f"--diagnostics-address=127.0.0.1:{diagnostics}",
            "--insecure-diagnostics",
            "--v=2",
            *self._words,
        ]


def insist(action: Callable[[], None]) -> None:
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


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()

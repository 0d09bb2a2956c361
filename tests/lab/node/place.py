"""A namespace on the node, and pods in it that do something."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from deploy.lab.node import images
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl

LASTS = "trap exit TERM; sleep 3600 & wait"  # until it is told to end; process 1 of a pod ignores what it has no word for
TOOLS = images.reference("busybox")
FORWARDED = re.compile(r"127\.0\.0\.1:(\d+)")
Object = dict[str, Any]


def pod(name: str, script: str, *, limits: dict[str, str] | None = None, **spec: Any) -> Object:
    """Of one container that runs the script in a shell, once."""
    container = {
        "name": "main",
        "image": TOOLS,
        "command": ["sh", "-c", script],
        "resources": {"limits": limits or {}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            **spec,
        },
    }


@dataclass(frozen=True)
class Place:
    kubectl: Kubectl
    namespace: str

    def create(self, *objects: Object) -> None:
        for one in objects:
            self.run("create", "-f", "-", text=json.dumps(one))

    def run(self, *words: str, text: str | None = None) -> str:
        return self.kubectl.run("--namespace", self.namespace, *words, text=text)

    def pod(self, name: str) -> Any:
        return self.kubectl.get("pod", name, "--namespace", self.namespace)

    def phase(self, name: str, wanted: str) -> Any:
        """The pod, as soon as it is that far."""

        def look() -> Any:
            found = self.pod(name)
            return found if found["status"]["phase"] == wanted else None

        return until(look, f"{name} is {wanted}")

    def logs(self, name: str) -> str:
        return self.run("logs", name)

    def execute(self, name: str, script: str) -> str:
        return self.run("exec", name, "--", "sh", "-c", script)

    def empty(self) -> None:
        def none_left() -> bool:
            return not self.kubectl.get("pods", "--namespace", self.namespace)["items"]

        self.run("delete", "pods", "--all", "--wait=false")
        until(none_left, f"the pods of {self.namespace} are gone")

    @contextlib.contextmanager
    def followed(self, name: str) -> Iterator[IO[str]]:
        """Its log, line by line as it is written."""
        with self._running("logs", "--follow", name) as lines:
            yield lines

    @contextlib.contextmanager
    def forwarded(self, name: str, port: int) -> Iterator[int]:
        """A port of the loopback that leads to the pod's."""
        with self._running("port-forward", name, f":{port}") as lines:
            said = FORWARDED.search(lines.readline())
            assert said, "kubectl says which port it took"
            yield int(said.group(1))

    @contextlib.contextmanager
    def _running(self, *words: str) -> Iterator[IO[str]]:
        command = self.kubectl.command("--namespace", self.namespace, *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            try:
                yield process.stdout
            finally:
                process.terminate()

"""The lab's own kubectl, called as a person would call it."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from deploy.lab.kubernetes import Lab

GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


class Refused(Exception):
    """The words of kubectl when it was told no, or got no answer."""


class Kubectl:
    def __init__(self, lab: Lab) -> None:
        self._command = [str(lab.kubectl), f"--kubeconfig={lab.kubeconfig}"]

    def command(self, *words: str) -> list[str]:
        """For what goes on until it is ended; `run` bounds each request."""
        return [*self._command, *words]

    def run(self, *words: str, text: str | None = None) -> str:
        bounded = [*self._command, "--request-timeout=10s", *words]
        done = subprocess.run(bounded, input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.run("get", "-o", "json", *words))

    def create_namespace(self, name: str, **hard: str) -> None:
        """Returns when its quota, where keys of one are given, is live."""
        self.run("create", "namespace", name)
        until(lambda: self.get("serviceaccounts", "-n", name)["items"])
        if hard:
            keys = ",".join(f"{key}={value}" for key, value in hard.items())
            self.run("create", "quota", "limits", f"--hard={keys}", "-n", name)
            until(lambda: self.get("quota", "limits", "-n", name).get("status", {}).get("used"))

    def create_pod(self, namespace: str, name: str, *, gpus: int = 0, **steering: str) -> None:
        annotations = {f"lab.gpuaas.io/{key}": value for key, value in steering.items()}
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "tolerations": [GPU_TOLERATION],
                "containers": [
                    {"name": "main", "image": "example.com/train", "resources": {"limits": limits}}
                ],
            },
        }
        self.run("create", "-n", namespace, "-f", "-", text=json.dumps(pod))

    def wait_phase(self, namespace: str, name: str, phase: str) -> Any:
        def probe() -> Any:
            pod = self.get("pod", name, "-n", namespace)
            return pod if pod["status"]["phase"] == phase else None

        return until(probe)


def until(probe: Callable[[], Any], limit: float = 60.0) -> Any:
    """The probe's first answer that is true."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"still not so after {limit:.0f} s")

"""A tenant at work: by REST at the portal, and by kubectl at the site with the kubeconfig that the portal gave."""

import json
import subprocess
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from deploy.lab.kubernetes import Lab
from tests.e2e.portal import Client, wait_until

HOME = "/projects/weather-lm/workspaces"
USAGE = "/projects/weather-lm/usage"
GPU = "nvidia.com/gpu"


class Refused(Exception):
    """What kubectl said when it was told no."""


class Kubectl:
    """The lab's kubectl with one kubeconfig, called as a person would."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [str(Lab().kubectl), f"--kubeconfig={kubeconfig}", "--request-timeout=20s"]

    def run(self, *words: str, text: str | None = None) -> str:
        command = [*self._command, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def get(self, *words: str) -> Any:
        return json.loads(self.run("get", "-o", "json", *words))

    def start_pod(
        self, name: str, *, gpus: int = 1, resource: str = GPU, run_seconds: int | None = None
    ) -> None:
        """It never ends by itself where `run_seconds` is not given."""
        steering = {"lab.gpuaas.io/run": f"{run_seconds}s"} if run_seconds is not None else {}
        limits = {resource: str(gpus)}
        container = {"name": "main", "image": "example.org/train", "resources": {"limits": limits}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": steering},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        self.run("create", "-f", "-", text=json.dumps(pod))

    def pod_in(self, name: str, phase: str) -> Any:
        """The pod, once it is in that phase."""

        def look() -> Any:
            pod = self.get("pod", name)
            return pod if pod["status"]["phase"] == phase else None

        return wait_until(f"{name} to be {phase}", look, seconds=60)


class Tenant:
    """alice, in her project weather-lm."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder

    def request(self, flavor: str, count: int, *, name: str = "") -> Any:
        body = {
            "name": name or f"job-{uuid.uuid4().hex[:8]}",
            "items": [{"flavor": flavor, "count": count}],
        }
        answer = self.client.call("POST", HOME, body)
        assert answer.status == 202, answer.body
        return answer.json

    def workspace(self, key: str) -> Any:
        return self.client.get(f"{HOME}/{key}")

    def in_state(self, key: str, state: str, *, seconds: float = 60) -> Any:
        """The workspace, once it is in that state; one that failed is reported at once."""

        def look() -> Any:
            found = self.workspace(key)
            assert found["state"] in {state, "requested", "provisioning", "ready", "deleting"}, found
            return found if found["state"] == state else None

        return wait_until(f"the workspace to be {state}", look, seconds=seconds)

    def conditions(self, key: str) -> dict[str, Any]:
        return {row["type"]: row for row in self.workspace(key)["conditions"]}

    def kubectl(self, key: str) -> Kubectl:
        answer = self.client.call("POST", f"{HOME}/{key}/kubeconfig", {})
        assert answer.status == 201, answer.body
        path = self.folder / f"{key}.yaml"
        path.write_text(answer.json["kubeconfig"])
        return Kubectl(path)

    def delete(self, key: str) -> None:
        assert self.client.call("DELETE", f"{HOME}/{key}").status == 202

    def used(self) -> dict[str, tuple[int, int]]:
        """What project and organization hold, by resource."""
        lines = self.client.get("/projects/weather-lm/limits")["results"]
        return {line["resource"]: (line["used"], line["organization_used"]) for line in lines}

    def intervals(self, key: str, meter: str) -> list[Any]:
        found: list[Any] = self.client.get(f"{USAGE}?workspace={key}&meter={meter}&page_size=200")["results"]
        return found

    def metered(self, key: str, uid: str, *, seconds: float = 60) -> Any:
        """The interval of a pod, once it has ended."""

        def look() -> Any:
            rows = [row for row in self.intervals(key, "gpu_allocated") if row["consumer_uid"] == uid]
            assert len(rows) <= 1, rows
            return rows[0] if rows and rows[0]["ended_at"] else None

        return wait_until(f"the end of {uid} in the usage", look, seconds=seconds)


def truth(pod: Any) -> tuple[datetime, datetime]:
    """From when to when a pod held its devices, as kubectl says."""
    conditions = {row["type"]: row for row in pod["status"]["conditions"]}
    finished = [
        datetime.fromisoformat(row["state"]["terminated"]["finishedAt"])
        for row in pod["status"]["containerStatuses"]
    ]
    return datetime.fromisoformat(conditions["PodScheduled"]["lastTransitionTime"]), max(finished)


def span(interval: Any) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(interval["started_at"]), datetime.fromisoformat(interval["ended_at"])

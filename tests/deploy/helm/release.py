"""A release of the chart on the node: how the tests speak to helm, to its pods and to the portal in them."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.node import Lab, images
from tests.deploy.helm import servers
from tests.deploy.helm.chart import CHART, Helm, Values
from tests.lab.fixtures import until
from tests.lab.node.place import Place

NAME, HOST = "portal", "gpu.example.org"
DATA, BACKUPS = f"data-{NAME}-gpuaas-postgresql-0", f"{NAME}-gpuaas-backup"  # the claims of the chart
WEB = f"{NAME}-gpuaas-web"
SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
OURS = {"repository": images.reference(servers.NAME).rpartition(":")[0], "tag": "1"}
VALUES: Values = {
    "hosts": [HOST],
    "trustedProxies": ["127.0.0.1", "10.213.0.0/16"],  # of a forwarded port; of pods
    "secrets": {"create": True},
    "web": {"resources": SMALL},
    "workers": {"general": {"replicas": 1, "queues": [], "resources": SMALL}, "slow": None},
    "scheduler": {"resources": SMALL},
    "meter": {"replicas": 1, "resources": SMALL},
    "migrations": {"resources": SMALL},
    "postgresql": {"enabled": True, "image": OURS, "user": servers.USER, "resources": SMALL},
    "redis": {"enabled": True, "image": OURS, "user": servers.USER, "resources": SMALL},
    "backup": {"enabled": True, "passphrase": {"existingSecret": "passphrase"}, "resources": SMALL},
}
MINUTES = 20  # for a machine that does much else


@dataclass(frozen=True)
class Answer:
    status: int
    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Release:
    helm: Helm
    lab: Lab
    place: Place

    def run(self, *words: str, values: Values | None = None) -> str:
        where = (f"--kubeconfig={self.lab.kubeconfig}", f"--namespace={self.place.namespace}")
        return self.helm.run(*words, *where, values=values, limit=60 * MINUTES)

    def change(self, verb: str, **values: Any) -> None:
        """Returns when all of it is there and Ready."""
        self.run(verb, NAME, str(CHART), "--wait", f"--timeout={MINUTES}m", values={**VALUES, **values})

    def manage(self, *words: str, text: str = "") -> str:
        """What a management command in a web pod says. text: its standard input."""
        inside = ("exec", "-i", f"deploy/{WEB}", "--", "gpuaas-portal", *words)
        done = subprocess.run(
            self.place.kubectl.command("--namespace", self.place.namespace, *inside),
            input=text,
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def opened(self) -> Iterator["Door"]:
        """The portal through its Service."""
        with self.place.forwarded(f"service/{NAME}-gpuaas", 80) as port:
            yield Door(f"http://127.0.0.1:{port}")

    def pods(self, component: str) -> dict[str, Any]:
        """Those that are not about to end, by name."""
        label = f"app.kubernetes.io/component={component}"
        found = self.place.kubectl.get("pods", "-n", self.place.namespace, "-l", label)["items"]
        return {one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]}


@dataclass(frozen=True)
class Door:
    """As whatever ends TLS in front of the portal asks it."""

    url: str

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> Answer:
        headers = {"Host": HOST, "X-Forwarded-Proto": "https"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = json.dumps(body).encode() if body is not None else None
        asked = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return Answer(answer.status, _read(answer.read()), dict(answer.headers))
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, _read(refused.read()), dict(refused.headers))


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def folder(lab: Lab, claim: str, namespace: str) -> Path:
    """Where on the node the volume of a claim lies, as this machine sees it."""
    return lab.state_dir / "var" / "lab" / namespace / claim


def volume(lab: Lab, claim: str, namespace: str, *, user: int) -> dict[str, Any]:
    """A folder of the node for a claim, as nobody provisions one there."""
    made = folder(lab, claim, namespace)
    made.mkdir(parents=True, exist_ok=True)
    os.chown(made, user, user)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}", "labels": {"helm-test": namespace}},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": f"/var/lib/lab/{namespace}/{claim}"},
        },
    }


def all_ready(release: Release) -> None:
    def look() -> bool:
        found = release.place.kubectl.get("pods", "-n", release.place.namespace)["items"]
        return all(
            one["status"]["phase"] == "Succeeded"
            or any(
                c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", ())
            )
            for one in found
        )

    until(look, "every pod is Ready")

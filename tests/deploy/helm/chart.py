"""The chart as the real helm renders it, and the values with which the tests do."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[3] / "deploy/helm/gpuaas"
Object = dict[str, Any]
Values = Mapping[str, Any]
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
WORKER = {"replicas": 3, "concurrency": 4, "graceSeconds": 310, "resources": RESOURCES}
DEFAULT: Values = {"hosts": ["gpu.example.org"], "secrets": {"existingSecret": "portal"}}
TRIAL: Values = {
    "hosts": ["gpu.example.org"],
    "secrets": {"create": True},
    "postgresql": {"enabled": True},
    "redis": {"enabled": True},
}
EVERYTHING: Values = {
    "hosts": ["gpu.example.org", "gpus.example.org"],
    "publicUrl": "https://gpus.example.org",
    "trustedProxies": ["10.244.0.0/16", "2001:db8::1"],
    "settings": {
        "GPUAAS_PROVIDER_NAME": "Example & Co.: GPUs",
        "GPUAAS_CURRENCY": "USD",
        "GPUAAS_BILLING_TIME_ZONE": "Europe/Paris",
        "GPUAAS_LEASE_GRACE_DAYS": 0,
        "GPUAAS_ACCESS_HOURS_MAX": 8,
        "GPUAAS_BILLING_GRACE_HOURS": 24,
        "GPUAAS_BILLING_DUE_DAYS": 14,
        "GPUAAS_BILLING_PROVIDER_ADDRESS": "Example\\n1 Main Street",
        "GPUAAS_USAGE_RETENTION_MONTHS": 13,
        "GPUAAS_JOB_SCRIPT_DAYS": 90,
        "GPUAAS_GPU_SAMPLES_DAYS": 7,
        "GPUAAS_GPU_HOURS_DAYS": 800,
        "GPUAAS_API_PER_MINUTE": 600,
        "GPUAAS_MOVER_IMAGE": "registry.example:5000/rclone:1",
        "GPUAAS_DATABASE_POOL": 20,
        "GPUAAS_MAIL_FROM": "GPUs <gpu@example.org>",
        "GPUAAS_CSRF_TRUSTED_ORIGINS": "https://gpu.example.org",
        "GPUAAS_LOG_LEVEL": "WARNING",
        "GPUAAS_LOG_JSON": True,
        "GPUAAS_SSL_REDIRECT": False,
        "GPUAAS_HSTS_SECONDS": 31_536_000,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.monitoring:4318",
    },
    "image": {"repository": "registry.example:5000/gpuaas", "digest": "sha256:" + "0" * 64},
    "pullSecrets": ["registry"],
    "secrets": {"existingSecret": "portal"},
    "database": {"existingSecret": "gpuaas-db", "key": "uri"},
    "broker": {"existingSecret": "queue"},
    "channels": {"existingSecret": "live"},
    "mail": {"existingSecret": "mail"},
    "oidc": {
        "issuer": "https://id.example.org",
        "clientId": "gpu",
        "existingSecret": "oidc",
        "name": "Example",
    },
    "web": {"autoscaling": {"enabled": True}},
    "door": {"domain": "apps.example.org", "tlsSecret": "door", "ssh": "ssh.example.org:22"},
    "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"example.org/a": "b"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "tlsSecret": "tls",
        "annotations": {"example.org/a": "b"},
    },
    "serviceAccount": {"name": "portal", "annotations": {"example.org/a": "b"}},
    "networkPolicy": {
        "webFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "metricsFrom": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        ],
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}]}],
    },
    "backup": {
        "enabled": True,
        "keep": 30,
        "passphrase": {"existingSecret": "vault"},
        "persistence": {"size": "50Gi", "storageClass": "slow"},
    },
    "podAnnotations": {"example.org/a": "b"},
    "podLabels": {"team": "portal"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "portal", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "metrics": {"enabled": True, "serviceMonitor": True, "rules": True, "labels": {"release": "prometheus"}},
}
BY_QUEUE: Values = {
    **DEFAULT,
    "workers": {
        "general": None,
        "slow": None,
        "sites": {**WORKER, "queues": ["celery"]},
        "a" * 20: {**WORKER, "queues": ["celery", "slow"]},
    },
}
CASES: dict[str, Values] = {
    "default": DEFAULT,
    "trial": TRIAL,
    "everything": EVERYTHING,
    "by queue": BY_QUEUE,
}


class Refused(Exception):
    """The words of helm when it said no."""


@dataclass(frozen=True)
class Helm:
    program: Path

    def run(self, *words: str, values: Values | None = None, limit: float = 120) -> str:
        """What it wrote. The values go to its standard input."""
        given = ["--values", "-"] if values is not None else []
        done = subprocess.run(
            [self.program, *words, *given],
            input=json.dumps(values) if values is not None else None,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stdout + done.stderr)
        return done.stdout

    def render(self, values: Values, *flags: str, release: str = "portal") -> list[Object]:
        text = self.run("template", release, str(CHART), "--namespace", "gpu", *flags, values=values)
        return [found for found in yaml.safe_load_all(text) if found]


def kinds(objects: list[Object], kind: str) -> dict[str, Object]:
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def pods(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """(what makes it, its specification)."""
    for found in objects:
        if found["kind"] == "Pod":
            yield found, found["spec"]
        elif found["kind"] in {"Deployment", "StatefulSet", "Job"}:
            yield found, found["spec"]["template"]["spec"]
        elif found["kind"] == "CronJob":
            yield found, found["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def containers(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """(the name of what makes its pod, the container)."""
    for owner, spec in pods(objects):
        for one in (*spec.get("initContainers", ()), *spec["containers"]):
            yield owner["metadata"]["name"], one

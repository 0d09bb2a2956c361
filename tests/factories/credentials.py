"""Credentials in the shape in which operators give them; nobody answers at their addresses."""

from typing import Any

import yaml


def kubeconfig_made(token: str = "t0ken", **changes: Any) -> str:
    """`changes` replace whole parts of it; None takes one away."""
    given: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.invalid:6443"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    names = {name.replace("_", "-"): value for name, value in changes.items()}
    return yaml.safe_dump({key: value for key, value in {**given, **names}.items() if value is not None})

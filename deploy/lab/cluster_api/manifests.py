"""What a controller's module says that it needs of an API server: as much of kustomize as its `config` uses."""

from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]


def manifests_of(config: Path) -> dict[str, list[Manifest]]:
    """`types` (CustomResourceDefinitions, with their labels and conversions) and `webhooks`, as the module has them."""
    crd = config / "crd"
    (wanted,) = _read(crd / "kustomization.yaml")
    labels: dict[str, str] = {}
    for group in wanted.get("labels", []):
        labels |= group["pairs"]
    types = {}
    for name in wanted["resources"]:
        (found,) = _read(crd / name)
        found["metadata"].setdefault("labels", {}).update(labels)
        types[found["metadata"]["name"]] = found
    for patch in wanted.get("patches", []):
        for change in _read(crd / patch["path"]):
            types[change["metadata"]["name"]]["spec"] |= change["spec"]
    return {"types": list(types.values()), "webhooks": _read(config / "webhook" / "manifests.yaml")}


def _read(path: Path) -> list[Manifest]:
    with path.open() as file:
        return [document for document in yaml.load_all(file, Loader=yaml.CSafeLoader) if document]

"""What the lab knows of clouds whose controllers it does not run: their types, out of the released modules, and
what Cluster API's own code makes of
a class for them. Go is needed for both, once; nothing of a provider is built."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.lab.cluster_api.manifests import Manifest, manifests_of
from deploy.lab.cluster_api.programs import CORE, Programs
from deploy.lab.cluster_api.settings import HERE
from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S, Report, go, run_build
from deploy.lab.locks import locked

GROUP = "infrastructure.cluster.x-k8s.io"


@dataclass(frozen=True)
class Release:
    """A Go module as its proxy gives it; `digest` as in a go.sum."""

    module: str
    version: str
    digest: str


PROVIDERS = {
    "aws": Release(
        "sigs.k8s.io/cluster-api-provider-aws/v2",
        "v2.13.0",
        "h1:yQz7GBrIkPLuEJ5MXNuZ/6eUssTJK8reUnZ6t5QIPnU=",
    ),
    "azure": Release(
        "sigs.k8s.io/cluster-api-provider-azure",
        "v1.23.0",
        "h1:hhiKfIFTgssEuRH2//OAkaUX94LVdtnL0MgvuQqJNo8=",
    ),
}


def types_of(provider: str) -> list[Manifest]:
    """Without conversions, which are webhooks' work: objects are taken in the version that is stored. With the
    labels that say which contracts
    of Cluster API they keep."""
    folder = _folder(PROVIDERS[provider]) / "config" / "crd"
    wanted = _read(folder / "kustomization.yaml")
    found = [_alone(_read(path)) for path in sorted((folder / "bases").glob(f"{GROUP}_*.yaml"))]
    by_name = {one["metadata"]["name"]: one for one in found}
    for one in found:
        one["metadata"].setdefault("labels", {}).update(wanted.get("commonLabels", {}))
    for patch in (folder / "patches").glob("capicontract_*.yaml"):
        change = _read(patch)
        if change["metadata"]["name"] in by_name:
            by_name[change["metadata"]["name"]]["metadata"]["labels"].update(change["metadata"]["labels"])
    return found


def core_types() -> list[Manifest]:
    """Of Cluster API itself and its kubeadm providers, as the lab's controllers have them."""
    programs = Programs(CORE)
    found = [
        manifest
        for controller in CORE.controllers
        for manifest in manifests_of(programs.source_of(controller.module) / controller.config)["types"]
    ]
    return [_alone(one) for one in found]


class Topology:
    """The program in build/topology."""

    def __init__(self, *, cache: Path | None = None) -> None:
        build = CORE.folder
        digest = hashlib.sha256()
        for path in (build / "go.mod", build / "go.sum", build / "topology" / "main.go"):
            digest.update(path.read_bytes())
        self.path = (cache or CACHE / "gpuaas-cluster-api-topology") / digest.hexdigest()[:16]

    def ensure(self, report: Report) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(
            self.path.with_suffix(".lock"),
            limit=BUILD_LIMIT_S,
            waiting=lambda: report("another start is building the topology's program"),
        ):
            if os.access(self.path, os.X_OK):
                return
            new = self.path.with_suffix(".new")
            run_build(["-ldflags", "-s -w", "-o", str(new)], ["./topology"], CORE.folder, report)
            new.replace(self.path)

    def desired(
        self, types: Sequence[Manifest], objects: Sequence[Manifest], clusters: Sequence[Manifest]
    ) -> list[Any]:
        """For each cluster the objects that its topology makes of the class in `objects`, or {"error": …}."""
        labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in types}
        asked = json.dumps({"types": labels, "class": objects, "clusters": clusters})
        result: list[Any] = json.loads(output_of(str(self.path), given=asked, limit=120))
        return result


def _alone(manifest: Manifest) -> Manifest:
    spec = {key: value for key, value in manifest["spec"].items() if key != "conversion"}
    return {**manifest, "spec": spec}


def _read(path: Path) -> Manifest:
    found: Manifest = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return found


def _folder(release: Release) -> Path:
    asked = f"{release.module}@{release.version}"
    result = json.loads(go("mod", "download", "-json", asked, folder=HERE, limit=600))
    if result["Sum"] != release.digest:
        raise LabError(f"{release.module} {release.version} is another than it was: {result['Sum']}")
    return Path(result["Dir"])

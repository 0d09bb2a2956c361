"""A real API server takes every object, under the strictest of its pod security standards."""

import json
import subprocess
import uuid
from pathlib import Path

import pytest

from deploy.lab.kubernetes.programs import Programs
from tests.deploy.helm.chart import CASES, Helm, Object, kinds
from tests.lab.fixtures import LabSite

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]
RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/warn": "restricted",
}


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_taken_without_a_warning(helm: Helm, lab: LabSite, case: str, tmp_path: Path) -> None:
    api, namespace = lab.api(), f"helm-{uuid.uuid4().hex[:8]}"
    api.create("/api/v1/namespaces", named(namespace))
    try:
        rendered = [found for found in helm.render(CASES[case]) if is_of_kubernetes(found)]
        for found in rendered:
            found["metadata"]["namespace"] = namespace
        for account in kinds(rendered, "ServiceAccount").values():  # pods are asked for theirs
            api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        path = tmp_path / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": rendered}), "utf-8")
        done = subprocess.run(
            [
                *(
                    Programs().path("kubectl"),
                    f"--kubeconfig={lab.kubeconfig_path}",
                    "apply",
                    "--server-side",
                ),
                *("--dry-run=server", "--validate=strict", "-f", path),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == len(rendered)
    finally:
        api.delete(f"/api/v1/namespaces/{namespace}")


def named(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": RESTRICTED}}


def is_of_kubernetes(found: Object) -> bool:
    """The Prometheus Operator brings the others."""
    return not found["apiVersion"].startswith("monitoring.coreos.com/")

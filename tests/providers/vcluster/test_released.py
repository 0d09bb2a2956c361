"""The released syncer between two real API servers, with what the driver makes for it: run where GPUAAS_VCLUSTER names its binary, built by
`go build ./cmd/vcluster` from the module github.com/loft-sh/vcluster@v0.30.0 (its own go.mod; 5 to 30 minutes)."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.providers.base import Change, ClusterSpec
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names
from tests.contracts.clusters.rigs import ALICE, carry_out, counts, step_do, step_finish
from tests.contracts.clusters.vcluster_rig import H100, VirtualRig
from tests.lab.fixtures import LabSite, until
from tests.providers.vcluster.released import ReleasedSyncer, free_port

BINARY = os.environ.get("GPUAAS_VCLUSTER", "")
pytestmark = [
    pytest.mark.skipif(not BINARY, reason="GPUAAS_VCLUSTER names no binary of the released syncer"),
    pytest.mark.timeout(900),
]
C = Change


@pytest.fixture
def rig(lab: LabSite, virtual_lab: Lab) -> Iterator[VirtualRig]:
    made = VirtualRig(lab, virtual_lab)
    made.played.syncs = False
    yield made
    made.close()


def copies(rig: VirtualRig, spec: ClusterSpec) -> list[Any]:
    """Of people's pods at the site, by the syncer's own label; without the cluster's DNS."""
    found = rig.api.items(
        f"{NAMESPACES}/{names.space(spec.external_name)}/pods",
        labelSelector=f"{names.SYNCED}={spec.external_name}",
    )
    return [one for one in found if H100 in str(one["spec"]["containers"])]  # all of them tolerate it


def work(alice: Api, team: str) -> None:
    """A Job of eight pods of one GPU, asked for inside."""
    alice.create(NAMESPACES, {"metadata": {"name": team}})
    account = f"{NAMESPACES}/{team}/serviceaccounts/default"
    until(lambda: alice.find(account), "the cluster's own controllers have made its account")
    box: dict[str, Any] = {"name": "main", "image": "registry.example/train"}
    box["resources"] = {"limits": {H100: "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    template = {"spec": {"containers": [box], "restartPolicy": "Never"}}
    job: dict[str, Any] = {"parallelism": 8, "completions": 8, "backoffLimit": 100, "template": template}
    alice.create(f"/apis/batch/v1/namespaces/{team}/jobs", {"metadata": {"name": "train"}, "spec": job})


def life(rig: VirtualRig, spec: ClusterSpec) -> None:
    """Growth, shrinking, sleep, waking and the end, by what is at the site."""
    until(lambda: len(copies(rig, spec)) == 4, "as many run at the site as the pools have GPUs")
    more, fewer, asleep = counts(spec, gpu=3), counts(spec, gpu=1), counts(spec, gpu=0, other=0)
    carry_out(rig.driver, C.SCALE, more, spec)
    until(lambda: len(copies(rig, spec)) == 6, "two more do after growth")
    carry_out(rig.driver, C.SCALE, fewer, more)
    carry_out(rig.driver, C.SUSPEND, asleep, fewer)
    assert rig.gpus_held(spec) == 0
    carry_out(rig.driver, C.RESUME, spec, asleep)
    until(lambda: len(copies(rig, spec)) == 4, "they come back when it wakes")
    carry_out(rig.driver, C.DELETE, spec)
    assert rig.driver.inventory(spec.ref) == ()


def test_the_released_syncer_works_within_what_the_driver_gives_it(
    rig: VirtualRig, virtual_lab: Lab, tmp_path: Path
) -> None:
    port = free_port()
    spec = rig.spec()
    spec = replace(spec, settings={**spec.settings, "host": f"localhost:{port}"})
    syncer = ReleasedSyncer(Path(BINARY), tmp_path, rig.played, virtual_lab, port)
    team = f"team-{spec.external_name}"
    keys = [step.key for step in rig.driver.plan(C.CREATE, spec).steps]
    try:
        for key in keys[: keys.index("control-plane")]:
            step_finish(rig.driver, C.CREATE, spec, key)
        step_do(rig.driver, C.CREATE, spec, "control-plane")
        syncer.start(spec)
        for key in keys[keys.index("control-plane") :]:
            step_finish(rig.driver, C.CREATE, spec, key)
        work(Api(rig.lossy.access(spec, ALICE, lifetime=timedelta(hours=1)).document), team)
        life(rig, spec)
    finally:
        syncer.stop()
        rig.played.virtual.delete(f"{NAMESPACES}/{team}")

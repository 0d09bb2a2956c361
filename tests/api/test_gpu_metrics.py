"""What GPUs did, by REST: of a workspace and what runs in it, and of a project's month."""

from datetime import timedelta

import pytest

from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.environments.stage import row_in as environment_in
from tests.gpustats.stage import MINUTE, keep_all, node_make, reading
from tests.jobs.stage import row_in as job_in
from tests.lasting import lasting
from tests.metering.stage import workspace_make


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    node_make(h100)
    return workspace_make(project, h100, alice)


def test_a_workspace_now_and_by_quarters_of_an_hour(workspace: Workspace, alices: Caller) -> None:
    keep_all(workspace, clock.now() - 3 * MINUTE, 3, [reading(workspace)])
    found = alices.get(f"/projects/weather-lm/workspaces/{workspace.pk}/gpu-metrics").json
    (device,) = found["devices"]
    assert (device["pod"], device["node"], device["mean"], device["energy_wh"]) == (
        "train-0",
        "h100-01",
        80,
        30,
    )
    assert device["now"]["memory_used_mib"] == 60_000
    assert len(found["slots"]) == 96
    assert (found["why"], found["advice"]) == ("", "")


def test_a_job_and_an_environment_have_their_own(
    workspace: Workspace, alices: Caller, charlies: Caller
) -> None:
    held = {"pool": workspace.flavors.get().flavor.pool, "gpus": 1}
    job = job_in(workspace, "a", state="ready", holding=True, ready_at=clock.now(), **held)
    type(job).objects.update(created_at=clock.now() - timedelta(hours=1), ready_at=clock.now() - 3 * MINUTE)
    lab = environment_in(workspace, "lab", **held)
    pods = [f"{job.external_name}-x7k2p", lab.external_name, f"{job.external_name}-b-x7k2p", "train-0"]
    told = [reading(workspace, pod=pod, device=pod) for pod in pods]
    keep_all(workspace, clock.now() - 3 * MINUTE, 3, told)
    of_job, of_lab = (
        f"/projects/weather-lm/{kind}/{row.pk}/gpu-metrics"
        for kind, row in (("jobs", job), ("environments", lab))
    )
    found = alices.get(of_job).json
    assert [(each["pod"], each["mean"]) for each in found["devices"]] == [(pods[0], 80)]
    assert (found["step_seconds"], found["kept_since"], found["why"]) == (60, None, "")
    assert 3 <= len(found["slots"]) <= 5
    found = alices.get(of_lab).json
    assert [each["pod"] for each in found["devices"]] == [pods[1]]
    assert (set(found), len(found["slots"])) == ({"why", "devices", "slots"}, 96)
    for address in (of_job, of_lab):
        assert charlies.get(address).status == 404
        assert charlies.get(address.replace("weather-lm", "protein-fold")).status == 404


def test_where_there_is_nothing_it_says_why(workspace: Workspace, alices: Caller) -> None:
    found = alices.get(f"/projects/weather-lm/workspaces/{workspace.pk}/gpu-metrics").json
    assert found["devices"] == []
    assert found["slots"] == []
    assert "reported nothing" in found["why"]


def test_a_month_of_a_project(workspace: Workspace, alices: Caller) -> None:
    at = clock.now().replace(day=2, hour=12, minute=0)
    keep_all(workspace, at, 30, [reading(workspace)])
    found = alices.get(f"/projects/weather-lm/gpu-metrics?month={at:%Y-%m}").json
    (row,) = found["gpu_types"]
    assert found["month"] == f"{at:%Y-%m}"
    assert (row["seen_hours"], row["used_hours"]) == (0.5, pytest.approx(0.4))
    assert row["energy_kwh"] == pytest.approx(0.3)
    assert row["used_share"] is None
    assert alices.get("/projects/weather-lm/gpu-metrics").status == 200
    assert alices.get("/projects/weather-lm/gpu-metrics?month=2026-13").status == 400


def test_an_outsider_finds_neither(workspace: Workspace, charlies: Caller) -> None:
    keep_all(workspace, clock.now() - timedelta(minutes=2), 1, [reading(workspace)])
    assert charlies.get(f"/projects/weather-lm/workspaces/{workspace.pk}/gpu-metrics").status == 404
    assert charlies.get("/projects/weather-lm/gpu-metrics").status == 404
    assert charlies.get(f"/projects/protein-fold/workspaces/{workspace.pk}/gpu-metrics").status == 404

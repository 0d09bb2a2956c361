"""Finished Jobs fill a workspace at the real API server: the bound is the site's, it is shown, warned of, and what to do is said."""

from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import site_update
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import ObjectBound
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile.record import objects_nearly_full
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import workload
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now
from tests.workspaces.test_new_model import api, hard, lab_site, make, tenant

__all__ = ["api", "lab_site"]  # fixtures
BOUND = 20


def bound(name: str, used: int, most: int) -> ObjectBound:
    return ObjectBound(name, name, used, most, f"mend {name}")


def test_the_fullest_comes_first_and_says_what_to_do() -> None:
    few, many = bound("jobs", 79, 100), bound("pods", 1200, 1500)
    assert objects_nearly_full([few]) == []
    (told,) = objects_nearly_full([few, many, bound("secrets", 190, 200)])
    assert (told["status"], told["reason"], told["remedy"]) == ("False", "NearlyFull", "mend secrets")
    assert told["message"] == "190 of 200 secrets; 1,200 of 1,500 pods"
    (full,) = objects_nearly_full([bound("jobs", 20, 20)])
    assert full["reason"] == "Full"
    assert objects_nearly_full([bound("none", 0, 0)]) == []


@pytest.mark.lab
@pytest.mark.django_db
def test_finished_jobs_fill_it_and_it_is_said(
    own_lab: Lab, lab_site: Site, api: Api, project: Project, as_alice: Actor, as_olga: Actor
) -> None:
    limits_give(project)
    site_update(actor=as_olga, site=lab_site, options={"object_bounds": {"jobs": BOUND}})
    workspace = make(as_alice, project, "jobs", Flavor.objects.get(pool__site=lab_site).slug)
    assert hard(api, workspace)["count/jobs.batch"] == str(BOUND)
    mine, made = tenant(as_alice, workspace), 0

    def job() -> None:
        nonlocal made
        made += 1
        path, body = workload(workspace.external_name, "Job", f"j-{made}", {})
        body["spec"]["template"]["metadata"]["annotations"] = {"lab.gpuaas.io/run": "1s"}
        mine.create(path, body)

    def seen() -> Any:
        run_now(workspace)
        return Workspace.objects.get(pk=workspace.pk)

    while made < BOUND * 8 // 10 - 1:
        job()
    until(lambda: used(seen()) == made, "they are counted")
    assert "RoomForObjects" not in seen().conditions
    job()
    until(lambda: "RoomForObjects" in seen().conditions, "it warns at four fifths")
    told = seen().conditions["RoomForObjects"]
    assert (told["reason"], f"{made} of {BOUND} Jobs" in told["message"]) == ("NearlyFull", True)
    assert "ttlSecondsAfterFinished" in told["remedy"]
    while made < BOUND:
        job()
    with pytest.raises(GpuaasError, match="exceeded quota"):
        job()
    until(lambda: seen().conditions["RoomForObjects"]["reason"] == "Full", "it is full")
    jobs = f"/apis/batch/v1/namespaces/{workspace.external_name}/jobs"
    mine.delete(jobs, propagationPolicy="Background")
    until(lambda: "RoomForObjects" not in seen().conditions, "there is room again")


def used(row: Workspace) -> int:
    return int(next(one["used"] for one in row.observed["bounds"] if one["name"] == "jobs"))

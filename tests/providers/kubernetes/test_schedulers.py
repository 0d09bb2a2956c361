"""Schedulers besides the default one: which a site allows is its operator's choice, and whether they run is checked."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change, Check, WorkspaceRef
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import pod, workload
from tests.lab.fixtures import LabSite, in_the_end, until
from tests.providers.kubernetes.conftest import ALICE, make_spec

pytestmark = pytest.mark.lab

SPEC = make_spec()


@pytest.fixture
def api(own_lab: Lab) -> Iterator[Api]:
    made = Api(own_lab.kubeconfig.read_text())
    yield made
    made.delete(f"/api/v1/namespaces/{SPEC.external_name}")
    made.close()


def driver(lab: Lab, *schedulers: str) -> KubernetesDriver:
    connection = LabSite(lab.kubeconfig).connection()
    return KubernetesDriver(replace(connection, options={"schedulers": list(schedulers)}))


def ensured(lab: Lab, *schedulers: str) -> KubernetesDriver:
    made = driver(lab, *schedulers)
    for step in made.steps(Change.CREATE):
        perform = partial(made.perform, Change.CREATE, SPEC, step.key)
        until(lambda: perform().done, step.key)  # noqa: B023
    return made


def schedulers_check(made: KubernetesDriver) -> Check:
    return next(check for check in made.preflight() if check.type == "Schedulers")


def tried(api: Api, path: str, body: Object) -> str:
    """The refusal; "" if it is admitted."""
    try:
        api.create(path, body, dryRun="All")
    except GpuaasError as error:
        return error.message
    return ""


def a_pod(api: Api, scheduler: str) -> str:
    return tried(
        api,
        f"/api/v1/namespaces/{SPEC.external_name}/pods",
        pod("asked", {"cpu": "1"}, schedulerName=scheduler),
    )


def a_job(api: Api, scheduler: str) -> str:
    path, body = workload(SPEC.external_name, "Job", "asked", {"cpu": "1"})
    body["spec"]["template"]["spec"]["schedulerName"] = scheduler
    return tried(api, path, body)


def test_only_those_that_the_site_names_may_be_used(own_lab: Lab, api: Api) -> None:
    """Policies act within a second after they are written, so each answer is waited for."""

    def answers(scheduler: str, said: str) -> None:
        for ask in (a_pod, a_job):
            ask_it = partial(ask, alice, scheduler)
            until(lambda: said in (ask_it() or "admitted"), f"{scheduler}: {said}")  # noqa: B023

    made = ensured(own_lab)
    ref = WorkspaceRef(SPEC.id, SPEC.external_name)
    alice = Api(made.issue_access(ref, ALICE, lifetime=timedelta(hours=1)).document)
    answers("volcano", "than the default one may not be used")

    in_the_end(driver(own_lab, "volcano", "kai-scheduler").site_repair)
    for name in ("volcano", "kai-scheduler", "default-scheduler"):
        answers(name, "admitted")
    answers("mine", "than the default one and kai-scheduler, volcano may not be used")

    in_the_end(driver(own_lab).site_repair)
    answers("volcano", "than the default one may not be used")


def test_the_preflight_says_whether_they_run(own_lab: Lab, api: Api) -> None:
    assert schedulers_check(driver(own_lab)).reason == "DefaultOnly"
    found = schedulers_check(driver(own_lab, "volcano"))
    assert (found.status, found.reason) == (Status.FALSE, "NotFound")
    assert "Further schedulers" in found.remedy

    body = pod("volcano-scheduler-0", {"cpu": "1"})
    body["spec"]["containers"][0]["args"] = ["--scheduler-name=volcano"]
    path = "/api/v1/namespaces/kube-system/pods"
    api.create(path, body)
    try:
        until(lambda: schedulers_check(driver(own_lab, "volcano")).reason == "Found", "it runs")
        assert schedulers_check(driver(own_lab, "volcano", "kai-scheduler")).reason == "NotFound"
    finally:
        api.delete(f"{path}/volcano-scheduler-0", gracePeriodSeconds="0")

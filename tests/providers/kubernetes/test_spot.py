"""Workspaces that borrow their GPUs, on a real API server and scheduler: their pods are the first to go, and go in time."""

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, EnvironmentSpec, GpuAmount, JobPhase, JobSpec
from gpuaas.providers.kubeapi import names, spot
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.attempts import pods_named
from gpuaas.providers.kubernetes.environments import pod_of
from gpuaas.providers.kubernetes.jobs import job_of
from tests.contracts.rigs.kubernetes import pod, volume_for, workload
from tests.lab.fixtures import LabSite, carry_out, until
from tests.lab.jobs import seen, seen_as
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec
from tests.providers.kubernetes.test_environments import SPEC as ENVIRONMENT
from tests.providers.kubernetes.test_jobs import SPEC as JOB

pytestmark = pytest.mark.xdist_group("own-lab")
SHARED = "nvidia.com/gpu.shared"
ALL = GpuAmount(SHARED, 16, {"gpuaas.io/pool": "l40s-shared"})  # of the only node of its pool
NOTICE = 20
FIRST: dict[str, Any] = {"priorityClassName": names.SPOT, "terminationGracePeriodSeconds": NOTICE}


def test_only_in_a_spot_workspace_a_job_says_so() -> None:
    lent = job_of(replace(JOB, notice_seconds=60))["spec"]
    made = lent["template"]["spec"]
    assert (made["priorityClassName"], made["terminationGracePeriodSeconds"]) == (names.SPOT, 60)
    (rule,) = lent["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    bought = job_of(JOB)["spec"]
    assert "podFailurePolicy" not in bought
    assert "priorityClassName" not in bought["template"]["spec"]
    assert bought["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    assert pod_of(replace(ENVIRONMENT, notice_seconds=60))["spec"]["priorityClassName"] == names.SPOT


def test_a_mover_that_is_pushed_out_is_no_preemption_of_its_job() -> None:
    """Its name begins as that of the job."""
    pods = {f"{JOB.name}-{each}" for each in ("x7k2p", "17-x7k2p", "in-x7k2p", "out-x7k2p", "more-0-x7k2p")}
    found = {name for name in pods if re.fullmatch(pods_named(JOB), name)}
    assert found == {f"{JOB.name}-x7k2p", f"{JOB.name}-17-x7k2p"}
    assert re.fullmatch(pods_named(replace(JOB, name=f"{JOB.name}-in")), f"{JOB.name}-in-x7k2p")


# -- on the lab ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(own_lab: Lab) -> LabSite:
    return LabSite(own_lab.kubeconfig)


@pytest.fixture
def borrower(site: LabSite) -> Iterator[Room]:
    spec = make_spec(gpus=(ALL,), notice_seconds=NOTICE, closed=("nvidia.com/gpu",))
    yield make_room(site, spec)
    forget(site, spec)


@pytest.fixture
def buyer(site: LabSite) -> Iterator[Room]:
    spec = make_spec(gpus=(ALL,), closed=("nvidia.com/gpu",))
    yield make_room(site, spec)
    forget(site, spec)


def _wanted(spec: Mapping[str, Any], gpus: int = 1) -> Object:
    return pod("mine", {SHARED: str(gpus), "cpu": "1", "memory": "1Gi"}, **spec)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({}, "set priorityClassName to gpuaas-spot"),
        ({"priorityClassName": "gpuaas-checks"}, "set priorityClassName to gpuaas-spot"),
        (
            {**FIRST, "terminationGracePeriodSeconds": NOTICE + 1},
            r"lower terminationGracePeriodSeconds \(at most 20\)",
        ),
        ({"priorityClassName": names.SPOT}, r"lower terminationGracePeriodSeconds \(at most 20\)"),
    ],
)
def test_a_pod_or_template_that_would_stay_is_refused(
    borrower: Room, spec: dict[str, Any], sentence: str
) -> None:
    borrower.admin.apply(spot.CLASSES, {**spot.priority_class(), "metadata": {"name": "gpuaas-checks"}})
    with pytest.raises(Permanent, match=sentence):
        borrower.tenant.create(borrower.path("pods"), _wanted(spec))
    collection, made = workload(borrower.spec.external_name, "Deployment", "web", {SHARED: "1"})
    made["spec"]["template"]["spec"] |= spec
    with pytest.raises(Permanent, match=sentence):
        borrower.tenant.create(collection, made)


def test_a_probe_lets_no_container_outlast_the_notice(borrower: Room) -> None:
    for kind in ("livenessProbe", "startupProbe"):
        made = _wanted(FIRST)
        probe = {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 3600}
        made["spec"]["containers"][0][kind] = probe
        with pytest.raises(Permanent, match="take terminationGracePeriodSeconds out of probes"):
            borrower.tenant.create(borrower.path("pods"), made)


def test_what_asks_for_no_gpu_would_cost_nothing_and_is_refused(borrower: Room) -> None:
    """Whoever of the workspace makes it, and however; an ask of zero asks for none."""
    size = {"cpu": "1", "memory": "1Gi"}
    for limits in (size, {**size, SHARED: "0"}):
        with pytest.raises(Permanent, match="each of its pods has to ask for one"):
            borrower.tenant.create(borrower.path("pods"), pod("free", limits, **FIRST))
        for kind in ("Deployment", "Job"):
            collection, made = workload(borrower.spec.external_name, kind, "free", limits)
            made["spec"]["template"]["spec"] |= FIRST
            with pytest.raises(Permanent, match="each of its pods has to ask for one"):
                borrower.tenant.create(collection, made)


def test_a_mover_of_files_runs_without_gpus_and_nobody_puts_work_into_it(borrower: Room) -> None:
    jobs, spec = borrower.driver.jobs, replace(_job(borrower), gpus=0, resource_name="")
    carry_out(jobs, Change.CREATE, spec)
    seen_as(jobs, spec, JobPhase.RUNNING)
    (moving,) = borrower.tenant.items(borrower.path("pods"))
    path = f"{borrower.path('pods')}/{moving['metadata']['name']}/ephemeralcontainers"
    with pytest.raises(Permanent, match="each of its pods has to ask for one"):
        borrower.tenant.merge(path, {"spec": {"ephemeralContainers": [{"name": "free", "image": "busybox"}]}})
    carry_out(jobs, Change.DELETE, spec)


def test_nobody_gives_a_pod_longer_by_deleting_it(borrower: Room) -> None:
    """The scheduler does not shorten a deletion that has begun."""
    made = _wanted(FIRST)
    made["metadata"]["annotations"] = {"lab.gpuaas.io/stop": "3600s"}
    borrower.tenant.create(borrower.path("pods"), made)
    borrower.run_to("mine", "Running")
    path = f"{borrower.path('pods')}/mine"
    with pytest.raises(Permanent, match=r"lower the grace period \(at most 20\)"):
        borrower.tenant.delete(path, gracePeriodSeconds="3600")
    with pytest.raises(Permanent, match=r"lower the grace period \(at most 20\)"):
        borrower.tenant.delete(borrower.path("pods"), gracePeriodSeconds="3600")
    evicted = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "mine"}}
    with pytest.raises(Permanent, match=r"lower the grace period \(at most 20\)"):
        borrower.tenant.create(f"{path}/eviction", {**evicted, "deleteOptions": {"gracePeriodSeconds": 3600}})
    assert "deletionTimestamp" not in borrower.pod("mine")["metadata"]
    borrower.tenant.create(f"{path}/eviction", evicted)
    assert borrower.pod("mine")["metadata"]["deletionGracePeriodSeconds"] == NOTICE


def test_no_member_takes_the_mark_off(borrower: Room) -> None:
    space = f"/api/v1/namespaces/{borrower.spec.external_name}"
    for value in (None, "86400"):
        with pytest.raises(Exception, match=r"forbidden|belongs to the portal"):
            borrower.tenant.merge(space, {"metadata": {"annotations": {names.NOTICE: value}}})
    borrower.admin.merge(space, {"metadata": {"annotations": {names.NOTICE: None}}})
    (found,) = [each for each in borrower.driver.drift(borrower.spec) if names.NOTICE in each.path]
    assert found.step == "namespace"


def test_the_class_is_found_missing_and_is_of_borrowers_alone(borrower: Room, buyer: Room) -> None:
    """A buyer's pod of the class would be a victim like theirs, with a year to end in."""
    slow = {"priorityClassName": names.SPOT, "terminationGracePeriodSeconds": 31_536_000}
    with pytest.raises(Permanent, match="of workspaces that borrow"):
        buyer.tenant.create(buyer.path("pods"), _wanted(slow))
    collection, made = workload(buyer.spec.external_name, "Deployment", "web", {SHARED: "1"})
    made["spec"]["template"]["spec"] |= slow
    with pytest.raises(Permanent, match="of workspaces that borrow"):
        buyer.tenant.create(collection, made)
    buyer.admin.delete(f"{spot.CLASSES}/{names.SPOT}")
    (found,) = borrower.driver.drift(borrower.spec)
    assert (found.object, found.found) == ("PriorityClass/gpuaas-spot", "missing")
    assert not buyer.driver.drift(buyer.spec)
    carry_out(borrower.driver, Change.CREATE, borrower.spec)
    assert not borrower.driver.drift(borrower.spec)


def _job(room: Room, **more: Any) -> JobSpec:
    return replace(
        JOB,
        id=uuid.uuid4(),
        workspace=room.ref,
        command=("sleep", "3600"),
        arguments=(),
        vcpus=1,
        memory_gib=1,
        gpus=8,
        resource_name=SHARED,
        retries=0,
        deadline_seconds=None,
        notice_seconds=NOTICE,
        **more,
    )


def test_a_buyers_pod_pushes_out_a_job_which_runs_again_later(borrower: Room, buyer: Room) -> None:
    """Without retries: what is ended for others counts as no attempt."""
    jobs, spec = borrower.driver.jobs, _job(borrower)
    carry_out(jobs, Change.CREATE, spec)
    seen_as(jobs, spec, JobPhase.RUNNING)
    inventory = {node.name: node for node in borrower.driver.probe().nodes}
    assert (inventory["l40s-shared-1"].allocated, inventory["l40s-shared-1"].lent) == (8, 8)
    assert inventory["l40s-shared-1"].largest_block == 16
    began = time.monotonic()
    buyer.tenant.create(buyer.path("pods"), _wanted({}, 12))
    buyer.run_to("mine", "Running")
    assert time.monotonic() - began < NOTICE
    gone = until(lambda: jobs.observe(spec).preempted, "the portal sees why")
    assert gone.startswith(spec.name)
    waits = seen(
        jobs, spec, lambda each: each.phase is JobPhase.WAITING and each.node == "", "it is on no node"
    )
    assert (waits.attempt, waits.preempted) == (1, gone)
    buyer.tenant.delete(f"{buyer.path('pods')}/mine", gracePeriodSeconds="0")
    again = seen_as(jobs, spec, JobPhase.RUNNING)
    assert (again.attempt, again.preempted) == (1, gone)
    carry_out(jobs, Change.DELETE, spec)


def test_a_borrower_that_ignores_the_signal_keeps_a_buyer_for_no_longer_than_its_notice(
    borrower: Room, buyer: Room
) -> None:
    """The make-believe kubelet ends it at once, or as long after the signal as it is told; the deadline is the API server's."""
    made = _wanted(FIRST, 16)
    made["metadata"]["annotations"] = {"lab.gpuaas.io/stop": f"{NOTICE // 2}s"}
    borrower.tenant.create(borrower.path("pods"), made)
    borrower.run_to("mine", "Running")
    buyer.tenant.create(buyer.path("pods"), _wanted({}, 16))
    ending = until(
        lambda: found if "deletionTimestamp" in (found := borrower.pod("mine"))["metadata"] else None,
        "it is told to end",
    )
    assert ending["metadata"]["deletionGracePeriodSeconds"] == NOTICE
    assert spot.is_preempted(ending)
    buyer.run_to("mine", "Running")


def test_an_environment_that_was_pushed_out_says_when(borrower: Room, buyer: Room) -> None:
    spec: EnvironmentSpec = replace(
        ENVIRONMENT,
        id=uuid.uuid4(),
        workspace=borrower.ref,
        vcpus=1,
        memory_gib=1,
        gpus=8,
        resource_name=SHARED,
        notice_seconds=NOTICE,
    )
    site = borrower.driver.environments
    borrower.admin.create("/api/v1/persistentvolumes", volume_for(spec))
    carry_out(site, Change.CREATE, spec)
    assert site.observe(spec).preempted_at is None
    before = clock.now() - timedelta(seconds=2)
    buyer.tenant.create(buyer.path("pods"), _wanted({}, 12))
    seen = until(lambda: found if not (found := site.observe(spec)).exists else None, "nothing of it is left")
    assert seen.preempted_at is not None
    assert seen.preempted_at > before
    carry_out(site, Change.DELETE, spec)

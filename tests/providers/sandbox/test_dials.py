"""A simulated site fails as it is told to."""

import uuid

import pytest

from gpuaas.core.errors import NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import Change, Connection, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.registry import driver_for
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.pods import pod_create


def test_down_means_no_answer_to_anybody(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    site = driver.connection.site_id
    events = driver.watch_usage("", seconds=60)
    next(events)
    dials_set(site, down=True, retry_after=7)
    with pytest.raises(Unavailable) as raised:
        driver.probe()
    assert raised.value.retry_after == 7
    with pytest.raises(Unavailable):
        driver.observe(ref)
    with pytest.raises(Unavailable):
        driver.perform(Change.CREATE, ready, "quota")
    with pytest.raises(Unavailable):
        pod_create(site, ready.external_name, "one", 1)
    with pytest.raises(Unavailable):
        list(events)
    dials_set(site, down=False)
    assert driver.observe(ref).exists


def test_planned_failures_are_counted_down(driver: SandboxDriver) -> None:
    failure_plan(driver.connection.site_id, verb="probe", times=2)
    for _ in range(2):
        with pytest.raises(Unavailable):
            driver.probe()
    assert driver.probe().nodes
    failure_plan(driver.connection.site_id, verb="probe", error="unauthorized", times=ALWAYS)
    with pytest.raises(Unauthorized):
        driver.probe()
    failure_plan(driver.connection.site_id, verb="probe", times=0)
    assert driver.probe().nodes


def test_lost_answer_has_done_the_work(driver: SandboxDriver, spec: WorkspaceSpec, ref: WorkspaceRef) -> None:
    failure_plan(driver.connection.site_id, verb="create:namespace", error="lost")
    with pytest.raises(Unavailable):
        driver.perform(Change.CREATE, spec, "namespace")
    assert driver.observe(ref).exists
    assert driver.perform(Change.CREATE, spec, "namespace").done


def test_permanent_refusal(driver: SandboxDriver, spec: WorkspaceSpec) -> None:
    failure_plan(driver.connection.site_id, verb="create:namespace", error="permanent")
    with pytest.raises(Permanent):
        driver.perform(Change.CREATE, spec, "namespace")
    with pytest.raises(ValueError, match="error is one of"):
        failure_plan(driver.connection.site_id, verb="probe", error="odd")


def test_credentials_are_checked_where_the_site_has_some(db: None) -> None:
    site = uuid.uuid4()
    dials_set(site, token="s3cret")
    with pytest.raises(Unauthorized):
        driver_for("sandbox", Connection(site, "ber-1", "", {})).probe()
    good = driver_for("sandbox", Connection(site, "ber-1", "", {"token": "s3cret"}))
    assert good.probe().nodes == ()


def test_slow_site_takes_its_time(driver: SandboxDriver) -> None:
    dials_set(driver.connection.site_id, latency_ms=30)
    assert driver.probe().server_version == "sandbox 1"


def test_unknown_steps_are_refused(driver: SandboxDriver, spec: WorkspaceSpec) -> None:
    with pytest.raises(Permanent):
        driver.perform(Change.CREATE, spec, "coffee")
    with pytest.raises(Permanent):
        driver.perform(Change.DELETE, spec, "coffee")
    with pytest.raises(NotFound):
        driver.perform(Change.CREATE, spec, "quota")

"""Every call of every driver is measured once, whoever wrote the driver."""

import uuid
from typing import Any

import pytest
from prometheus_client import REGISTRY

from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import Change, ClusterDriver, Connection, Driver, UsageCapability, WorkspaceSpec
from gpuaas.providers.measured import measured, verbs
from gpuaas.providers.registry import (
    cluster_driver_class,
    cluster_kinds,
    driver_class,
    driver_for,
    site_kinds,
)
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.readings import SandboxPodsDriver


@pytest.fixture
def driver(db: None) -> Driver:
    """At a site of its own, so that its counts begin at nothing."""
    connection = Connection(uuid.uuid4(), f"site-{uuid.uuid4().hex[:8]}", "", {})
    dials_set(connection.site_id, confirm_ms=0)
    return driver_for("sandbox", connection)


def calls(driver: Driver, verb: str, outcome: str) -> float:
    labels = {"site": driver.connection.site_slug, "driver": "sandbox", "verb": verb, "outcome": outcome}
    return REGISTRY.get_sample_value("gpuaas_site_call_seconds_count", labels) or 0


def test_a_call_is_counted_by_its_outcome(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.probe()
    driver.probe()
    dials_set(driver.connection.site_id, down=True)
    with pytest.raises(Unavailable):
        driver.probe()

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SandboxDriver, "probe", broken)
    with pytest.raises(ZeroDivisionError):
        driver.probe()
    assert [calls(driver, "probe", outcome) for outcome in ("ok", "unavailable", "error")] == [2, 1, 1]


def test_what_a_driver_calls_of_itself_is_part_of_the_call(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe_inside(self: SandboxDriver, *_: Any) -> Any:
        return self.probe()

    monkeypatch.setattr(SandboxDriver, "perform", probe_inside)
    spec: Any = WorkspaceSpec
    driver.perform(Change.CREATE, spec, "namespace")
    assert (calls(driver, "perform", "ok"), calls(driver, "probe", "ok")) == (1, 0)


def test_it_is_still_that_driver(driver: Driver) -> None:
    assert isinstance(driver, SandboxPodsDriver)
    assert type(driver) is measured(SandboxPodsDriver)
    assert (type(driver).__name__, type(driver).__module__) == (
        "SandboxPodsDriver",
        SandboxPodsDriver.__module__,
    )
    assert isinstance(driver, UsageCapability)
    assert type(driver).watch_usage is SandboxDriver.watch_usage, "a stream is no call"
    assert type(driver).steps is SandboxDriver.steps, "the site is not asked"


def test_verbs_are_those_of_the_contract() -> None:
    found: list[type[Driver | ClusterDriver]] = [driver_class(kind.name) for kind in site_kinds()]
    found += [cluster_driver_class(kind.name) for kind in cluster_kinds()]
    assert found
    for one in found:
        assert {"perform", "observe"} <= verbs(one)
        assert not verbs(one) & {
            "steps",
            "plan",
            "watch_usage",
            "watch_changes",
            "options_check",
            "namespace",
        }
    assert len(frozenset[str]().union(*map(verbs, found))) < 40

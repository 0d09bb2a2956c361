"""How often a cloud is asked: about a dozen calls for each workspace that is looked at, however many machines it has; what all have
in common is asked once for those that are compared in the same moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.openstack import dry_run
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.providers.openstack.calls import Calls, counted
from tests.providers.openstack.conftest import ALICE, provision, ref, spec_of, take_away
from tests.providers.openstack.test_workspace import as_member, boot

pytestmark = pytest.mark.openstack

# of one workspace: what is its own, drift and observation together; one more for each flavor that was bought
EACH = 16
# of the whole site: services, registered limits, roles, the external network, flavors, aliases
COMMON = 8


@pytest.fixture
def several(driver: OpenStackDriver) -> Iterator[list[WorkspaceSpec]]:
    """Three workspaces that bought the same flavor."""
    first = spec_of(gpus=1, members=(ALICE,))
    specs = [first] + [replace(spec_of(gpus=1, members=(ALICE,)), flavors=first.flavors) for _ in range(2)]
    try:
        for spec in specs:
            provision(driver, spec)
        yield specs
    finally:
        for spec in specs:
            take_away(driver, spec)


def sweep(driver: OpenStackDriver, specs: Sequence[WorkspaceSpec]) -> Calls:
    """As the reconciler does it: a driver for each visit."""
    with counted() as calls:
        for spec in specs:
            visitor = OpenStackDriver(driver.connection)
            assert visitor.drift(spec) == ()
            assert visitor.observe(ref(spec)).exists
    return calls


@pytest.fixture
def in_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(dry_run, "COMMON_SECONDS", 300.0)
    monkeypatch.setattr(dry_run, "_common", {})


@pytest.mark.usefixtures("in_one_moment")
def test_a_sweep_costs_the_same_for_each_and_the_site_once(
    driver: OpenStackDriver, several: list[WorkspaceSpec]
) -> None:
    driver.probe()  # signs in
    first = sweep(driver, several[:1])
    rest = sweep(driver, several[1:])
    private = sum("os-flavor-access" in url for _, url in first.urls)
    assert rest.count <= EACH * len(several[1:]), rest.kinds
    assert first.count <= EACH + COMMON + private, first.kinds
    assert {method for method, _ in first.urls + rest.urls} == {"GET"}, "a look writes nothing"


@pytest.mark.usefixtures("in_one_moment")
def test_machines_cost_no_call(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    sweep(driver, [ready])
    before = sweep(driver, [ready]).kinds
    alice = as_member(driver, ready)
    for number in range(2):
        boot(alice, f"train-{number}")
    until(
        lambda: {one.phase for one in driver.observe(ref(ready)).consumers} == {"ACTIVE"}, "two machines run"
    )
    assert sweep(driver, [ready]).kinds == before


def test_the_watch_asks_no_project_by_itself(driver: OpenStackDriver, several: list[WorkspaceSpec]) -> None:
    with counted() as calls:
        list(driver.watch_changes("", seconds=0))
    flavors = sum("os-flavor-access" in url for _, url in calls.urls)
    assert calls.count - flavors <= 25, calls.kinds
    assert not [url for _, url in calls.urls if "project_id=" in url or "/projects/" in url]

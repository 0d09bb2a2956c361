"""Is the site fit to be sold: every check, each time, in the same order; and nothing that tenants or the meter see."""

import pytest

from gpuaas.core.conditions import Status
from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import PreflightCapability, UsageKind
from tests.contracts.rigs import Rig

NEEDS = PreflightCapability


def test_every_check_says_what_was_found_and_what_to_do(rig: Rig) -> None:
    checks = rig.driver.preflight()
    assert len({check.type for check in checks}) == len(checks)
    for check in checks:
        assert check.status in set(Status), check
        assert check.reason.isalnum(), check
        assert check.message.endswith("."), check
        assert check.remedy or check.status == Status.TRUE, check


def test_what_keeps_the_limits_is_among_them_and_forbids_to_sell(rig: Rig) -> None:
    found = {check.type: check for check in rig.driver.preflight()}
    assert found.keys() >= rig.checks
    assert all(found[kind].blocking and found[kind].status == Status.TRUE for kind in rig.checks), found
    assert not found[rig.storage_check].blocking


def test_the_order_is_the_same_each_time(rig: Rig) -> None:
    first, second = rig.driver.preflight(), rig.driver.preflight()
    assert [check.type for check in first] == [check.type for check in second]


def test_neither_the_meter_nor_the_inventory_sees_it(rig: Rig) -> None:
    before = rig.driver.probe()
    rig.driver.preflight()
    seen = []
    for event in rig.driver.watch_usage("", seconds=1):
        if event.kind is UsageKind.RELISTED:
            break
        seen.append(event)
    assert not [event for event in seen if event.consumer and "canary" in event.workspace_name]
    assert [pool.resource_name for pool in rig.driver.probe().pools] == [
        pool.resource_name for pool in before.pools
    ]


def test_a_site_that_does_not_answer_is_no_finding(rig: Rig) -> None:
    with pytest.raises(Unavailable):
        rig.unreachable().preflight()  # type: ignore[attr-defined]  # of the same class as rig.driver

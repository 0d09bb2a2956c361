"""What a check of a node left at the site is swept by the next one."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from gpuaas.core.errors import NotFound
from gpuaas.providers.kubernetes import nodechecks
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.lab.fixtures import until
from tests.providers.kubernetes.fitness.conftest import PortalSite

pytestmark = pytest.mark.lab


def test_what_was_left_behind_is_swept_by_the_next(portal: PortalSite) -> None:
    driver, forgotten, made = portal.driver(), uuid.uuid4(), uuid.uuid4()
    driver.node_check_start("h200-dra-1", forgotten)
    driver.node_check_result(forgotten)
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=4)):
        driver.node_check_start("h200-dra-1", made)
        until(lambda: is_gone(driver, forgotten), "the forgotten check is gone")
    driver.node_check_result(made)
    # the site's own controller lets a claim go only after its pod
    until(lambda: f"check-{forgotten}" not in claims(portal), "its claim is gone")
    driver.node_check_end(made)


def is_gone(driver: KubernetesDriver, check: uuid.UUID) -> bool:
    try:
        driver.node_check_result(check)
    except NotFound:
        return True
    return False


def claims(portal: PortalSite) -> set[str]:
    return {item["metadata"]["name"] for item in portal.api().items(nodechecks.CLAIMS)}

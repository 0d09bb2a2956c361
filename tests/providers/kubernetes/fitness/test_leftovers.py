"""What a check of a node left at the site is swept by the next one."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from gpuaas.core.errors import NotFound
from gpuaas.providers.kubernetes import nodechecks
from tests.providers.kubernetes.fitness.conftest import PortalSite

pytestmark = pytest.mark.lab


def test_what_was_left_behind_is_swept_by_the_next(portal: PortalSite) -> None:
    driver, forgotten, made = portal.driver(), uuid.uuid4(), uuid.uuid4()
    driver.node_check_start("h200-dra-1", forgotten)
    driver.node_check_result(forgotten)
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=4)):
        driver.node_check_start("h200-dra-1", made)
        with pytest.raises(NotFound):
            driver.node_check_result(forgotten)
    driver.node_check_result(made)
    claims = [item["metadata"]["name"] for item in portal.api().items(nodechecks.CLAIMS)]
    assert f"check-{forgotten}" not in claims
    driver.node_check_end(made)

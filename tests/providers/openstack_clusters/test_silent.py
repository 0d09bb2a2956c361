"""A machine that does not report, on the real cloud: what Nova has of its console is evidence."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
import time_machine

from deploy.lab.openstack import Lab
from gpuaas.core.clock import now
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change
from tests.contracts.clusters.openstack_rig import OpenStackClusterRig
from tests.contracts.clusters.rigs import step_do, step_finish
from tests.lab.fixtures import until

pytestmark = [pytest.mark.openstack]


@pytest.fixture
def rig(openstack_lab: Lab) -> Iterator[OpenStackClusterRig]:
    with closing(OpenStackClusterRig(openstack_lab)) as made:
        yield made


def test_the_last_line_of_its_console_is_evidence(rig: OpenStackClusterRig) -> None:
    made = rig.spec(workers=1)
    spec = replace(made, settings={**made.settings, "boot_minutes": 2})
    name = f"{spec.external_name}-control-1"
    rig.guests.sick[name] = ()
    for step in ("project", "network", "endpoint"):
        step_finish(rig.driver, Change.CREATE, spec, step)
    step_do(rig.driver, Change.CREATE, spec, "control-plane")
    until(lambda: rig.server(spec, name)["status"] == "ACTIVE", "the head runs")
    with time_machine.travel(now() + timedelta(minutes=3)), pytest.raises(Permanent) as caught:
        step_do(rig.driver, Change.CREATE, spec, "control-plane")
    assert caught.value.message == f"{name} is not ready after 2 minutes: it never reported"
    assert caught.value.detail["evidence"] == [
        f"{name}: Nova reports ACTIVE; it never reported",
        f"{name}: the last line on its console is: {name} login:",
    ]

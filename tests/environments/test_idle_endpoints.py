"""When an endpoint of a model is idle: by the requests that its server counts, where nobody sees what its GPUs do."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.catalog.models import SiteReadings
from gpuaas.core import clock
from gpuaas.environments.models import Environment, EnvironmentCounter
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.environments import stage
from tests.environments.stage import HOURS, START, at, kind, said, use_now
from tests.environments.test_idle import HOUR, MINUTE, sample
from tests.environments.test_tokens import look, says

pytestmark = pytest.mark.django_db
SOON, USED, UNKNOWN = ("False", "StopsSoon"), ("True", "Used"), ("Unknown", "NotKnown")


@pytest.fixture(autouse=True)
def addressed(settings: Any) -> None:
    settings.DOOR_DOMAIN = "apps.test"


@pytest.fixture
def endpoint(travel: time_machine.Traveller, as_alice: Actor, workspace: Workspace) -> Environment:
    """With GPUs, at a site that tells nothing of any."""
    kind(metrics="vllm", idle_hours=HOURS)
    return stage.ready(as_alice, workspace, gpus=2)


def counted(travel: time_machine.Traveller, row: Environment, *, hours: float, requests: int) -> Environment:
    """What its server has counted by then, read, and a look at its use."""
    travel.move_to(START + hours * HOUR)
    says(row, requests, 0, 0)
    look(row)
    return use_now(row)


def test_one_whose_gpus_nobody_sees_is_idle_by_its_requests(
    travel: time_machine.Traveller, endpoint: Environment
) -> None:
    row = counted(travel, endpoint, hours=1, requests=7)
    assert (said(row), row.use.used_at) == (USED, START + HOUR)
    assert said(counted(travel, row, hours=4, requests=7)) == SOON
    assert said(counted(travel, row, hours=4.5, requests=8)) == USED
    assert said(counted(travel, row, hours=7.5, requests=8)) == SOON
    # nobody has read its counters for an hour
    assert said(at(travel, row, hours=8.5)) == UNKNOWN
    row = counted(travel, row, hours=9, requests=8)
    assert (said(row), row.use.stop_at) == (SOON, START + 10 * HOUR)
    assert counted(travel, row, hours=10, requests=8).state == "suspending"


def test_at_a_site_with_figures_of_gpus_it_waits_for_them(
    travel: time_machine.Traveller, endpoint: Environment
) -> None:
    SiteReadings.objects.create(site=endpoint.site, at=START - HOUR)
    for hours in (4, 7):
        assert said(counted(travel, endpoint, hours=hours, requests=0)) == UNKNOWN
    for device in (0, 1):
        sample(endpoint, clock.now() - MINUTE, device=device)
    assert said(use_now(endpoint)) == SOON


def test_of_one_that_an_earlier_release_has_counted_use_is_known_from_now_on(
    travel: time_machine.Traveller, endpoint: Environment
) -> None:
    counted(travel, endpoint, hours=1, requests=7)
    EnvironmentCounter.objects.update(moved_at=None)
    row = counted(travel, endpoint, hours=8, requests=7)
    assert (said(row), row.use.since) == (USED, START + 8 * HOUR)


def test_requests_that_do_not_come_by_the_door_are_use(
    travel: time_machine.Traveller, as_alice: Actor, workspace: Workspace
) -> None:
    kind(metrics="vllm", idle_hours=HOURS)
    row = stage.ready(as_alice, workspace, gpus=0)
    assert said(at(travel, row, hours=3.5)) == SOON
    assert said(counted(travel, row, hours=3.75, requests=1)) == USED


@pytest.mark.parametrize("late", [timedelta(minutes=4), timedelta(minutes=6)])
def test_its_counters_have_to_be_fresh(
    travel: time_machine.Traveller, endpoint: Environment, late: timedelta
) -> None:
    counted(travel, endpoint, hours=3.5, requests=0)
    travel.move_to(START + 3.5 * HOUR + late)
    assert said(use_now(endpoint)) == (SOON if late < timedelta(minutes=5) else UNKNOWN)

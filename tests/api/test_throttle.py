"""How often a caller may ask by REST: each for itself, by the clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from gpuaas.core.rate import Rate
from gpuaas.workspaces.models import Workspace
from tenants.models import Project
from tests.api.caller import Caller

MONDAY = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
HOME = "/projects/weather-lm/workspaces"


@pytest.mark.django_db
def test_who_asks_too_often_waits_and_nobody_else(
    alices: Caller, bobs: Caller, program: Caller, project: Project, settings: Any
) -> None:
    settings.API_PER_MINUTE = 3
    with time_machine.travel(MONDAY, tick=False) as time:
        assert [alices.get(HOME).status for _ in range(3)] == [200, 200, 200]
        refused = alices.get(HOME)
        assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "throttled", "20")
        assert refused.error["message"] == "more than 3 requests in a minute; ask again after Retry-After"
        assert [bobs.get(HOME).status for _ in range(3)] == [200, 200, 200]
        assert [program.get(HOME).status for _ in range(4)] == [
            200,
            200,
            200,
            429,
        ]  # alice's token, not alice
        time.shift(timedelta(seconds=20))
        assert [alices.get(HOME).status for _ in range(2)] == [200, 429]


@pytest.mark.django_db
def test_what_is_refused_does_nothing(alices: Caller, limits: None, settings: Any) -> None:
    settings.API_PER_MINUTE = 1
    with time_machine.travel(MONDAY, tick=False):
        assert alices.get(HOME).status == 200
        asked = alices.post(HOME, {"name": "train", "items": [{"flavor": "h100.1", "count": 2}]})
        assert asked.status == 429
    assert not Workspace.objects.exists()


def test_it_comes_back_evenly_and_who_is_quiet_is_forgotten() -> None:
    meter = Rate()
    with time_machine.travel(MONDAY, tick=False) as time:
        assert [meter.seconds_to_wait("a", most=60) for _ in range(60)] == [0.0] * 60
        assert meter.seconds_to_wait("a", most=60) == 1.0
        time.shift(timedelta(seconds=2))
        assert [meter.seconds_to_wait("a", most=60) for _ in range(3)] == [0.0, 0.0, 1.0]
        time.shift(timedelta(seconds=-30))  # a clock that was set back gives nothing, and takes nothing
        assert meter.seconds_to_wait("a", most=60) == 1.0
        time.shift(timedelta(seconds=60))
        assert meter.seconds_to_wait("b", most=60) == 0.0
        assert list(meter._used) == ["b"]

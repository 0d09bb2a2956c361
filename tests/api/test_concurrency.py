"""Many programs ask for the last 8 GPUs at the same moment, many times over, on real connections.

64 of them 50 times in the deep tier; 16 in the fast one, once for each of the three that can be short of GPUs.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit, Reservation, SiteCapacity
from tenants.models import Project, User
from tests.api.caller import Answer, Caller, token_for
from tests.factories.quotas import counters_must_match, limits_give

LEFT = 8
GPU = "gpu:h100-sxm-80gb"
SHORT = ("project", "organization", "site")


class Crowd:
    """Threads with a connection and a caller each, let loose together round by round."""

    def __init__(self, token: str, *, callers: int) -> None:
        self.gate = threading.Barrier(callers)
        self.token = token
        self.own = threading.local()

    def ask(self, name: str) -> Answer:
        if not hasattr(self.own, "caller"):
            self.own.caller = Caller(token=self.token)
            connection.ensure_connection()
        self.gate.wait()
        answer: Answer = self.own.caller.post(
            "/projects/weather-lm/workspaces", {"name": name, "items": [{"flavor": "h100.1", "count": 1}]}
        )
        return answer

    def leave(self, _: int) -> None:
        self.gate.wait()
        connection.close()


def scarce(project: Project, *, by: str) -> None:
    """8 left by the project's limit, the organization's, or the site's capacity."""
    Reservation.objects.all().delete()
    Workspace.objects.all().delete()
    Limit.objects.update(used=0)
    SiteCapacity.objects.update(used=0)
    plenty = 10_000
    SiteCapacity.objects.filter(resource=GPU).update(hard=LEFT if by == "site" else plenty)
    Limit.objects.filter(resource=GPU).update(hard=plenty)
    if by == "project":
        Limit.objects.filter(resource=GPU, project=project).update(hard=LEFT)
    if by == "organization":
        Limit.objects.filter(resource=GPU, organization=project.organization).update(hard=LEFT)


def check(answers: list[Answer], *, by: str) -> None:
    """Exactly 8 are granted; every loser is told which limit, how much is used and what was asked."""
    granted = [answer for answer in answers if answer.status == 202]
    refused = [answer for answer in answers if answer.status == 409]
    assert (len(granted), len(refused)) == (LEFT, len(answers) - LEFT), {answer.status for answer in answers}
    for answer in refused:
        assert answer.code == ("no_capacity" if by == "site" else "quota_exceeded")
        detail = answer.error["detail"]
        assert detail["scope"] == by
        assert (detail["limit"], detail["used"], detail["asked"], detail["left"]) == (LEFT, LEFT, 1, 0)
    assert Workspace.objects.count() == LEFT
    assert Reservation.objects.filter(resource=GPU, state="held").count() == LEFT
    counters_must_match()


@pytest.fixture
def token(alice: User, project: Project, site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """alice's; nothing but GPUs is ever short, and refusals by the thousand are not logged."""
    monkeypatch.setattr(logging.getLogger("django.request"), "disabled", True)
    limits_give(project, {"vcpu": None, "memory": None, "storage": None})
    return token_for(alice, project)


def at_once(token: str, project: Project, *, callers: int, rounds: int) -> None:
    """What is short of GPUs takes turns, round by round; each has as many answers as there are callers."""
    crowd = Crowd(token, callers=callers)
    with ThreadPoolExecutor(callers) as pool:
        for number in range(rounds):
            by = SHORT[number % len(SHORT)]
            scarce(project, by=by)
            answers = list(pool.map(crowd.ask, [f"w{number}-{caller}" for caller in range(callers)]))
            assert len(answers) == callers
            check(answers, by=by)
        list(pool.map(crowd.leave, range(callers)))


@pytest.mark.django_db(transaction=True)
def test_64_at_once_for_the_last_8(token: str, project: Project) -> None:
    at_once(token, project, callers=64, rounds=50)


@pytest.mark.django_db(transaction=True)
def test_16_at_once_for_the_last_8(token: str, project: Project) -> None:
    at_once(token, project, callers=16, rounds=len(SHORT))

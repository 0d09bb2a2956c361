"""64 programs ask for the last 8 GPUs at the same moment, many times over, on real connections."""

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

CALLERS = 64
LEFT = 8
GPU = "gpu:h100-sxm-80gb"


class Crowd:
    """64 threads with a connection and a caller each, let loose together round by round."""

    def __init__(self, token: str) -> None:
        self.gate = threading.Barrier(CALLERS)
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
    assert (len(granted), len(refused)) == (LEFT, CALLERS - LEFT), {answer.status for answer in answers}
    for answer in refused:
        assert answer.code == ("no_capacity" if by == "site" else "quota_exceeded")
        detail = answer.error["detail"]
        assert detail["scope"] == by
        assert (detail["limit"], detail["used"], detail["asked"], detail["left"]) == (LEFT, LEFT, 1, 0)
    assert Workspace.objects.count() == LEFT
    assert Reservation.objects.filter(resource=GPU, state="held").count() == LEFT
    counters_must_match()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("rounds", [10, 50])
def test_64_at_once_for_the_last_8(
    alice: User, project: Project, site: Site, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(logging.getLogger("django.request"), "disabled", True)  # refusals by the thousand
    limits_give(project, {"vcpu": None, "memory": None, "storage": None})
    crowd = Crowd(token_for(alice, project))
    with ThreadPoolExecutor(CALLERS) as pool:
        for number in range(rounds):
            by = ("project", "organization", "site")[number % 3]
            scarce(project, by=by)
            names = [f"w{number}-{caller}" for caller in range(CALLERS)]
            check(list(pool.map(crowd.ask, names)), by=by)
        list(pool.map(crowd.leave, range(CALLERS)))

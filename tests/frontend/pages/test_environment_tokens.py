"""Requests and tokens on the page of an environment; and what it says of one that a key starts again."""

import pytest
from django.test import Client, override_settings

from gpuaas.core.clock import billing_day, now
from gpuaas.environments.models import EnvironmentCounter, EnvironmentUse
from gpuaas.environments.services import environment_create, environment_stop
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import Project
from tests.environments.stage import kind, ordered, settle
from tests.frontend.markup import words
from tests.frontend.pages.test_environments import at, room

__all__ = ["room"]
pytestmark = pytest.mark.django_db


def test_requests_and_tokens_are_counted_on_its_page(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    plain = ordered(as_alice, room, "plain", gpus=0)
    assert "Tokens in" not in words(alice_at.get(at("environment", project, plain.pk)))
    kind("chat", metrics="vllm")
    row = settle(environment_create(actor=as_alice, workspace=room, kind="chat", name="chat", gpus=0))
    page = at("environment", project, row.pk)
    assert "Requests</dt><dd>0 today, 0 this month" in words(alice_at.get(page))
    today = billing_day(now())
    for day, count in ((today, 5), (today.replace(day=2 if today.day == 1 else 1), 1000)):
        row.token_days.create(day=day, requests=count, tokens_in=count * 10, tokens_out=count * 3)
    EnvironmentCounter.objects.update(read_at=now())
    shown = words(alice_at.get(page))
    assert "Requests</dt><dd>5 today, 1,005 this month" in shown
    assert "Tokens in</dt><dd>50 today, 10,050 this month" in shown
    assert "Tokens out</dt><dd>15 today, 3,015 this month" in shown
    assert "Counted</dt><dd>until" in shown
    assert "Counted by days of</dt><dd>Europe/Berlin" in shown
    EnvironmentCounter.objects.update(failure="its API answers with too much")
    assert "Counted</dt><dd>Not now: its API answers with too much" in words(alice_at.get(page))


@override_settings(DOOR_DOMAIN="apps.test")
@pytest.mark.parametrize("access", ["public", "workspace"])
def test_its_page_says_what_starts_it_again(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project, access: str
) -> None:
    kind(access=[access])
    row = settle(ordered(as_alice, room, gpus=0))
    row = settle(environment_stop(actor=SYSTEM, environment=row))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    shown = words(alice_at.get(at("environment", project, row.pk)))
    by = " or a request with a key" if access == "public" else ""
    assert f"Opening its address{by} starts it again." in shown

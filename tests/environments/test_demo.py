"""The demo has the shipped kinds, and two environments that are ready, one of which counts tokens."""

import pytest
from django.test import override_settings

from deploy.embedded import offers, seed
from gpuaas.catalog.models import Site
from gpuaas.environments.models import Environment, EnvironmentCounter, EnvironmentKind
from gpuaas.providers.sandbox.dials import dials_set


@pytest.mark.django_db
@override_settings(AUTH_PASSWORD_VALIDATORS=[])  # the demo's passwords are short
def test_two_environments_are_ready_and_there_are_two_however_often() -> None:
    seed.people()
    seed.sandbox()
    dials_set(Site.objects.get().pk, latency_ms=0, confirm_ms=0, environment_ms=0)
    offers.offer(seed.last_month())
    seed.limits()
    seed.environments()
    seed.environments()
    rows = Environment.objects.order_by("pk").values_list("name", "state", "workspace__state")
    assert list(rows) == [("explore", "ready", "ready"), ("chat", "ready", "ready")]
    assert EnvironmentCounter.objects.get().environment.name == "chat"
    assert EnvironmentKind.objects.count() == 6

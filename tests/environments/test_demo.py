"""The demo has the shipped kinds, and one environment that is ready."""

import pytest
from django.test import override_settings

from deploy.embedded import offers, seed
from gpuaas.catalog.models import Site
from gpuaas.environments.models import Environment, EnvironmentKind
from gpuaas.providers.sandbox.dials import dials_set


@pytest.mark.django_db
@override_settings(AUTH_PASSWORD_VALIDATORS=[])  # the demo's passwords are short
def test_one_environment_is_ready_and_there_is_one_however_often() -> None:
    seed.people()
    seed.sandbox()
    dials_set(Site.objects.get().pk, latency_ms=0, confirm_ms=0, environment_ms=0)
    offers.offer(seed.last_month())
    seed.limits()
    seed.environments()
    seed.environments()
    row = Environment.objects.get()
    assert (row.state, row.name, row.workspace.state) == ("ready", "explore", "ready")
    assert EnvironmentKind.objects.count() == 5

"""The demo has jobs in each of the states that people meet first."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import override_settings

from deploy.embedded import offers, seed
from gpuaas.catalog.models import Site
from gpuaas.jobs.models import Job
from gpuaas.providers.sandbox.dials import dials_set


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second passes where the seed waits for the site."""
    with time_machine.travel(datetime.now(UTC)) as traveller:
        monkeypatch.setattr(time, "sleep", lambda _: traveller.shift(1))
        yield


@pytest.mark.django_db
@override_settings(AUTH_PASSWORD_VALIDATORS=[])  # the demo's passwords are short
def test_one_of_each_kind_however_often() -> None:
    seed.people()
    seed.sandbox()
    dials_set(Site.objects.get().pk, latency_ms=0, confirm_ms=0, environment_ms=0)
    offers.offer(seed.last_month())
    seed.limits()
    seed.environments()
    for _ in range(2):
        seed.jobs()
    found = {row.name: row.get_state_display() for row in Job.objects.all()}
    assert found == {
        "prepare": "Succeeded",
        "convert": "Failed",
        "train": "Running",
        "evaluate": "Queued",
        "sweep": "Failed",
        "fine-tune": "Running",
        "digits": "Queued",
        "radar": "Failed",
    }
    assert Job.objects.get(name="train").template == "training"
    assert Job.objects.get(name="sweep").failure.startswith("1 of 12 tasks failed: 7; ")
    assert Job.objects.get(name="fine-tune").observed["running"] == "0-1"
    assert Job.objects.get(name="digits").moved["in"]["done"] is True
    assert Job.objects.get(name="radar").staging == "in"
    assert "0 of 2 are free" in Job.objects.get(name="evaluate").waiting

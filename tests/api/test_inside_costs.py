"""What jobs and environments have cost so far, by REST."""

from datetime import timedelta

import pytest

from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.metering.models import Meter, UsageInterval
from tenants.models import Project, User
from tests.api.caller import Caller
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.environments.stage import row_in as environment_in
from tests.jobs.stage import row_in as job_in

pytestmark = pytest.mark.django_db


def test_shares_of_a_workspace(
    project: Project, h100: Flavor, alice: User, alices: Caller, bobs: Caller, charlies: Caller
) -> None:
    rate_make(rate_card_ensure(), h100, 2_400_000, utc("2026-01-01"))
    room = workspace_make(project, h100, alice)
    job = job_in(room, "train", pool=h100.pool, gpus=1)
    lab = environment_in(room, "lab", pool=h100.pool, gpus=1)
    ended = clock.whole_second(clock.now()) - timedelta(minutes=1)
    for pod, seconds in ((f"{job.external_name}-x7k2p", 3601), (lab.external_name, 60)):
        made = interval_make(room, h100, ended - timedelta(seconds=seconds), ended, meter=Meter.GPU_ALLOCATED)
        UsageInterval.objects.filter(pk=made.pk).update(consumer_name=pod)
    of_job, of_lab = (
        f"/projects/weather-lm/jobs/{job.pk}/cost",
        f"/projects/weather-lm/environments/{lab.pk}/cost",
    )
    found = alices.get(of_job).json
    assert found.pop("as_of")
    assert found == {
        "currency": "EUR",
        "charged": "0.00",
        "included": "2.400667",
        "gpu_seconds": 3601,
        "complete": True,
        "counted_since": None,
    }
    assert alices.get(of_lab).json["included"] == "0.04"
    for address in (of_job, of_lab):
        assert charlies.get(address).status == 404
        assert charlies.get(address.replace("weather-lm", "protein-fold")).status == 404
        assert bobs.get(address).status == 200

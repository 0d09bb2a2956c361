"""What jobs and environments have cost so far, on their pages."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.stage import interval_make, rate_make, utc, workspace_make
from tests.environments.stage import row_in as environment_in
from tests.frontend.markup import words
from tests.jobs.stage import row_in as job_in
from tests.workspaces.spotted import spot_flavor

pytestmark = pytest.mark.django_db


def had(room: Workspace, flavor: Flavor, pod: str) -> None:
    """A GPU for an hour and a second."""
    ended = clock.whole_second(clock.now()) - timedelta(minutes=1)
    made = interval_make(room, flavor, ended - timedelta(seconds=3601), ended, meter=Meter.GPU_ALLOCATED)
    UsageInterval.objects.filter(pk=made.pk).update(consumer_name=pod)


def said(client: Client, row: Job | Environment) -> str:
    noun = "job" if isinstance(row, Job) else "environment"
    return words(client.get(reverse(f"frontend:{noun}", args=[row.project.slug, row.pk])))


def test_what_was_bought_is_a_share(bob_at: Client, project: Project, h100: Flavor, alice: User) -> None:
    room = workspace_make(project, h100, alice)
    rows: list[Job | Environment] = [
        job_in(room, "train", pool=h100.pool, gpus=1),
        environment_in(room, "lab", pool=h100.pool, gpus=1),
    ]
    had(room, h100, f"{rows[0].external_name}-x7k2p")
    had(room, h100, rows[1].external_name)
    for row in rows:
        assert (
            "€0.00, its share of what train is charged: not charged again; a part of it has no price"
            in said(bob_at, row)
        )
    rate_make(rate_card_ensure(), h100, 2_400_000, utc("2026-01-01"))
    for row in rows:
        assert "€2.40, its share of what train is charged: not charged again" in said(bob_at, row)


def test_what_is_borrowed_is_charged_by_itself(
    bob_at: Client, project: Project, h100: Flavor, alice: User
) -> None:
    spot = spot_flavor(h100)
    rate_make(rate_card_ensure(), spot, 960_000, utc("2026-01-01"), meter=Meter.GPU_ALLOCATED)
    room = workspace_make(project, spot, alice, name="borrowed")
    Workspace.objects.update(notice_seconds=120)
    job = job_in(room, "train", pool=spot.pool, gpus=1)
    had(room, spot, f"{job.external_name}-x7k2p")
    assert "€0.96, charged by itself" in said(bob_at, job)


def test_without_gpus_nothing_is_said(bob_at: Client, project: Project, h100: Flavor, alice: User) -> None:
    room = workspace_make(project, h100, alice)
    for row in (job_in(room, "train"), environment_in(room, "lab")):
        assert "Cost so far" not in said(bob_at, row)

"""What people see of a final month, whose intervals are in files, is to the byte what they saw before."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from billing.models import Invoice
from billing.months import month_of, month_previous, month_span
from billing.services import rate_set
from billing.services.pdfs import pdfs_make
from billing.services.retention import month_finish
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.gpustats.models import GpuHour
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import V1
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, rate_make, workspace_make

FRESH = re.compile(rb'(csrf\w*"? value="|nonce[-="]+|csrf-token" content=")[^"\']+|X-CSRFToken[^}]*')
HOUR = timedelta(hours=1)


@pytest.fixture
def month(settings: Settings) -> date:
    """Five months ago, of which two are kept longer."""
    settings.USAGE_RETENTION_MONTHS = 3
    found = month_of(clock.now())
    for _ in range(5):
        found = month_previous(found)
    return found


@pytest.fixture
def spent(project: Project, h100: Flavor, alice: User, as_olga: Actor, month: date) -> Workspace:
    """Two workspaces, a price that changed on the eleventh at noon, storage, and what nobody sells."""
    start = month_span(month).starts_at
    first = rate_set(
        actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=start - 24 * HOUR
    )
    rate_make(first.card, None, 100, start - 24 * HOUR, meter=Meter.STORAGE_HELD)
    rows = [workspace_make(project, h100, alice, name=name) for name in ("train", "serve")]
    for number, row in enumerate(rows):
        for day in range(0, 30, 3):
            began = start + timedelta(days=day, minutes=7 * number, seconds=11)
            interval_make(row, h100, began, began + (5 + number) * HOUR, quantity=1 + number)
    interval_make(rows[0], h100, start - HOUR, start + 32 * 24 * HOUR, meter=Meter.STORAGE_HELD, quantity=500)
    interval_make(rows[1], None, start, start + HOUR, meter=Meter.GPU_ALLOCATED, resource="nvidia.com/odd")
    hour = {
        "memory_mib_seconds": 0,
        "energy_mj": 7_200_000_000,
        "busy_seconds": 900,
        "measured_seconds": 3600,
    }
    GpuHour.objects.create(
        workspace=rows[0], project=project, gpu_type=h100.pool.gpu_type, hour=start, seconds=3600, **hour
    )
    for closed in (month_previous(month), month, month_of(start + 40 * 24 * HOUR)):
        month_close(as_olga, closed, accept="a GPU that nobody sells")
    pdfs_make()
    return rows[0]


@pytest.fixture
def _still() -> Iterator[None]:
    """The clock stands: pages say when they were drawn."""
    with time_machine.travel(clock.now(), tick=False):
        yield


def addresses(month: date, workspace: Workspace) -> list[str]:
    label, invoice = f"{month:%Y-%m}", Invoice.objects.get(month=month)
    project, organization = workspace.project.slug, workspace.project.organization.slug
    usage = reverse("frontend:usage", args=[project])
    return [
        reverse("frontend:statement", args=[project, label]),
        reverse("frontend:statement_csv", args=[project, label]),
        *(f"{usage}?month={label}&by={by}" for by in ("workspace", "type", "day")),
        *(
            f"{reverse('frontend:costs', args=[project])}?month={label}&by={by}"
            for by in ("workspace", "day", "member")
        ),
        f"{reverse('frontend:organization_costs', args=[organization])}?month={label}&by=project",
        reverse("frontend:organization_statement", args=[organization, label]),
        f"{V1}/projects/{project}/statements/{label}",
        f"{V1}/projects/{project}/costs/breakdown?month={label}&group_by=workspace",
        f"{V1}/organizations/{organization}/focus/{label}.csv",
        f"{V1}/organizations/{organization}/invoices/{invoice.number}",
        f"{V1}/organizations/{organization}/invoices/{invoice.number}/pdf",
    ]


@pytest.mark.usefixtures("_still")
def test_pages_files_and_answers_stay_as_they_were(
    spent: Workspace, month: date, alice: User, as_olga: Actor, tmp_path: Path
) -> None:
    client = Client()
    client.force_login(alice)

    def seen() -> dict[str, tuple[int, bytes]]:
        answers = {url: client.get(url) for url in addresses(month, spent)}
        return {url: (each.status_code, FRESH.sub(b"", each.getvalue())) for url, each in answers.items()}

    known = seen()
    assert {url: status for url, (status, _) in known.items() if status != 200} == {}
    by_type = next(body for url, (_, body) in known.items() if url.endswith("by=type"))
    assert b"Used of what was held" in by_type
    for each in (month_previous(month), month):
        month_finish(actor=as_olga, month=each)
    assert seen() == known
    call_command("usage_archive", str(tmp_path))
    assert UsageInterval.objects.count() == 1  # storage that was held into the next month
    assert seen() == known
    gone = client.get(f"{reverse('frontend:usage_csv', args=[spent.project.slug])}?month={month:%Y-%m}")
    assert gone.status_code == 409
    assert f"usage-{month:%Y-%m}-1.parquet" in gone.content.decode()
    answer = client.get(f"{V1}/projects/{spent.project.slug}/costs/intervals?month={month:%Y-%m}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")

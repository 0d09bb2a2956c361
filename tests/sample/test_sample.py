"""The sample data: what is written hangs together, is the same again, and is not written where it would be in the way."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import Count, F, Q

from billing.selectors import statement
from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.sample.services import Size, sample_fill
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit
from quotas.selectors import counters_mismatches
from tenants.actors import SYSTEM
from tenants.models import Organization, Project

pytestmark = pytest.mark.django_db
UNTIL = datetime(2026, 11, 1, tzinfo=UTC)
SMALL = Size(projects=20, holders=200, sites=2, pods=3)


def test_what_is_written_hangs_together() -> None:
    sample_fill(size=SMALL, until=UNTIL)
    assert (Organization.objects.count(), Project.objects.count(), Workspace.objects.count()) == (2, 20, 200)
    assert counters_mismatches() == []
    assert Limit.objects.filter(project__isnull=False, used__gt=0).exists()
    assert held_sync(now=UNTIL) == 0
    live = Workspace.objects.filter(state="ready")
    assert 0 < live.count() < 60
    assert UsageInterval.objects.filter(ended_at=None).count() == 4 * live.count()
    outside = Q(started_at__lt=F("workspace__created_at")) | Q(ended_at__gt=F("workspace__deleted_at"))
    assert not UsageInterval.objects.filter(outside).exists()
    pods = UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED)
    assert pods.count() > 2.5 * 200
    largest = Project.objects.annotate(count=Count("workspaces")).order_by("-count")[0]
    assert largest.slug == "sample-000001"


def test_its_usage_has_prices() -> None:
    sample_fill(size=SMALL, until=UNTIL)
    project = Project.objects.get(slug="sample-000001")
    found = statement(actor=SYSTEM, organization=project.organization, month=date(2026, 9, 1))
    assert {line.status for line in found.lines if line.meter == Meter.GPU_HELD} == {"billed"}


def rows() -> list[tuple[Any, ...]]:
    """All that usage is, but for the number of the holding."""
    said = UsageInterval.objects.order_by("pk").values_list(
        "pk", "project", "meter", "quantity", "started_at", "ended_at"
    )
    return list(said)


def test_the_same_seed_makes_the_same_rows() -> None:
    made = []
    for seed in (1, 1, 2):
        with transaction.atomic():
            sample_fill(size=SMALL, until=UNTIL, seed=seed)
            made.append(rows())
            transaction.set_rollback(True)
    assert made[0] == made[1] != made[2]


def test_it_is_refused_where_somebody_is(organization: Organization) -> None:
    with pytest.raises(Conflict, match="tenants or sites"):
        sample_fill(size=SMALL, until=UNTIL)
    sample_fill(size=SMALL, until=UNTIL, beside=True)
    with pytest.raises(Conflict, match="there already"):
        sample_fill(size=SMALL, until=UNTIL, beside=True)


def test_production_has_to_be_named(settings: Any) -> None:
    settings.REFUSE_UNSAFE = True
    with pytest.raises(Forbidden):
        sample_fill(size=SMALL, until=UNTIL)
    words = ["--projects=10", "--holders=20", "--sites=1", "--pods=1", "--until=2026-11-01T00:00:00+00:00"]
    with pytest.raises(CommandError, match="production"):
        call_command("sample_data", *words)
    assert not Organization.objects.exists()
    call_command("sample_data", *words, "--in-production", "--random-seed=7", verbosity=0)
    assert Workspace.objects.count() == 20

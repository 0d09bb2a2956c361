"""The audit finds nothing where all is well, and each kind of damage by its own words."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxQuota
from gpuaas.workspaces.models import Operation, Workspace
from quotas.models import Limit, Reservation
from tenants.actors import Actor
from tenants.models import Project
from tests.apart import each_apart
from tests.reliability import audit
from tests.workspaces.stage import ready


def orphan_make() -> None:
    SandboxNamespace.objects.create(site_id=_space().site_id, name="left", owner=uuid.uuid4())


def count_twice() -> None:
    row = UsageInterval.objects.filter(meter="gpu_held").get()
    row.pk, row.consumer_uid = uuid.uuid4(), "again"
    row.save(force_insert=True)


def claim_keep() -> None:
    Workspace.objects.update(claim_token=uuid.uuid4(), claim_until=clock.now() + timedelta(seconds=60))


def _space() -> SandboxNamespace:
    return SandboxNamespace.objects.get()


DAMAGE: dict[str, tuple[Callable[[], Any], str]] = {
    "lost": (lambda: Workspace.objects.update(name="other"), "is ('weather-lm', 'other')"),
    "state": (lambda: Workspace.objects.update(state="suspended"), "is suspended, not ready"),
    "operation": (lambda: Operation.objects.update(finished_at=None), "open: "),
    "failed": (lambda: Operation.objects.update(succeeded=False), "not succeeded: "),
    "overtaken": (lambda: Operation.objects.update(succeeded=None), "overtaken by nothing: "),
    "claim": (claim_keep, "claimed: Workspace"),
    "orphan": (orphan_make, "left at the site is an orphan"),
    "missing": (lambda: _space().delete(), "has no namespace"),
    "quota": (
        lambda: SandboxQuota.objects.filter(resource="nvidia.com/gpu").update(hard=7),
        "has a quota of 7",
    ),
    "counter": (lambda: Limit.objects.filter(resource="vcpu").update(used=F("used") + 1), "counter: "),
    "reservation": (
        lambda: Reservation.objects.filter(resource__startswith="gpu:").delete(),
        "has 0 GPUs reserved, not 2",
    ),
    "usage": (lambda: UsageInterval.objects.filter(meter="gpu_held").delete(), "is None, held (2, "),
    "gap": (
        lambda: UsageInterval.objects.update(started_at=F("started_at") + timedelta(seconds=1)),
        "held (2, ",
    ),
    "doubled": (count_twice, "is counted twice"),
}


@pytest.mark.django_db
def test_each_damage_is_named(
    site: Site, project: Project, as_alice: Actor, subtests: pytest.Subtests
) -> None:
    row = ready(as_alice, project, site)
    held_sync()
    expected = [{"id": str(row.pk), "project": project.slug, "name": row.name, "end": "ready"}]

    def found() -> list[str]:
        return [*audit.never(expected), *audit.wrong(expected)]

    assert found() == []
    # by a process whose clock was ahead
    later, at = uuid.UUID(int=2**128 - 1), clock.now()
    overtaken = row.operations.create(
        pk=later, kind="create", requested_by="alice", requested_at=at, finished_at=at
    )
    assert found() == []
    overtaken.delete()

    def check(damage: Callable[[], Any], words: str) -> None:
        damage()
        assert any(words in one for one in found()), found()

    each_apart(subtests, DAMAGE.items(), check)

"""The meter of a restored portal begins at an older watermark: what it writes is what the lost portal had written."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from billing.services import rate_set
from gpuaas.backup.services import backup_make, restore
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_create, pod_delete
from tenants.actors import Actor
from tenants.models import Project
from tests.backup.stage import elsewhere, metered, rated, site_carry
from tests.billing.stage import utc
from tests.clusters.stage import stocked
from tests.workspaces.stage import ready

pytestmark = pytest.mark.django_db(transaction=True)


def written(pod: SandboxPod, *, ended: bool = False) -> Callable[[], bool]:
    rows = UsageInterval.objects.filter(consumer_uid=str(pod.uid), ended_at__isnull=not ended)
    return rows.exists


def intervals() -> list[tuple[object, ...]]:
    columns = (
        "consumer_uid",
        "resource_name",
        "meter",
        "quantity",
        "started_at",
        "ended_at",
        "project",
        "flavor",
    )
    return sorted(UsageInterval.objects.values_list(*columns), key=repr)


def test_nothing_is_counted_twice_or_lost(
    folder: Path,
    tmp_path: Path,
    empty: str,
    as_alice: Actor,
    as_olga: Actor,
    project: Project,
    site: Site,
    h100: Flavor,
) -> None:
    """One pod ended since the backup, one began and ended, one runs."""
    for meter in (Meter.GPU_HELD, Meter.GPU_ALLOCATED):
        rate_set(actor=as_olga, flavor=h100, meter=meter, price="2.40", valid_from=utc("2026-01-01"))
    stocked(site)
    room = ready(as_alice, project, site, name="kept", h100s=4).external_name
    held_sync()
    first = pod_create(site.pk, room, "first", 1)
    with metered(written(first)):
        pass
    path = backup_make(folder=folder)
    second, third = pod_create(site.pk, room, "second", 1), pod_create(site.pk, room, "third", 2)
    with metered(written(third)):
        for pod in (first, second):
            pod_delete(site.pk, room, pod.name)
    until = clock.now()
    lost, owed = intervals(), rated(until)
    assert written(first, ended=True)()
    assert written(second, ended=True)()
    assert owed
    with elsewhere(empty):
        restore(path=path)
        assert intervals() != lost
    site_carry(str(connection.settings_dict["NAME"]), empty, tmp_path / "site.sql")
    with elsewhere(empty):
        with metered(written(third)):
            pass
        assert intervals() == lost
        assert rated(until) == owed

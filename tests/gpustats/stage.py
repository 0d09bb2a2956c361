"""Readings of an exporter, kept as the round keeps them."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from gpuaas.catalog.models import Flavor, Node, Site, SiteReadings
from gpuaas.core import clock
from gpuaas.gpustats import services
from gpuaas.providers.base import DeviceReading
from gpuaas.workspaces.models import Workspace

MINUTE = timedelta(minutes=1)


def node_make(flavor: Flavor, name: str = "h100-01", devices: int = 8) -> Node:
    return Node.objects.create(
        site=flavor.pool.site, pool=flavor.pool, name=name, capacity=devices, observed_at=clock.now()
    )


def reading(workspace: Workspace | None = None, **fields: object) -> DeviceReading:
    """An H100 at work, for a pod of the workspace."""
    made = DeviceReading(
        node="h100-01",
        device="GPU-0",
        index="0",
        product="NVIDIA H100 80GB HBM3",
        namespace=workspace.external_name if workspace else "",
        pod="train-0" if workspace else "",
        container="main" if workspace else "",
        utilization=80.0,
        memory_used_mib=60_000,
        memory_free_mib=20_000,
        power_watts=600.0,
        temperature=60,
        energy_mj=1_000_000,
        nvlink=0,
        xid=0,
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # names of its fields


def leave(site: Site, at: datetime, *readings: DeviceReading) -> None:
    """As the round of health leaves them."""
    SiteReadings.objects.update_or_create(
        pk=site.pk,
        defaults={
            "at": clock.whole_second(at),
            "devices": [asdict(each) for each in readings],
            "due_at": clock.now(),
        },
    )


def keep(site: Site, at: datetime, *readings: DeviceReading) -> bool:
    leave(site, at, *readings)
    return services.readings_keep(site.pk)


def keep_all(
    workspace: Workspace,
    starts_at: datetime,
    minutes: int,
    readings: Iterable[DeviceReading],
    *,
    watts: int = 600,
) -> None:
    """The same each minute, while their counters of energy rise."""
    told = list(readings)
    for number in range(minutes + 1):
        energy = 1_000_000 + number * watts * 60 * 1000
        keep(workspace.site, starts_at + number * MINUTE, *(replace(each, energy_mj=energy) for each in told))

"""Holdings: what is held from when to when; opened and rotated when the site has confirmed, ended at the end."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import models
from django.db.models import Q, QuerySet

from gpuaas.catalog.models import Flavor
from gpuaas.core.clock import whole_second
from gpuaas.core.queue import poke

GPU_HELD, VCPU_HELD, MEMORY_HELD, STORAGE_HELD = "gpu_held", "vcpu_held", "memory_held", "storage_held"


class HoldingRow(models.Model):
    """Held over [started_at, ended_at), in whole seconds, UTC. meter: `gpu_held` counts devices of the flavor, the
    others vCPUs and GiB without a flavor. The concrete model adds the holder, and one open row of each."""

    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    meter = models.CharField(max_length=32)
    quantity = models.PositiveBigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ["pk"]


def ends_after(name: str) -> models.CheckConstraint:
    condition = Q(ended_at__isnull=True) | Q(ended_at__gte=models.F("started_at"))
    return models.CheckConstraint(condition=condition, name=name)


RowT = TypeVar("RowT", bound=HoldingRow)


def holdings_rotate(
    rows: QuerySet[RowT], columns: tuple[str, ...], wanted: Counter[Any], *, at: datetime, **owner: Any
) -> None:
    """From `at` on exactly `wanted`, by the values of `columns`; equal rows stay open, so an unchanged flavor is one
    long interval. owner: the columns of a new row that name the holder."""
    moment, ended = whole_second(at), []
    for row in rows.filter(ended_at__isnull=True):
        key = tuple(getattr(row, column) for column in columns)
        if wanted[key] == row.quantity:
            del wanted[key]
        else:
            ended.append(row)
    begun = [
        rows.model(**owner, **dict(zip(columns, key, strict=True)), quantity=quantity, started_at=moment)
        for key, quantity in wanted.items()
        if quantity
    ]
    holdings_write(ended, begun, moment)


def holdings_close(rows: QuerySet[RowT], *, at: datetime) -> None:
    """Ends the open ones of `rows`."""
    holdings_write(list(rows.filter(ended_at__isnull=True)), [], whole_second(at))


def holdings_write(ended: Sequence[RowT], begun: Sequence[RowT], moment: datetime) -> None:
    """Updates costs at once; if the poke is lost, the meter's own round finds the rows."""
    for row in ended:
        row.ended_at = max(moment, row.started_at)
        row.save(update_fields=["ended_at"])
    if begun:
        type(begun[0])._default_manager.bulk_create(begun)
    if ended or begun:
        poke("metering.held_sync")

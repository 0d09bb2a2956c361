"""Made-up data of a large provider, by a few statements of SQL: the same rows from the same random seed and instant."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from gpuaas.catalog.models import Site
from gpuaas.core.clock import whole_second
from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.core.sql import sql_read
from gpuaas.providers.registry import site_kinds
from tenants.models import Organization

SQL = Path(__file__).with_name("sql")
PIECE = 10_000  # holders of one statement: bounds what triggers keep in memory
YEAR = timedelta(days=365)
MARK = "sample-"  # what every slug begins with


@dataclass(frozen=True)
class Size:
    """How much there is. pods: intervals of running pods for each holder, beside the four that it held."""

    projects: int = 10_000
    holders: int = 100_000
    sites: int = 50
    pods: int = 20


def sample_fill(
    *,
    size: Size,
    until: datetime,
    seed: int = 1,
    beside: bool = False,
    in_production: bool = False,
    report: Callable[[str], object] = str,
) -> None:
    """A year of usage that ends at `until`, all or nothing; sums of past usage and invoices are left to the portal.

    Simulated sites; the people cannot sign in. beside: also where there are tenants or sites already. Raises
    Conflict if there are and it is not set, or if sample data is there; Forbidden in production without in_production.
    """
    if getattr(settings, "REFUSE_UNSAFE", False) and not in_production:
        raise Forbidden("this is a production portal: sample data cannot be taken out of it again")
    asked = _asked(size, whole_second(until), seed)
    with transaction.atomic(), connection.cursor() as cursor:
        _refuse(beside=beside)
        for name in ("functions", "tenants", "catalog"):
            cursor.execute(sql_read(SQL, name), asked)
            report(name)
        for first in range(1, size.holders + 1, PIECE):
            last = min(first + PIECE - 1, size.holders)
            cursor.execute(sql_read(SQL, "holders"), {**asked, "first": first, "last": last})
            report(f"holders {last:,} of {size.holders:,}")
        cursor.execute(sql_read(SQL, "counters"), asked)
        report("counters")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _asked(size: Size, until: datetime, seed: int) -> dict[str, Any]:
    return {
        "projects": size.projects,
        "sites": size.sites,
        "pods": size.pods,
        # of a pool, three times what is held on average: of the year 20 days, by 3.4 GPUs
        "nodes": max(8, size.holders // size.sites // 60),
        "since": until - YEAR,
        "until": until,
        "seed": seed,
        "currency": settings.CURRENCY,
        "driver": next(kind.name for kind in site_kinds() if kind.simulated),
    }


def _refuse(*, beside: bool) -> None:
    if Organization.objects.filter(slug__startswith=MARK).exists():
        raise Conflict("sample data is there already")
    if not beside and (Organization.objects.exists() or Site.objects.exists()):
        raise Conflict("this database has tenants or sites: empty it, or ask for sample data beside them")

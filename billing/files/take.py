"""Imports the usage of a file into the portal, all or nothing, as a batch; and takes a batch back."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.db import connection, transaction

from billing.files.rate import Refused
from billing.files.rows import BadRow, usage_read
from billing.models import MonthClose
from billing.months import month_of, month_span, months_between
from billing.states import CloseState
from billing.tariffs import sql_text
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.metering import imports
from gpuaas.metering.final import final_until
from gpuaas.metering.import_progress import Tell, counted, import_told
from gpuaas.metering.imports import Imported, Overlap, import_problems, import_stage, import_write
from gpuaas.metering.models import ImportStep, UsageImport
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import platform_require

NAME_MOST = 60  # characters of a file's name, so that its bytes fit a file system
ONLINE = 100_000  # intervals that are taken back within a web request


def file_name(sent: str) -> str:
    """The file's own name, of which only what can be printed is kept, and its last NAME_MOST characters; usage.csv without one."""
    name = "".join(each for each in re.split(r"[/\\]", sent)[-1] if each.isprintable())[-NAME_MOST:].strip()
    return name if name.strip(".") else "usage.csv"


@contextmanager
def usage_file(pieces: Iterable[bytes], name: str = "") -> Iterator[Path]:
    """What was sent, as a file of its own name that is gone afterwards."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / file_name(name)
        with path.open("wb") as file:
            file.writelines(pieces)
        yield path


@transaction.atomic
def files_import(
    *,
    actor: Actor,
    usage: Path,
    name: str = "",
    overlaps: Collection[Overlap] = (),
    reopen: bool = False,
    check: bool = False,
    now: datetime | None = None,
) -> Imported:
    """Creates a batch of intervals from the rows of `usage`, all or nothing; with `check` only reports what would be
    done. Repeating it, at once or later, imports nothing twice.

    Rows that were imported before do not change. What would be counted twice is refused unless it is of the kinds
    `overlaps`; so are months that are long closed or before all others, unless `reopen`. Usage in a closed month
    becomes a correction on the next invoice, like all late usage. Raises Refused with every bad row, Invalid on
    `name`, OSError for a file that cannot be read.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    moment = now or clock.now()
    with import_told(file=usage.name, by=actor.name) as tell:
        count = _staged(usage, moment, tell)
        tell(ImportStep.COMPARE, count)
        _sure(usage, overlaps=overlaps, reopen=reopen, now=moment)
        tell(ImportStep.WRITE, count)
        done = import_write(actor=actor, rows=count, source=usage.name, name=name, now=moment)
        batch = done.batch
        if batch is None:
            return done
        tell(ImportStep.SUM, count)
        months = months_between(batch.starts_at, batch.ends_at)
        spans = [(span.day, span.starts_at, span.ends_at) for span in map(month_span, months)]
        done = replace(done, sums=imports.import_sums(batch=batch, spans=spans, now=moment))
        if check:
            transaction.set_rollback(True)
        else:
            _commit(batch)
    return done


def _sure(usage: Path, *, overlaps: Collection[Overlap], reopen: bool, now: datetime) -> None:
    """Raises Refused with the rows that are asked about."""
    twice = [
        BadRow(usage.name, line, words)
        for line, _, words in imports.import_overlaps(now=now, allowed=overlaps)
    ]
    early = [] if reopen else [BadRow(usage.name, line, words) for line, words in _early(now)]
    if twice or early:
        raise Refused(sorted([*twice, *early]), overlaps=len(twice), early=len(early))


def _staged(usage: Path, now: datetime, tell: Tell) -> int:
    bad: list[BadRow] = []
    count = import_stage(rows=counted(usage_read(usage, bad), tell))
    bad += [BadRow(usage.name, line, problem) for line, problem in import_problems(now=now)]
    if bad:
        raise Refused(sorted(bad))
    return count


def _early(now: datetime) -> Iterator[tuple[int, str]]:
    """Months of new rows, by their first line, that nobody expects to change any more: those before the last closed
    one, or where none is closed, before the last twelve."""
    closed = _closed()
    running = month_of(now)
    floor = max(closed) if closed else running.replace(year=running.year - 1)
    found = imports.import_early(zone=settings.BILLING_TIME_ZONE, floor=month_span(floor).starts_at)
    for month, line, count in found:
        rows = f"{count} rows from here on start" if count > 1 else "this row starts"
        if month in closed:
            words = f"was closed before {floor:%B %Y} and would be corrected on the next invoice"
        elif closed:
            words = f"is before the first closed month, {min(closed):%B %Y}, and would have to be closed next"
        else:
            words = "is more than a year ago and would be the first month to close"
        yield line, f"{rows} in {month:%B %Y}, which {words}"


def _commit(batch: UsageImport) -> None:
    """No close, and no month that becomes final, while this commits: one that comes later has counted all of it."""
    imports.closes_wait()
    final = final_until()
    if final is not None and batch.starts_at < final:
        raise Conflict("a month of this usage became final meanwhile; import the file again to see which")
    batch.closed_months = sorted(map(str, _closed()))
    batch.save(update_fields=["closed_months"])


def _closed() -> set[date]:
    return set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))


@transaction.atomic
def import_take_back(
    *, actor: Actor, batch: UsageImport, online: bool = False, now: datetime | None = None
) -> UsageImport:
    """Deletes all usage of a batch; repeating it changes nothing. The batch and its sums stay as a record.

    Raises Conflict if an invoice rests on it, naming it, or a close is under way; `online`, also if the batch is too
    large for a web request.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    imports.imports_lock()
    row = UsageImport.objects.select_for_update().get(pk=batch.pk)
    if row.taken_back_at is not None:
        return row
    if online and row.intervals > ONLINE:
        raise Conflict(
            f"{row.name} has {row.intervals:,} intervals. More than {ONLINE:,} are taken back by gpuaas-portal usage_import "
            f"--take-back"
        )
    if not imports.closes_try():
        raise Conflict("a close is under way; wait until it is done")
    obstacle = take_back_obstacle(batch=row)
    if obstacle:
        raise Conflict(f"{row.name} cannot be taken back: {obstacle}")
    imports.import_remove(actor=actor, batch=row, now=now or clock.now())
    return row


def take_back_obstacle(*, batch: UsageImport) -> str:
    """Why a batch has to stay, with the invoices that charge it; empty if nothing is in the way."""
    final = final_until()
    if final is not None and batch.starts_at < final:
        return "it has usage of a month that is final"
    found = invoices_of(batch=batch)
    if not found:
        return ""
    return f"{', '.join(found)} rest{'s' if len(found) == 1 else ''} on it. Correct what was invoiced by credit notes"


def invoices_of(*, batch: UsageImport, most: int = 5) -> list[str]:
    """Numbers of the first invoices that charge usage of a batch."""
    with connection.cursor() as cursor:
        parameters = {
            "batch": batch.pk,
            "closed": batch.closed_months,
            "zone": settings.BILLING_TIME_ZONE,
            "most": most,
        }
        cursor.execute(sql_text("import_invoices"), parameters)
        return [number for (number,) in cursor.fetchall()]

"""Takes the usage of a file into the portal: all of it or nothing."""

from datetime import datetime
from pathlib import Path

from django.db import transaction

from billing.files.rate import Refused
from billing.files.rows import BadRow, usage_read
from gpuaas.core import clock
from gpuaas.metering.imports import Imported, import_problems, import_stage, import_write
from tenants.actors import Actor


@transaction.atomic
def files_import(*, actor: Actor, usage: Path, check: bool = False, now: datetime | None = None) -> Imported:
    """Make intervals of the rows of `usage`, whole or not at all; with `check` only say what would be done.

    Rows that were taken in before stay as they are. What lies in a month that is closed is a correction on the next
    invoice, as all that comes late. Raises Refused with every bad row, OSError for a file that cannot be read.
    """
    bad: list[BadRow] = []
    count = import_stage(rows=usage_read(usage, bad))
    bad += [BadRow(usage.name, line, problem) for line, problem in import_problems(now=now or clock.now())]
    if bad:
        raise Refused(sorted(bad))
    done, problems = import_write(actor=actor, rows=count, source=usage.name)
    if problems:
        raise Refused(sorted(BadRow(usage.name, line, problem) for line, problem in problems))
    transaction.set_rollback(check)
    return done

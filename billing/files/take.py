"""Imports the usage of a file into the portal, all or nothing."""

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
    """Creates intervals from the rows of `usage`, all or nothing; with `check` only reports what would be done.

    Rows that were imported before do not change. Usage in a closed month becomes a correction on the next invoice,
    like all late usage. Raises Refused with every bad row, OSError for a file that cannot be read.
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

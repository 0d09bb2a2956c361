"""Rates two files with the SQL that rates the portal: they are copied into temporary tables, which end with the
transaction."""

import secrets
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction

from billing.files.rows import BadRow, Doubts, Row, rates_read, usage_read
from billing.money import amount_of, charge_divisor, price_of
from billing.months import Span, month_span
from billing.tariffs import sql_of, sql_text
from gpuaas.core.csv_cells import csv_cell
from gpuaas.core.errors import Invalid

TOLD = 100  # rows that an answer names
LINES = ("project", "flavor", "meter", "price_class", "price", "unit_seconds", "amount")
COPY = {
    "file_usage": "COPY file_usage FROM STDIN",
    "file_rate": "COPY file_rate FROM STDIN",
}


class Refused(Invalid):
    """Nothing was written; `rows` contains the reasons, in the order of the files. overlaps, early: how many of them
    are questions, which whoever imports may answer."""

    def __init__(self, rows: Sequence[BadRow], *, overlaps: int = 0, early: int = 0) -> None:
        texts = [str(row) for row in rows[:TOLD]]
        if len(rows) > TOLD:
            texts.append(f"{len(rows) - TOLD} more rows are refused")
        many = len(rows) != 1
        words = f"{len(rows)} row{'s are' if many else ' is'} refused{'; the first is' if many else ':'} {rows[0]}"
        super().__init__(words, fields={"usage": texts})
        self.detail |= {"rows": len(rows), "overlaps": overlaps, "early_months": early}
        self.rows, self.overlaps, self.early = rows, overlaps, early


@transaction.atomic
def files_rate(*, usage: Path, rates: Path, zone: ZoneInfo, currency: str, month: date, out: Path) -> int:
    """Writes the invoice lines of `month` (in `zone`) to `out`, all or nothing; returns how many.

    Usage outside the month is not rated; usage inside must be covered by rates. Raises Refused with every bad row of
    both files, OSError for files that cannot be read or written. No table of the portal is read or changed.
    """
    span = month_span(month, zone)
    bad: list[BadRow] = []
    doubts = Doubts()
    with connection.cursor() as cursor:
        cursor.execute(sql_text("files_tables"))
        _copy(cursor, "file_rate", rates_read(rates, bad, doubts))
        _copy(cursor, "file_usage", usage_read(usage, bad))
        bad += _checked(cursor, span, doubts, {"usage": usage.name, "rates": rates.name})
        if bad:
            raise Refused(sorted(bad))
        lines = _lines(cursor, span, currency)
    _write(out, lines)
    return len(lines)


def _copy(cursor: Any, table: str, rows: Iterator[Row]) -> None:
    with cursor.copy(COPY[table]) as copy:
        for row in rows:
            copy.write_row(row)
    cursor.execute(f"ANALYZE {table}")


def _checked(cursor: Any, span: Span, doubts: Doubts, names: dict[str, str]) -> Iterator[BadRow]:
    keys = sorted(doubts.keys)
    parameters = {
        "starts_at": span.starts_at,
        "ends_at": span.ends_at,
        "doubt_all": doubts.all,
        "flavors": [flavor for flavor, _, _ in keys],
        "meters": [meter for _, meter, _ in keys],
        "classes": [price_class for _, _, price_class in keys],
    }
    cursor.execute(sql_text("files_checks"), parameters)
    for file, line, problem in cursor.fetchall():
        yield BadRow(names[file], line, problem)


def _lines(cursor: Any, span: Span, currency: str) -> list[tuple[Any, ...]]:
    parameters = {
        "month": span.day,
        "starts_at": span.starts_at,
        "ends_at": span.ends_at,
        "by_holder": False,
        "divisor": charge_divisor(currency),
    }
    cursor.execute(
        sql_of("files_source", "price", "counted", "graduated", "volume", "cells", "not_invoiced", "lines")
        + sql_text("files_rated"),
        parameters,
    )
    return [
        (*names, price_of(int(micro)), int(seconds), amount_of(int(minor), currency))
        for *names, micro, seconds, minor in cursor.fetchall()
    ]


def _write(out: Path, lines: Sequence[tuple[Any, ...]]) -> None:
    """Written to a temporary file first: a reader of `out` sees the old file or the new one, never a part."""
    half = out.parent / f".rate-{secrets.token_hex(8)}"
    try:
        with half.open("x", encoding="utf-8", newline="") as file:
            file.writelines(",".join(map(csv_cell, cells)) + "\n" for cells in (LINES, *lines))
        half.replace(out)
    except OSError as error:
        raise OSError(f"{out} cannot be written: {error.strerror}") from error
    finally:
        half.unlink(missing_ok=True)

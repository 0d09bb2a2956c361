"""FOCUS rows as files, in pieces; only one piece is in memory."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from billing.focus.records import COLUMNS, Kind, Value

Row = tuple[Value, ...]
CSV_ROWS = 1000
PARQUET_ROWS = 10_000  # of a row group
# 38 digits, 18 of them after the point: twelve of hours times six of a price
DECIMAL = pa.decimal128(38, 18)
TYPES = {Kind.TEXT: pa.string(), Kind.NUMBER: DECIMAL, Kind.TIME: pa.timestamp("ms", tz="UTC")}
SCHEMA = pa.schema([(column.name, TYPES[column.kind]) for column in COLUMNS])


def focus_csv(rows: Iterator[Row]) -> Iterator[bytes]:
    """RFC 4180 with a header; null is an empty cell, times are ISO 8601 in UTC, numbers plain decimals."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.name for column in COLUMNS])
    while True:
        piece = list(islice(rows, CSV_ROWS))
        writer.writerows([_cell(value) for value in row] for row in piece)
        yield buffer.getvalue().encode()
        if len(piece) < CSV_ROWS:
            return
        buffer.seek(0)
        buffer.truncate()


def focus_parquet(rows: Iterator[Row]) -> Iterator[bytes]:
    """Decimals as decimal128, times as UTC timestamps; one row group per piece."""
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), SCHEMA, compression="zstd") as writer:
        while piece := list(islice(rows, PARQUET_ROWS)):
            writer.write_batch(_batch(piece))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Passes on what is written; counts only the length."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]  # whatever buffer Arrow hands over
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _batch(piece: list[Row]) -> pa.RecordBatch:
    columns = zip(*piece, strict=True)
    return pa.record_batch(
        [pa.array(values, type=field.type) for values, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value

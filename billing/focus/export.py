"""FOCUS rows as files, in pieces; only one piece is in memory."""

import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from billing.focus.records import COLUMNS, Kind, Value
from gpuaas.core.csv_cells import csv_cell

Row = tuple[Value, ...]
CSV_ROWS = 1000
PARQUET_ROWS = 10_000  # of a row group
# 38 digits, 18 of them after the point: twelve of hours times six of a price
DECIMAL = pa.decimal128(38, 18)
TYPES = {
    Kind.TEXT: pa.string(),
    Kind.NUMBER: DECIMAL,
    Kind.TIME: pa.timestamp("ms", tz="UTC"),
    Kind.FLAG: pa.bool_(),
}
SCHEMA = pa.schema([(column.name, TYPES[column.kind]) for column in COLUMNS])


def focus_csv(rows: Iterator[Row]) -> Iterator[bytes]:
    """RFC 4180 with a header; null is an empty cell, times are ISO 8601 in UTC, numbers decimals with a point."""
    yield _line(column.name for column in COLUMNS)
    while piece := list(islice(rows, CSV_ROWS)):
        yield b"".join(_line(map(_cell, row)) for row in piece)


def _line(cells: Iterable[str]) -> bytes:
    return (",".join(cells) + "\n").encode()


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
    """Without the point a file of whole amounts has integers, which FOCUS is not allowed to have."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Decimal) and "." not in (digits := f"{value:f}"):
        return f"{digits}.0"
    return csv_cell(value)

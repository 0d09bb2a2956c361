"""Cells of CSV files: text stays text for every reader, nothing is a formula, and what was written can be read back."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.core.csv_cells import csv_cell
from tests.hostile import NAMES, SLUGS, formula_in, unquoted

PARTS = st.sampled_from([*NAMES, *"0179+-.eETZ:/ aN_,%'\"=@\t;#\r\n", "\u202e"])
TEXTS = st.lists(PARTS, min_size=1, max_size=5).map("".join)


def type_of(text: str) -> pa.DataType:
    file = f"name,other\n{csv_cell(text)},x\n".encode()
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(io.BytesIO(file), parse_options=parsing).schema.field("name").type


@pytest.mark.parametrize("text", [*NAMES, *SLUGS])
def test_text_is_text(text: str) -> None:
    ((cell, other),) = csv.reader(io.StringIO(f"{csv_cell(text)},x\n", newline=""))
    assert (unquoted(cell), other) == (text, "x")
    assert not formula_in(cell)
    assert type_of(text) == pa.string()


@given(text=TEXTS)
def test_whatever_the_text_is(text: str) -> None:
    ((cell, _),) = csv.reader(io.StringIO(f"{csv_cell(text)},x\n", newline=""))
    assert unquoted(cell) == text
    assert not formula_in(cell)
    assert type_of(text) == pa.string()


@pytest.mark.parametrize(
    "text",
    ["Weather LM", "weather-lm", "4410-07", "h100.1/gpu_held", "3com", "2026-10", "zete", "none of it"],
)
def test_what_nobody_misreads_is_as_it_is(text: str) -> None:
    assert csv_cell(text) == text


def test_what_is_no_text_is_written_plainly() -> None:
    cells = (None, True, 5, Decimal("-0.000001"), Decimal("2.4E+2"), datetime(2026, 10, 1, 2, tzinfo=UTC))
    assert [csv_cell(value) for value in cells] == [
        *("", "true", "5", "-0.000001", "240"),
        "2026-10-01T02:00:00+00:00",
    ]

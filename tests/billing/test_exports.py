"""Every CSV of the portal with hostile names, in currencies of 0, 2 and 3 decimals: types hold and no cell is a formula."""

import csv
import io
from collections import Counter
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from django.test import Client

from gpuaas.catalog.models import Flavor
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.exporting import FLAGS, NUMBERS, TIMES, files, hostile_month, rated
from tests.hostile import NAMES, SLUGS, formula_in, unquoted

pytestmark = pytest.mark.django_db
CASES = [
    ("JPY", "4711", "4711"),
    ("JPY", "true", "=cmd|' /C calc'!A0"),
    ("EUR", "2026-01-01", "2026-01-01"),
    ("EUR", "nan", "a;=1+1"),
    ("KWD", "1e5", "\t-1\r\n"),
]


@pytest.mark.parametrize(("currency", "slug", "name"), CASES)
def test_every_address(
    project: Project,
    h100: Flavor,
    alice: User,
    olga: User,
    as_olga: Actor,
    currency: str,
    slug: str,
    name: str,
) -> None:
    hostile_month(project, h100, alice, as_olga, currency=currency, slug=slug, name=name)
    client = Client()
    client.force_login(olga)
    for file, content in files(client, slug).items():
        assert faults(content) == [], file
        rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
        assert rows, file
        told = {unquoted(row.get("project") or row.get("SubAccountId") or slug) for row in rows}
        assert told <= {slug, ""}, file


def test_lines_of_files(tmp_path: Path) -> None:
    for name, currency in zip([*NAMES, *SLUGS], cycle(("JPY", "EUR", "KWD"))):
        content = rated(tmp_path, name, currency)
        assert faults(content) == []
        (line,) = csv.DictReader(io.StringIO(content.decode(), newline=""))
        assert (unquoted(line["project"]), unquoted(line["flavor"])) == (name, name)


def faults(content: bytes) -> list[str]:
    """Columns whose type is another than theirs, names that two columns have, and cells that are formulas."""
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(io.BytesIO(content), parse_options=parsing)
    wrong = [
        f"{name}: {kind}"
        for name, kind in zip(table.column_names, table.schema.types, strict=True)
        if not holds(name, kind)
    ]
    wrong += [f"{name}: twice" for name, number in Counter(table.column_names).items() if number > 1]
    cells = [cell for row in csv.reader(io.StringIO(content.decode(), newline="")) for cell in row]
    return wrong + [cell for cell in cells if formula_in(cell)]


def test_a_name_that_two_columns_have_is_a_fault() -> None:
    assert faults(b"project,project\na,b\n") == ["project: twice"]


def holds(column: str, kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(kind):
        return True
    if column in NUMBERS:
        return bool(types.is_integer(kind) or types.is_floating(kind))
    if column in FLAGS:
        return bool(types.is_boolean(kind))
    return bool(types.is_temporal(kind) if column in TIMES else types.is_string(kind))

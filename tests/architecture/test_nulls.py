"""A key that is missing from a JSON column is NULL in SQL, and so is the NOT of it: a row without the key is in neither half.

So `exclude` and `~Q` may not compare a key's value; they may ask whether the key is there, and select by primary keys.
"""

import ast
from pathlib import Path

import pytest
from django.apps import apps
from django.db.models import JSONField

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("gpuaas", "tenants", "quotas", "billing", "frontend", "deploy")
TOTAL = {"has_key", "has_keys", "has_any_keys", "contains", "contained_by", "isnull", "in", "exact"}


def json_columns() -> set[str]:
    fields = (field for model in apps.get_models() for field in model._meta.get_fields())
    return {field.name for field in fields if isinstance(field, JSONField)}


def paths(call: ast.Call) -> list[str]:
    """The lookups of a call and of the Q in it; also those in a dictionary that it is given."""
    found = []
    for node in ast.walk(call):
        if isinstance(node, ast.keyword) and node.arg:
            found.append(node.arg)
        if isinstance(node, ast.keyword) and node.arg is None and isinstance(node.value, ast.Dict):
            found += [_text(key) for key in node.value.keys if key is not None]
    return found


def _text(key: ast.expr) -> str:
    if isinstance(key, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in key.values)
    return str(key.value) if isinstance(key, ast.Constant) else ""


def negated(tree: ast.AST) -> list[ast.Call]:
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "exclude"
        ):
            found.append(node)
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Invert)
            and isinstance(node.operand, ast.Call)
        ):
            found.append(node.operand)
    return found


def wrong(source: str, columns: set[str]) -> list[str]:
    """Lookups that look into a JSON column in a negation."""
    found = []
    for call in negated(ast.parse(source)):
        for path in paths(call):
            parts = path.split("__")
            at = next((number for number, part in enumerate(parts) if part in columns), None)
            if at is not None and (rest := parts[at + 1 :]) and rest[0] not in TOTAL:
                found.append(path)
    return found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("rows.exclude(conditions__LeaseEnding__reason='x')", 1),
        ("rows.exclude(Q(**{f'conditions__{KIND}__reason': OVER}))", 1),
        ("rows.filter(~Q(row__observed__at__lt=now))", 1),
        ("rows.exclude(conditions__has_key='x')", 0),
        ("rows.filter(conditions__X__reason='x')", 0),
        ("rows.exclude(state='x', pk__in=others)", 0),
    ],
)
def test_it_finds_them(source: str, count: int) -> None:
    assert len(wrong(source, {"conditions", "observed"})) == count


def test_nothing_that_is_left_out_is_told_by_a_key() -> None:
    columns = json_columns()
    assert {"conditions", "observed"} <= columns
    found = {
        f"{path.relative_to(ROOT)}: {lookup}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "node_modules" not in path.parts
        for lookup in wrong(path.read_text("utf-8"), columns)
    }
    assert found == set()

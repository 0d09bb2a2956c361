"""No migration takes from a running release what it needs; each rule is tried with a migration that it refuses."""

from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from tests.architecture.migrations import forgotten_by, new_migrations, refusals, released

pytestmark = pytest.mark.django_db
M = migrations
COLUMN = 'ALTER TABLE "toy_thing" DROP COLUMN "size" CASCADE'


def test_new_migrations_leave_the_running_release_what_it_needs() -> None:
    loader = MigrationLoader(connection)
    before = {
        row: loader.project_state((row.app_label, row.name), at_end=False) for row in new_migrations(loader)
    }
    old = [row for row in loader.disk_migrations.values() if f"{row.app_label}.{row.name}" in released()]
    separate = [
        (row, loader.project_state((row.app_label, row.name), at_end=False))
        for row in old
        if any(isinstance(each, M.SeparateDatabaseAndState) for each in row.operations)
    ]
    forgotten = forgotten_by(separate)
    written = {name.partition(".")[0] for name in released()}
    found = {
        f"{row.app_label}.{row.name}": refusals(row, state, forgotten, unwritten=row.app_label not in written)
        for row, state in before.items()
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_released_migrations_stay() -> None:
    names = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
    assert released() <= names


def toy() -> ProjectState:
    state = ProjectState()
    fields: list[tuple[str, models.Field[Any, Any]]] = [
        ("id", models.BigAutoField(primary_key=True)),
        ("name", models.CharField(max_length=20)),
        ("size", models.IntegerField(null=True)),
    ]
    state.add_model(ModelState("toy", "Thing", fields))
    return state


def made(*operations: Operation, atomic: bool = True) -> migrations.Migration:
    kind = type("Migration", (migrations.Migration,), {"operations": list(operations), "atomic": atomic})
    found: migrations.Migration = kind("0002_made_up", "toy")
    return found


def number(**more: object) -> "models.IntegerField[int, int]":
    return models.IntegerField(**more)  # type: ignore[arg-type]


def rows_change(apps: object, schema_editor: object) -> None:
    """Stands for any change of rows."""


STATE_ONLY = M.SeparateDatabaseAndState(state_operations=[M.RemoveField("thing", "size")])
WRITE = M.RunPython(rows_change, M.RunPython.noop)


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([M.RemoveField("thing", "size")], "DROP_COLUMN toy_thing.size"),
        ([M.DeleteModel("Thing")], "DROP_TABLE toy_thing"),
        ([M.RenameField("thing", "size", "length")], "RENAME_COLUMN toy_thing"),
        ([M.RenameModel("Thing", "Part")], "RENAME_TABLE toy_thing"),
        ([M.AddField("thing", "count", number(default=0))], "NOT_NULL"),
        ([M.AlterField("thing", "size", number())], "NOT_NULL"),
        ([M.AlterField("thing", "size", models.CharField(max_length=9, null=True))], "ALTER_COLUMN"),
        ([M.AlterField("thing", "name", models.CharField(max_length=20, unique=True))], "ADD_UNIQUE"),
        ([M.AddIndex("thing", models.Index(fields=["name"], name="thing_name"))], "CREATE_INDEX"),
        ([M.AddField("thing", "count", number(null=True, db_index=True))], "CREATE_INDEX"),
        ([M.RunPython(rows_change)], "RunPython without a reverse"),
        ([M.RunSQL("CREATE TABLE x (id int)")], "RunSQL without a reverse"),
        ([M.AddField("thing", "count", number(null=True)), WRITE], "schema and data"),
        (
            [M.AddField("thing", "count", number(null=True)), M.RunSQL("UPDATE x SET y = 1", "")],
            "schema and data",
        ),
        (
            [M.SeparateDatabaseAndState(state_operations=[M.RemoveField("thing", "name")])],
            "NOT_NULL thing.name",
        ),
        ([M.RunSQL(COLUMN, M.RunSQL.noop)], "DROP_COLUMN toy_thing.size"),
    ],
)
def test_what_is_refused(operations: list[Operation], words: str) -> None:
    found = refusals(made(*operations), toy(), forgotten_by([]))
    assert [each for each in found if each.startswith(words)], found


def test_one_column_with_a_default_does_not_hide_another_without() -> None:
    one = M.AddField("thing", "count", number(default=0))
    other = M.AddField("thing", "number", number(db_default=0))
    found = refusals(made(one, other), toy(), forgotten_by([]))
    assert [each for each in found if each.startswith("NOT_NULL thing.count")]


@pytest.mark.parametrize(
    "operations",
    [
        [M.AddField("thing", "count", number(null=True))],
        [M.AddField("thing", "count", number(db_default=0))],
        [
            M.CreateModel(
                "Other", [("id", models.BigAutoField(primary_key=True)), ("count", number(db_index=True))]
            )
        ],
        [M.AlterField("thing", "name", models.CharField(max_length=20, choices=[("a", "A")]))],
        [STATE_ONLY],
        [WRITE],
        [
            M.RunSQL(
                "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$\nUPDATE x SET y = 1\n$$",
                "DROP FUNCTION f()",
            )
        ],
    ],
)
def test_what_is_not(operations: list[Operation]) -> None:
    assert refusals(made(*operations), toy(), forgotten_by([])) == []


def test_an_index_is_made_beside_the_writers() -> None:
    index = AddIndexConcurrently("thing", models.Index(fields=["name"], name="thing_name"))
    assert refusals(made(index, atomic=False), toy(), forgotten_by([])) == []


def test_where_no_release_writes_something_may_become_unique() -> None:
    once = M.AddConstraint("thing", models.UniqueConstraint(fields=["name"], name="thing_name_once"))
    assert [each for each in refusals(made(once), toy(), forgotten_by([])) if each.startswith("ADD_UNIQUE")]
    assert refusals(made(once), toy(), forgotten_by([]), unwritten=True) == []
    gone = refusals(made(M.RemoveField("thing", "size")), toy(), forgotten_by([]), unwritten=True)
    assert [each for each in gone if each.startswith("DROP_COLUMN")]


def test_what_an_earlier_release_forgot_may_be_dropped() -> None:
    dropped = made(M.RunSQL(COLUMN, M.RunSQL.noop))
    assert refusals(dropped, toy(), forgotten_by([(made(STATE_ONLY), toy())])) == []
    table = M.SeparateDatabaseAndState(state_operations=[M.DeleteModel("Thing")])
    gone = made(M.RunSQL('DROP TABLE "toy_thing"', M.RunSQL.noop))
    assert refusals(gone, toy(), forgotten_by([(made(table), toy())])) == []
    assert refusals(gone, toy(), forgotten_by([(made(STATE_ONLY), toy())])) != []

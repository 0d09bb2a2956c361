"""Which migrations a release that still runs cannot bear (decision 0072). Most rules are django-migration-linter's, which
reads the SQL; those about operations are here."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations import (
    AddField,
    CreateModel,
    DeleteModel,
    Migration,
    RemoveField,
    RunPython,
    RunSQL,
    SeparateDatabaseAndState,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field
from django_migration_linter.sql_analyser.postgresql import PostgresqlAnalyser

ROOT = Path(__file__).resolve().parents[2]
RELEASED = ROOT / "tests/architecture/released.txt"
DROPS = {"DROP_COLUMN", "DROP_TABLE"}
LOCKS = {"CREATE_INDEX", "DROP_INDEX", "REINDEX"}
WRITES = re.compile(r"^\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE | re.MULTILINE)
INSTEAD = {
    "RENAME_TABLE": "add the new one, copy, and drop the old one a release later",
    "RENAME_COLUMN": "add the new one, copy, and drop the old one a release later",
    "NOT_NULL": "give it a db_default, or let it be null until no release writes it so",
    "DROP_COLUMN": "a release before, remove it from the state alone",
    "DROP_TABLE": "a release before, remove it from the state alone",
    "ALTER_COLUMN": "add another column, copy, and drop the old one a release later",
    "ADD_UNIQUE": "the running release may write what it forbids: enforce it in the code first",
    "CREATE_INDEX": "AddIndexConcurrently in a migration of its own with atomic = False",
    "DROP_INDEX": "RemoveIndexConcurrently in a migration of its own with atomic = False",
    "REINDEX": "REINDEX CONCURRENTLY",
}


@dataclass(frozen=True)
class Forgotten:
    """What a release has removed from its state but not from the database: tables, and (table, column)."""

    tables: set[str] = field(default_factory=set)
    columns: set[tuple[str, str]] = field(default_factory=set)


def refusals(
    migration: Migration, before: ProjectState, forgotten: Forgotten, *, unwritten: bool = False
) -> list[str]:
    """Why it may not be part of a release, empty if it may. unwritten: no release writes to the tables of its app."""
    bearable = {"ADD_UNIQUE"} if unwritten else set[str]()
    return [
        *_by_sql(migration, before, forgotten, bearable),
        *_by_operation(migration, before),
        *_mixed(migration),
    ]


def new_migrations(loader: MigrationLoader) -> list[Migration]:
    """Ours that no release has."""
    ours = {
        config.label
        for config in apps.get_app_configs()
        if Path(config.path).is_relative_to(ROOT) and not Path(config.path).is_relative_to(ROOT / ".venv")
    }
    known = released()
    found = loader.disk_migrations.items()
    return [row for (app, name), row in sorted(found) if app in ours and f"{app}.{name}" not in known]


def released() -> set[str]:
    return set(RELEASED.read_text(encoding="utf-8").split())


def forgotten_by(rows: Iterable[tuple[Migration, ProjectState]]) -> Forgotten:
    """By released migrations, each with the state before it."""
    found = Forgotten()
    for migration, before in rows:
        for operation in _state_only(migration):
            if isinstance(operation, DeleteModel):
                found.tables.add(_table(before, migration.app_label, operation.name))
            if isinstance(operation, RemoveField):
                table = _table(before, migration.app_label, operation.model_name)
                found.columns.add((table, _column(before, migration.app_label, operation)))
    return found


def _by_sql(
    migration: Migration, before: ProjectState, forgotten: Forgotten, bearable: Collection[str]
) -> Iterator[str]:
    apart = connection.copy()  # outside of the test's transaction, where nothing could be made concurrently
    try:
        with apart.schema_editor(collect_sql=True, atomic=False) as editor:
            migration.apply(before.clone(), editor, collect_sql=True)
    finally:
        apart.close()
    analyser = PostgresqlAnalyser(None)
    analyser.analyse([row for row in editor.collected_sql if not row.startswith("--")])
    locking = [issue for issue in analyser.warnings if issue.code in LOCKS]
    for issue in [*analyser.errors, *locking]:
        if issue.code in bearable:
            continue
        place = f"{issue.table}.{issue.column}" if issue.column else issue.table or ""
        gone = (
            issue.table in forgotten.tables
            if issue.code == "DROP_TABLE"
            else (issue.table, issue.column) in forgotten.columns
        )
        if not (issue.code in DROPS and gone):
            yield f"{issue.code} {place}: {INSTEAD[issue.code]}".replace(" :", ":")


def _by_operation(migration: Migration, before: ProjectState) -> Iterator[str]:
    made = {row.name_lower for row in migration.operations if isinstance(row, CreateModel)}
    for row in _all(migration.operations):
        if isinstance(row, AddField) and row.model_name_lower not in made and _demanded(row.field):
            yield f"NOT_NULL {row.model_name_lower}.{row.name}: {INSTEAD['NOT_NULL']}"
        if isinstance(row, RunPython | RunSQL) and not row.reversible:
            yield f"{type(row).__name__} without a reverse: write it, or RunPython.noop if nothing has to be undone"
    for row in _state_only(migration):
        if isinstance(row, RemoveField) and _demanded(_field(before, migration.app_label, row)):
            yield f"NOT_NULL {row.model_name_lower}.{row.name}: rows without it are refused; {INSTEAD['NOT_NULL']}"


def _mixed(migration: Migration) -> Iterator[str]:
    rows = list(_all(migration.operations))
    data = [row for row in rows if isinstance(row, RunPython) or (isinstance(row, RunSQL) and _writes(row))]
    if data and len(data) < len(rows):
        yield "schema and data in one migration: it locks tables as long as rows are written; make it two"


def _writes(row: RunSQL) -> bool:
    """At the beginning of a statement; what is inside of a function is written later."""
    text = row.sql if isinstance(row.sql, str) else "\n".join(map(str, row.sql))
    return bool(WRITES.search(re.sub(r"\$(\w*)\$.*?\$\1\$", "", text, flags=re.DOTALL)))


def _all(rows: Iterable[Operation]) -> Iterator[Operation]:
    """Those that reach the database."""
    for row in rows:
        if isinstance(row, SeparateDatabaseAndState):
            yield from _all(row.database_operations)
        else:
            yield row


def _state_only(migration: Migration) -> Iterator[Operation]:
    for row in migration.operations:
        if isinstance(row, SeparateDatabaseAndState) and not row.database_operations:
            yield from row.state_operations


def _demanded(given: "Field[Any, Any]") -> bool:
    """Whether a row that does not name it is refused."""
    return not (given.null or given.has_db_default() or given.many_to_many or given.generated)


def _table(state: ProjectState, app: str, model: str) -> str:
    found = state.models[app, model.lower()]
    return str(found.options.get("db_table") or f"{app}_{model.lower()}")


def _field(state: ProjectState, app: str, row: RemoveField) -> "Field[Any, Any]":
    found: Field[Any, Any] = state.models[app, row.model_name_lower].fields[row.name]
    return found


def _column(state: ProjectState, app: str, row: RemoveField) -> str:
    given = _field(state, app, row).clone()
    given.set_attributes_from_name(row.name)
    return str(given.column)

"""A database of before the tables of a release were written as one migration a room goes on as it is."""

from collections.abc import Sequence

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db


def migrations_left() -> list[str]:
    executor = MigrationExecutor(connection)
    return [str(migration) for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def replacing() -> dict[tuple[str, str], Sequence[tuple[str, str]]]:
    loader = MigrationExecutor(connection).loader
    return {
        key: migration.replaces for key, migration in loader.disk_migrations.items() if migration.replaces
    }


def test_a_database_of_the_old_migrations_has_nothing_left_to_do() -> None:
    recorder = MigrationRecorder(connection)
    for (app, name), old in replacing().items():
        recorder.record_unapplied(app, name)
        for replaced in old:
            recorder.record_applied(*replaced)
    assert len(recorder.applied_migrations()) > 150
    assert migrations_left() == []


def test_what_is_replaced_is_replaced_once() -> None:
    replaced = [name for old in replacing().values() for name in old]
    assert len(replaced) == len(set(replaced))


def test_an_empty_history_leaves_everything_to_be_made() -> None:
    recorder = MigrationRecorder(connection)
    rooms = {app for app, _ in replacing()}
    now = [key for key in MigrationExecutor(connection).loader.disk_migrations if key[0] in rooms]
    for key in [*now, *(old for replaced in replacing().values() for old in replaced)]:
        recorder.record_unapplied(*key)
    assert len(migrations_left()) == len(now)

"""Emptying the tables after a test that commits."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from django.db import transaction
from django.db.backends.postgresql import operations

KEPT = {"django_content_type", "auth_permission"}  # written by migrating, and the same for every test


class DatabaseOperations(operations.DatabaseOperations):
    """Rows of a test are few: deleting them takes a tenth of the time of TRUNCATE, which makes all files of a table anew."""

    def sql_flush(
        self, style: Any, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False
    ) -> list[str]:
        """Nothing, so that Django's command does not write anew what stays; see `execute_sql_flush`."""
        return []

    def execute_sql_flush(self, sql_list: Iterable[str]) -> None:
        """The lock waits for whoever still writes, as TRUNCATE would. No trigger runs: neither those that guard rows that are never
        deleted, nor those of foreign keys."""
        with transaction.atomic(using=self.connection.alias), self.connection.cursor() as cursor:
            cursor.execute(self._emptying)

    @cached_property
    def _emptying(self) -> str:
        tables = [self.quote_name(name) for name in sorted(self._tables())]
        return "; ".join(
            [
                f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE",
                "SET LOCAL session_replication_role = replica",
                *(f"DELETE FROM {name}" for name in tables),
            ]
        )

    def _tables(self) -> set[str]:
        names = self.connection.introspection.django_table_names(only_existing=True, include_views=False)
        return set(names) - KEPT

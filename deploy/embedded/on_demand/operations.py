"""Emptying the tables after a test that commits: only those that hold a row, as most of a hundred never do."""

from collections.abc import Sequence
from typing import Any

from django.db.backends.postgresql import operations


class DatabaseOperations(operations.DatabaseOperations):
    def sql_flush(
        self, style: Any, tables: Sequence[str], *, reset_sequences: bool = False, allow_cascade: bool = False
    ) -> list[str]:
        """TRUNCATE … CASCADE of those with a row; what refers to them is emptied as well, and has to be anyway."""
        held = self._with_rows(tables)
        return super().sql_flush(style, held, reset_sequences=reset_sequences, allow_cascade=True)

    def _with_rows(self, tables: Sequence[str]) -> list[str]:
        """One statement for all of them."""
        if not tables:
            return []
        asked = " UNION ALL ".join(
            f"(SELECT {number} FROM {self.quote_name(table)} LIMIT 1)" for number, table in enumerate(tables)
        )
        with self.connection.cursor() as cursor:
            cursor.execute(asked)
            return [tables[number] for (number,) in cursor.fetchall()]

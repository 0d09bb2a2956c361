"""What a request writes: one that is refused writes nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from django.db import connection

WRITES = re.compile(r"\bINSERT INTO\b|\bDELETE FROM\b|(?<!FOR )(?<!KEY )\bUPDATE\b", re.IGNORECASE)
TOUCHED = 'UPDATE "tenants_apitoken" SET "last_used_at"'


@lru_cache(1000)  # the statements of one request are those of the next
def is_writing(sql: str) -> bool:
    return bool(WRITES.search(sql)) and not sql.startswith(TOUCHED)


@contextmanager
def writes() -> Iterator[list[str]]:
    """The statements inside that write, but for when a token was used last."""
    written: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *given: Any) -> Any:
        if is_writing(sql):
            written.append(sql)
        return execute(sql, *given)

    with connection.execute_wrapper(note):
        yield written

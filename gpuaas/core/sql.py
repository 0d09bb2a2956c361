"""Statements that stand in files of their own, beside the code that runs them."""

from functools import cache
from pathlib import Path


@cache
def sql_read(folder: Path, name: str) -> str:
    """The text of `name`.sql; read once a process."""
    return (folder / f"{name}.sql").read_text("utf-8")

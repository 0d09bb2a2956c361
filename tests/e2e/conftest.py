"""One portal for the tests that leave it running."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import pytest_django
from django.db import connection

from deploy.embedded.environment import test_database_url
from deploy.embedded.on_demand.creation import DatabaseCreation
from tests.e2e.pieces import Pieces


@pytest.fixture(scope="session")
def demo_folder() -> Iterator[Path]:
    """Not in pytest's own folder, which every session closes to other users again: root's PostgreSQL is one."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-e2e-") as name:
        yield Path(name)


@pytest.fixture(scope="package")
def portal(
    demo_folder: Path, django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker
) -> Iterator[Pieces]:
    """Made anew for this folder; tests that share it give back what they hold. It ends with them: its meter and its workers take of
    the machine what other tests need. Where no test needs a database of its own, nobody else has made the template."""
    with django_db_blocker.unblock():
        template = cast("DatabaseCreation", connection.creation).template()
    pieces = Pieces.prepare(demo_folder / "shared", f"{test_database_url().rpartition('/')[0]}/{template}")
    try:
        for name in ("worker", "scheduler", "meter"):
            pieces.start_piece(name)
        yield pieces
    finally:
        pieces.stop()
    assert Pieces.left_of(pieces.folder) == []

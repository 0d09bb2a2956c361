"""One portal for the tests that leave it running."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pieces import Pieces


@pytest.fixture(scope="session")
def demo_folder() -> Iterator[Path]:
    """Not in pytest's own folder, which every session closes to other users again: root's PostgreSQL is one."""
    with tempfile.TemporaryDirectory(prefix="gpuaas-e2e-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def portal(demo_folder: Path) -> Iterator[Pieces]:
    """Made anew for this run; tests that share it give back what they hold."""
    pieces = Pieces.prepare(demo_folder / "shared")
    try:
        for name in ("worker", "scheduler", "meter"):
            pieces.start_piece(name)
        yield pieces
    finally:
        pieces.stop()
    assert Pieces.left_of(pieces.folder) == []

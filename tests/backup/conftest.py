"""PostgreSQL's own programs, and a second database that is empty."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from deploy.embedded.postgres import PROGRAMS
from tests.backup.servers import home_made
from tests.backup.stage import elsewhere

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _programs(settings: Any) -> None:
    settings.POSTGRES_PROGRAMS = PROGRAMS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archives"
    made.mkdir()
    return made


@pytest.fixture
def empty(transactional_db: None) -> Iterator[str]:
    """The name of a new database on the test's server; it is dropped afterwards."""
    name = f"{connection.settings_dict['NAME']}_restored"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    yield name
    with elsewhere(str(connection.settings_dict["NAME"])), connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def home() -> Iterator[Path]:
    with home_made() as folder:
        yield folder

"""SIGKILL at moments spread over all that a backup and a restore do: nothing that looks whole is left half."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

import gpuaas.backup
from gpuaas.backup.contents import rows_count, tables
from gpuaas.backup.services import backup_check, backup_make, restore
from gpuaas.catalog.models import Site
from gpuaas.core.errors import Permanent
from gpuaas.core.files import PARTIAL
from tenants.models import Project, User
from tests import killed
from tests.backup.conftest import PASSPHRASE
from tests.backup.stage import elsewhere, files_in
from tests.killed import moments_of
from tests.metering.test_meter import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
HERE = str(Path(gpuaas.backup.__file__).parent)


def life(work: Callable[[], object], *, until: int) -> int:
    return killed.life(work, until=until, code=HERE)


def test_a_killed_backup_leaves_nothing_that_looks_whole(folder: Path, site: Site) -> None:
    def work() -> Path:
        return backup_make(folder=folder, passphrase=PASSPHRASE)

    total = life(work, until=-1)
    (whole,) = files_in(folder)
    partial = 0
    for moment in moments_of(total):
        assert life(work, until=moment) == 0
        assert sum(name.endswith(PARTIAL) for name in files_in(folder)) <= 1, "the next one removes it"
        for name in set(files_in(folder)) - {whole}:
            if name.endswith(PARTIAL):
                partial += 1
                with pytest.raises(Permanent):
                    backup_check(path=folder / name)
            else:
                backup_check(path=folder / name)
    assert partial


def test_a_killed_restore_leaves_the_database_as_it_was(
    folder: Path, empty: str, site: Site, project: Project, alice: User
) -> None:
    path = backup_make(folder=folder)
    wanted = backup_check(path=path).rows

    def work() -> object:
        return restore(path=path, replace=True)

    def found() -> dict[str, int]:
        """What is there when the last program that was started has ended, too."""
        wait_for(alone)
        return {name: count for name, count in rows_count().items() if wanted.get(name, 0) == count}

    with elsewhere(empty):
        total = life(work, until=-1)
        assert found().keys() >= wanted.keys() - {"backup_backup", "tenants_auditentry"}
        whole = 0
        for moment in moments_of(total):
            emptied()
            assert life(work, until=moment) == 0
            left = found()
            if tables():
                whole += 1
                assert left.keys() >= wanted.keys() - {"backup_backup", "tenants_auditentry"}
        assert 0 < whole < len(moments_of(total)) - 3


def alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return bool(cursor.fetchone() == (0,))


def emptied() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION pg_database_owner")

"""The databases of the test processes are copies of one that was migrated before: CREATE DATABASE … TEMPLATE."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db.backends.postgresql import creation

STEM = "template_gpuaas"
KEPT = 4  # the newest of other migrations: of branches that are worked on beside this one
LOCK = 4711_01  # of the server's advisory locks: one process migrates, the others wait for what it makes


class DatabaseCreation(creation.DatabaseCreation):
    """A copy takes a tenth of a second, migrating takes ten."""

    _get_test_db_name: Callable[[], str]  # Django's own, which its stubs do not know
    _nodb_cursor: Callable[[], AbstractContextManager[Any]]

    def create_test_db(
        self,
        verbosity: int = 1,
        autoclobber: bool = False,
        serialize: bool | None = True,
        keepdb: bool = False,
    ) -> str:
        """The name of a fresh database that has all migrations; nothing of an earlier run is kept."""
        name = self._get_test_db_name()
        with self._alone() as cursor:
            template = self._template(cursor)
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self._point_at(name)
        self.connection.ensure_connection()
        return name

    def template(self) -> str:
        """The name of the database that the others are copied from, which is made first where it is not there."""
        with self._alone() as cursor:
            return self._template(cursor)

    @contextmanager
    def _alone(self) -> Iterator[Any]:
        with self._nodb_cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            try:
                yield cursor
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])

    def _template(self, cursor: Any) -> str:
        """Made where none of these very migrations is there. Runs side by side (GPUAAS_TEST_DB_SUFFIX) share it."""
        name, making = template_name(), f"making_{STEM}"
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s) ORDER BY oid DESC", [f"{STEM}_"]
        )
        there = [row[0] for row in cursor.fetchall()]
        for old in [other for other in there if other != name][KEPT:]:
            cursor.execute(f'DROP DATABASE "{old}" WITH (FORCE)')
        if name not in there:
            cursor.execute(f'DROP DATABASE IF EXISTS "{making}" WITH (FORCE)')
            cursor.execute(f'CREATE DATABASE "{making}"')
            self._migrate(making)
            cursor.execute(f'ALTER DATABASE "{making}" RENAME TO "{name}"')
        return name

    def _migrate(self, name: str) -> None:
        before = self.connection.settings_dict["NAME"]
        self._point_at(name)
        call_command("migrate", verbosity=0, interactive=False, database=self.connection.alias)
        call_command("createcachetable", database=self.connection.alias)
        self._point_at(before)

    def _point_at(self, name: str) -> None:
        self.connection.close()
        settings.DATABASES[self.connection.alias]["NAME"] = name
        self.connection.settings_dict["NAME"] = name


def template_name() -> str:
    return f"{STEM}_{fingerprint()}"


def fingerprint() -> str:
    """Of all that migrating reads: the migrations of each app."""
    digest = hashlib.sha256()
    for app in sorted(apps.get_app_configs(), key=lambda one: one.label):
        for path in sorted(Path(app.path, "migrations").rglob("*.py")):
            digest.update(f"{app.label}/{path.name}".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]

"""A restore is refused before anything is written, or it is whole."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection

from gpuaas.backup.archive import DATABASE, MANIFEST, NAME, Manifest
from gpuaas.backup.contents import rows_count, tables
from gpuaas.backup.models import Backup
from gpuaas.backup.selectors import backup_last
from gpuaas.backup.services import backup_make, making, restore
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.waiting import WAITING
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, encrypt_json, key_id
from gpuaas.core.errors import Conflict, Permanent
from gpuaas.core.files import file_sum
from gpuaas.core.models import Process
from gpuaas.environments.models import DoorKey
from gpuaas.workspaces.models import Workspace
from tenants.models import ApiToken, AuditEntry, Project, User
from tests.api.cluster_stage import warm_stage
from tests.backup.stage import elsewhere
from tests.billing.stage import cluster_make, workspace_make
from tests.environments.stage import row_in

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = {"token": "a secret of the site"}


@pytest.fixture
def archive(folder: Path, site: Site, project: Project, alice: User) -> Path:
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json(SECRET))
    return backup_make(folder=folder)


def changed(archive: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy with another manifest, whose sum is right."""
    copy = archive.parent / "changed"
    shutil.copytree(archive, copy)
    manifest = json.loads((copy / MANIFEST).read_text())
    change(manifest)
    (copy / MANIFEST).write_text(json.dumps(manifest))
    (copy / f"{MANIFEST}.sha256").write_text(f"{file_sum(copy / MANIFEST)}  {MANIFEST}\n")
    return copy


def refused(path: Path, database: str, words: str, **options: bool) -> None:
    """Nothing is written where it is refused."""
    with elsewhere(database):
        with pytest.raises((Permanent, Conflict), match=words):
            restore(path=path, **options)
        assert tables() == []


def test_into_an_empty_database(archive: Path, empty: str, alice: User, site: Site) -> None:
    rows = rows_count()
    with elsewhere(empty):
        done = restore(path=archive)
        told = {name: count for name, count in done.rows.items() if name in done.manifest.rows}
        noted = {"backup_backup": 1, "tenants_auditentry": rows["tenants_auditentry"] + 1}
        assert told == {**done.manifest.rows, **noted}
        assert done.pending == []
        assert User.objects.get().username == alice.username
        assert decrypt_json(Site.objects.get().credentials) == SECRET
        entry = AuditEntry.objects.get(action="backup.restore")
        assert (entry.target_name, entry.after) == (archive.name, {"taken_at": done.manifest.taken_at})
        last = backup_last()
        assert last is not None
        assert (last.taken_at, last.digest) == (done.manifest.moment, file_sum(archive / MANIFEST))


def test_a_database_with_tables_is_replaced_only_when_told(archive: Path, project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(name="written after the backup")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE public.of_somebody (id integer)")
    with pytest.raises(Conflict, match="say --replace"):
        restore(path=archive)
    alive = Process.objects.create(
        kind="worker", host="a", pid=1, version="1", started_at=clock.now(), seen_at=clock.now()
    )
    with pytest.raises(Conflict, match=r"running \(worker a:1\): stop"):
        restore(path=archive, replace=True)
    alive.delete()
    restore(path=archive, replace=True)
    project.refresh_from_db()
    assert project.name == "Weather LM"
    assert "of_somebody" not in tables()


def test_a_newer_portal_is_refused(archive: Path, empty: str) -> None:
    def later(manifest: dict[str, Any]) -> None:
        manifest["migrations"].append("billing.9001_of_the_future")

    refused(changed(archive, later), empty, r"newer portal .*billing\.9001_of_the_future is unknown here")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"portal": "99.0"}, "newer portal"),
        ({"format": 2}, "newer portal"),
        ({"server": 99}, "is of PostgreSQL 99"),
        ({"rows": {"tenants_user": 7}}, "rows are missing in tenants_user"),
    ],
    ids=["portal", "format", "server", "rows"],
)
def test_what_does_not_fit_is_refused(archive: Path, empty: str, change: dict[str, Any], words: str) -> None:
    refused(changed(archive, lambda manifest: manifest.update(change)), empty, words)


def test_a_missing_key_is_named_before_anything_is_written(archive: Path, empty: str, settings: Any) -> None:
    (old,) = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    refused(archive, empty, f"lacks the keys with the ids {key_id(old)}.*this archive has none")
    settings.ENCRYPTION_KEYS.append(old)
    with elsewhere(empty):
        restore(path=archive)


def test_a_damaged_dump_with_a_right_sum_is_not_half_restored(archive: Path, empty: str) -> None:
    """As where the disk was bad before the sum was taken: pg_restore or psql stops in the middle."""
    copy = changed(archive, lambda manifest: None)
    content = bytearray((copy / DATABASE).read_bytes())
    content[len(content) // 2 :] = b"\0" * (len(content) - len(content) // 2)
    (copy / DATABASE).write_bytes(content)
    shutil.rmtree(archive)
    copy.rename(archive)
    again = changed(archive, lambda m: m["files"].update({DATABASE: file_sum(archive / DATABASE)}))
    refused(again, empty, "pg_restore failed|psql failed")


def test_what_was_in_flight_is_safe(
    folder: Path, empty: str, project: Project, h100: Flavor, alice: User
) -> None:
    """Claims end. A lease that may have been extended since lasts three days; what waited in a warm pool may be somebody's."""
    now = clock.now()
    ended, long = (workspace_make(project, h100, alice, name=name) for name in ("ended", "long"))
    Workspace.objects.filter(pk=ended.pk).update(
        lease_ends_at=now - timedelta(days=300), claim_token=ended.pk, claim_until=now + timedelta(days=1)
    )
    gone = workspace_make(project, h100, alice, name="gone")
    Workspace.objects.filter(pk=gone.pk).update(state="deleted", lease_ends_at=now - timedelta(days=300))
    token = ApiToken.objects.create(
        project=project, user=alice, name="ci", prefix="gp_1234", expires_at=now + timedelta(days=9)
    )
    door_key = row_in(long).keys.get()
    waiting = cluster_make(project, h100, alice)
    pool = warm_stage(waiting.template_version.template, project, alice)
    Cluster.objects.filter(pk=waiting.pk).update(warm_pool=pool)
    path = backup_make(folder=folder)
    with elsewhere(empty):
        restore(path=path, revoke_tokens=True)
        cluster = Cluster.objects.get(pk=waiting.pk)
        assert not Cluster.objects.filter(WAITING).exists()
        assert cluster.external_name == Cluster(pk=waiting.pk, name="sim", warm_pool=pool).external_name
        row = Workspace.objects.get(pk=ended.pk)
        assert (row.claim_token, row.claim_until) == (None, None)
        assert now + timedelta(days=3) <= row.lease_ends_at < now + timedelta(days=4)
        assert Workspace.objects.get(pk=long.pk).lease_ends_at == long.lease_ends_at
        assert Workspace.objects.get(pk=gone.pk).lease_ends_at == now - timedelta(days=300)
        assert ApiToken.objects.get(pk=token.pk).revoked_at is not None
        assert DoorKey.objects.get(pk=door_key.pk).revoked_at is not None


def test_the_command(archive: Path, empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    with elsewhere(empty):
        call_command("restore", archive)
        assert "as many as were backed up" in capsys.readouterr().out
        with pytest.raises(CommandError, match="say --replace"):
            call_command("restore", archive)
        assert Backup.objects.count() == 1


def test_migrations_of_a_later_release_run_when_told(folder: Path, empty: str, site: Site) -> None:
    known = sorted(path.stem for path in Path("billing/migrations").glob("0*.py"))
    *_, last, first_later, second_later = known
    call_command("migrate", "billing", last, verbosity=0)
    try:
        path = backup_make(folder=folder)
    finally:
        call_command("migrate", "billing", verbosity=0)
    with elsewhere(empty):
        assert restore(path=path).pending == [f"billing.{first_later}", f"billing.{second_later}"]
        assert not AuditEntry.objects.filter(action="backup.restore").exists()
        assert restore(path=path, replace=True, migrate=True).pending == []
        assert AuditEntry.objects.filter(action="backup.restore").count() == 1


def test_an_archive_that_is_wrong_once_it_is_read_again_counts_as_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a broken disk: the next attempt is due at once, and a good archive is not deleted for it."""

    def wrong(path: Path) -> Manifest:
        raise Permanent(f"{path} is not what was written")

    with monkeypatch.context() as patched:
        patched.setattr(making, "archive_read", wrong)
        with pytest.raises(Permanent, match="not what was written"):
            backup_make(folder=folder)
    assert not Backup.objects.exists()
    assert [path for path in folder.iterdir() if NAME.fullmatch(path.name)] == []
    assert backup_make(folder=folder).is_dir()

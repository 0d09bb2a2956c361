"""SIGKILL at moments spread over all that an archive does: after the next run every interval is in exactly one place."""

import json
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pytest_django import Settings

from billing.services import rate_set
from billing.services.retention import month_finish, usage_archive
from gpuaas.catalog.models import Flavor
from gpuaas.metering import archive
from gpuaas.metering.models import Meter, UsageFile, UsageInterval
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.killed import life, moments_of

pytestmark = pytest.mark.django_db(transaction=True)
MONTHS = (date(2026, 9, 1), date(2026, 10, 1))
CODE = str(Path(archive.__file__))


@pytest.fixture
def rows(
    project: Project, h100: Flavor, alice: User, as_olga: Actor, settings: Settings
) -> list[UsageInterval]:
    """Of two final months, into the third, and one that is open."""
    settings.USAGE_RETENTION_MONTHS = 3
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    workspace = workspace_make(project, h100, alice)
    for number in range(20):
        start = utc("2026-09-28 10:00:00") + timedelta(hours=12 * number)
        interval_make(workspace, h100, start, start + timedelta(hours=2))
    interval_make(workspace, h100, utc("2026-09-20"), utc("2026-11-02"))
    interval_make(workspace, h100, utc("2026-09-20"), None)
    for month in MONTHS:
        month_close(as_olga, month)
    for month in MONTHS:
        month_finish(actor=as_olga, month=month, now=utc("2027-06-01"))
    return list(UsageInterval.objects.order_by("pk"))


def test_a_killed_archive_loses_and_doubles_nothing(
    rows: list[UsageInterval], as_olga: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ROWS", 4)  # several pieces of each file
    wanted = Counter(str(row.pk) for row in rows)

    def stage(name: str) -> Path:
        UsageInterval.objects.all().delete()
        UsageFile.objects.all().delete()
        UsageInterval.objects.bulk_create(rows)
        (tmp_path / name).mkdir()
        return tmp_path / name

    def work() -> int:
        return usage_archive(actor=as_olga, folder=folder, tell=lambda words: None)

    folder = stage("whole")
    moments = life(work, until=-1, code=CODE)
    assert places(folder) == wanted
    left = 0
    for moment in moments_of(moments, 25):
        folder = stage(f"killed-{moment}")
        assert life(work, until=moment, code=CODE) == 0
        assert set(places(folder)) == set(wanted)  # nothing is lost, at most a piece not deleted yet
        left += UsageInterval.objects.exists() and places(folder) != wanted
        work()
        assert places(folder) == wanted
        assert not [path for path in folder.iterdir() if path.suffix not in (".parquet", ".json")]
    assert left


def places(folder: Path) -> Counter[str]:
    """How often each interval is in the database or in a file that is recorded, has its name and what its manifest says."""
    found = Counter(str(pk) for pk in UsageInterval.objects.values_list("pk", flat=True))
    for file in UsageFile.objects.all():
        path = folder / file.name
        if path.exists():
            table = pq.read_table(path)
            assert table.num_rows == file.rows
            found.update(table["id"].to_pylist())
        if (manifest := path.with_suffix(".json")).exists():
            assert json.loads(manifest.read_text())["sha256"] == file.sha256
    return found

"""Final months: what is in the way of one, what is refused of it, and where its intervals are."""

import json
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from billing.models import MonthClose
from billing.months import month_span
from billing.selectors.breakdown import cost_intervals
from billing.selectors.checklist import month_due
from billing.services import rate_set
from billing.services.retention import month_finish, usage_archive
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Forbidden, NotFound, Permanent
from gpuaas.metering.models import FinalMonth, Meter, UsageFile, UsageInterval
from gpuaas.metering.selectors import UsageFilters, intervals_for, usage_by_project
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.lasting import lasting

SEPTEMBER, OCTOBER, NOVEMBER = date(2025, 9, 1), date(2025, 10, 1), date(2025, 11, 1)
LATER = utc("2026-11-20")


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User, as_olga: Actor, settings: Settings) -> Workspace:
    """With a price, and usage of October 2025 and of October into November."""
    settings.USAGE_RETENTION_MONTHS = 12
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2025-01-01"))
    made = workspace_make(project, h100, alice)
    interval_make(made, h100, utc("2025-10-02 10:00:00"), utc("2025-10-02 11:00:00"), quantity=2)
    interval_make(made, h100, utc("2025-10-30"), utc("2025-11-02"))
    return made


@pytest.fixture
def final(workspace: Workspace, as_olga: Actor) -> FinalMonth:
    month_close(as_olga, OCTOBER)
    month_close(as_olga, NOVEMBER)
    return month_finish(actor=as_olga, month=OCTOBER, now=LATER)


def refused(actor: Actor, month: date, words: str, now: datetime = LATER) -> None:
    with pytest.raises(Conflict, match=words):
        month_finish(actor=actor, month=month, now=now)
    assert not FinalMonth.objects.filter(month=month).exists()


def test_what_is_in_the_way_is_said(
    workspace: Workspace, h100: Flavor, as_olga: Actor, settings: Settings
) -> None:
    refused(as_olga, OCTOBER, "it is not closed")
    month_close(as_olga, OCTOBER)
    refused(
        as_olga, OCTOBER, "kept for 12 months, so it can from November 2026 on", utc("2026-10-31 22:00:00")
    )
    settings.USAGE_RETENTION_MONTHS = 0
    refused(as_olga, OCTOBER, "GPUAAS_USAGE_RETENTION_MONTHS is not set")
    settings.USAGE_RETENTION_MONTHS = 2
    refused(as_olga, OCTOBER, "at least 3")
    settings.USAGE_RETENTION_MONTHS = 12
    row = MonthClose.objects.create(
        month=NOVEMBER, state="requested", requested_at=LATER, requested_by="olga"
    )
    refused(as_olga, OCTOBER, "a close is under way")
    row.delete()
    late = interval_make(workspace, h100, utc("2025-10-03"), utc("2025-10-04"))
    refused(as_olga, OCTOBER, r"changed since it was last invoiced \(1 line\)")
    month_close(as_olga, NOVEMBER)
    refused(as_olga, NOVEMBER, "October 2025 comes first", LATER + timedelta(days=30))
    made = month_finish(actor=as_olga, month=OCTOBER, now=LATER)
    assert (made.ends_at, made.marked_by) == (month_span(OCTOBER).ends_at, as_olga.name)
    assert month_finish(actor=as_olga, month=OCTOBER, now=LATER) == made
    assert AuditEntry.objects.filter(action="month.final", target_name="2025-10").count() == 1
    assert late.pk in UsageInterval.objects.values_list("pk", flat=True)


def test_a_month_that_was_closed_before_the_first_usage_comes_before_none(
    workspace: Workspace, as_olga: Actor
) -> None:
    """Nothing was used in it, nor in the years between, which nobody would close."""
    month_close(as_olga, date(2020, 1, 1))
    month_close(as_olga, OCTOBER)
    refused(as_olga, date(2020, 1, 1), "October 2025 comes first")
    assert month_finish(actor=as_olga, month=OCTOBER, now=LATER).month == OCTOBER


def test_only_operators_make_months_final_and_archive(
    workspace: Workspace, as_bob: Actor, as_charlie: Actor, tmp_path: Path
) -> None:
    for actor in (as_bob, as_charlie):
        with pytest.raises((NotFound, Forbidden)):
            month_finish(actor=actor, month=OCTOBER)
        with pytest.raises((NotFound, Forbidden)):
            usage_archive(actor=actor, folder=tmp_path, tell=print)


def test_nothing_of_a_final_month_is_credited_or_waited_for(
    final: FinalMonth, workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    interval_make(workspace, h100, utc("2025-09-03"), utc("2025-10-04"))
    UsageInterval.objects.filter(quantity=2).delete()
    assert month_due(now=utc("2026-01-05")) == date(2025, 12, 1)
    row = month_close(as_olga, date(2025, 12, 1))
    assert (row.state, row.invoices) == ("closed", 0)


def test_files_have_what_the_database_had(
    final: FinalMonth, workspace: Workspace, as_olga: Actor, as_alice: Actor, project: Project, tmp_path: Path
) -> None:
    gone = UsageInterval.objects.get(quantity=2)
    out = StringIO()
    call_command("usage_archive", str(tmp_path), stdout=out)
    assert "1 intervals were archived" in out.getvalue()
    (row,) = pq.read_table(tmp_path / "usage-2025-10-1.parquet").to_pylist()
    assert (row["id"], row["project"], row["holder"], row["flavor"]) == (
        str(gone.pk),
        "weather-lm",
        "train",
        "h100.1",
    )
    assert (row["quantity"], row["started_at"], row["ended_at"]) == (2, gone.started_at, gone.ended_at)
    manifest = json.loads((tmp_path / "usage-2025-10-1.json").read_text())
    assert (manifest["rows"], manifest["unit_seconds"]) == (1, {"gpu_held": 7200})
    assert UsageInterval.objects.get().ended_at == utc("2025-11-02")
    file = UsageFile.objects.get()
    assert file.cleared_at
    assert manifest["sha256"] == file.sha256
    assert AuditEntry.objects.get(action="usage.archive").after == {
        "file": file.name,
        "intervals": 1,
        "sha256": file.sha256,
    }
    assert usage_archive(actor=as_olga, folder=tmp_path, tell=print) == 0
    month_finish(actor=as_olga, month=NOVEMBER, now=LATER + timedelta(days=30))
    usage_archive(actor=as_olga, folder=tmp_path, tell=print)
    assert not UsageInterval.objects.exists()
    assert {path.name for path in tmp_path.glob("*.parquet")} == {
        "usage-2025-10-1.parquet",
        "usage-2025-11-1.parquet",
    }


def test_who_asks_for_archived_intervals_is_told_where_they_are(
    final: FinalMonth, as_olga: Actor, as_alice: Actor, project: Project, tmp_path: Path
) -> None:
    first, last = utc("2025-10-01"), utc("2025-12-01")
    assert cost_intervals(actor=as_alice, project=project, month=OCTOBER).count() == 2
    usage_archive(actor=as_olga, folder=tmp_path, tell=print)
    words = "ended by 2025-10-31 23:00 UTC are archived.*usage-2025-10-1.parquet"
    with pytest.raises(Conflict, match=words):
        cost_intervals(actor=as_alice, project=project, month=OCTOBER)
    with pytest.raises(Conflict, match=words):
        usage_by_project(actor=as_alice, starts_at=first, ends_at=last, project=project)
    with pytest.raises(Conflict, match=words):
        intervals_for(actor=as_alice, filters=UsageFilters(project=project, ends_at=first))
    assert intervals_for(actor=as_alice, filters=UsageFilters(project=project)).count() == 1
    assert cost_intervals(actor=as_alice, project=project, month=NOVEMBER).count() == 1


def test_a_file_that_is_not_what_was_written_deletes_nothing(
    final: FinalMonth, as_olga: Actor, tmp_path: Path
) -> None:
    (tmp_path / "usage-2025-10-1.parquet").write_bytes(b"of another portal")
    with pytest.raises(Conflict, match="which this database does not know"):
        usage_archive(actor=as_olga, folder=tmp_path, tell=print)
    folder = tmp_path / "empty"
    with pytest.raises(Conflict, match="is not a folder"):
        usage_archive(actor=as_olga, folder=folder, tell=print)
    folder.mkdir()
    known = {"rows": 1, "unit_seconds": {}, "written_at": LATER, "sha256": "0" * 64}
    file = UsageFile.objects.create(month=final, name="usage-2025-10-1.parquet", **known)
    with pytest.raises(Conflict, match="name the folder where it is"):
        usage_archive(actor=as_olga, folder=folder, tell=print)
    with pytest.raises(Permanent, match="its sum differs"):
        usage_archive(actor=as_olga, folder=tmp_path, tell=print)
    assert UsageInterval.objects.count() == 2
    assert not UsageFile.objects.get(pk=file.pk).cleared_at


def test_commands_say_what_is_in_the_way(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no month is final yet"):
        call_command("usage_archive", str(tmp_path))
    with pytest.raises(CommandError, match="October 2025 cannot become final: it is not closed"):
        call_command("usage_final", "2025-10")

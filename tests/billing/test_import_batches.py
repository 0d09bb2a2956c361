"""What would be counted twice is refused unless it is asked for; an import is a batch that can be taken back."""

from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from billing.files import Refused, files_import, import_take_back, invoices_of
from billing.models import InvoiceLine, KeptMonth
from billing.services import rate_set
from billing.services.keeping import usage_keep
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.metering.imports import Imported, Overlap
from gpuaas.metering.models import FinalMonth, Meter, UsageImport, UsageImportSum, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_import import NOVEMBER, NOW, OCTOBER, START, file_of, row, workspace

__all__ = ["workspace"]  # the fixture
OCT_5 = "2026-10-05 "
TWICE = "the same workspace, meter and GPUs are counted at the same time by "
DECEMBER = date(2026, 12, 1)


def same(number: str, **more: str) -> str:
    """Of one time whatever the number, which makes a fresh id."""
    return row(number, **more)


def take(folder: Path, *rows: str, **given: object) -> Imported:
    return files_import(actor=SYSTEM, usage=file_of(folder, *rows), now=NOW, **given)  # type: ignore[arg-type]


def refused(folder: Path, *rows: str, **given: object) -> list[str]:
    """The complaints, without the name of the file; nothing may have been written, and `check` says the same."""
    before = list(UsageInterval.objects.order_by("pk").values())
    said = []
    for check in (True, False):
        with pytest.raises(Refused) as found:
            take(folder, *rows, check=check, **given)
        said.append([str(each).removeprefix("usage.csv:") for each in found.value.rows])
    assert said[0] == said[1]
    assert list(UsageInterval.objects.order_by("pk").values()) == before
    return said[0]


def unit_seconds() -> int:
    rows = UsageInterval.objects.exclude(ended_at=None)
    return sum(
        int((each.ended_at - each.started_at).total_seconds()) * each.quantity
        for each in rows
        if each.ended_at
    )


@pytest.mark.django_db
def test_the_same_under_a_fresh_id_is_named_and_refused(workspace: Workspace, tmp_path: Path) -> None:
    inside = same("d-1", start="2026-10-05T11:00:00Z", end="2026-10-05T11:30:00Z", quantity="7")
    assert refused(tmp_path, same("a-1"), same("b-1"), inside) == [
        f"3: {TWICE}line 2: from 2026-10-05 10:00:00 to 2026-10-05 12:00:00 UTC",
        f"4: {TWICE}line 3: from 2026-10-05 10:00:00 to 2026-10-05 12:00:00 UTC",
    ]
    take(tmp_path, same("a-1"), name="October of the old portal")
    assert refused(tmp_path, same("a-1"), same("b-1")) == [
        f"3: {TWICE}line 2: from 2026-10-05 10:00:00 to 2026-10-05 12:00:00 UTC",
    ]
    assert refused(tmp_path, same("b-1"), inside)[0] == (
        f"2: {TWICE}a-1 of the import October of the old portal: from 2026-10-05 10:00:00 to 2026-10-05 12:00:00 UTC"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("end", ["2026-10-05 11:00:00", None])
def test_what_the_portal_metered_itself_is_named_and_refused(
    workspace: Workspace, h100: Flavor, tmp_path: Path, end: str | None
) -> None:
    interval_make(workspace, h100, utc(OCT_5 + "10:00:00"), utc(end) if end else None)
    (said,) = refused(tmp_path, row(1))
    until = end or "2026-12-20 12:00:00"
    assert said == f"2: {TWICE}the portal itself: from 2026-10-05 10:00:00 to {until} UTC"
    assert refused(tmp_path, row(1), overlaps=[Overlap.FILE, Overlap.IMPORTS]) == [said]
    assert take(tmp_path, row(1), overlaps=[Overlap.METERED]).written == 1


@pytest.mark.django_db
def test_what_was_metered_before_its_gpus_were_sold_is_the_same_place(
    workspace: Workspace, h100: Flavor, tmp_path: Path
) -> None:
    start, end = utc(OCT_5 + "11:00:00"), utc(OCT_5 + "13:00:00")
    interval_make(workspace, None, start, end, meter=Meter.GPU_ALLOCATED, resource=h100.pool.resource_name)
    interval_make(workspace, h100, start, end, meter=Meter.STORAGE_HELD, resource="storage_held")
    said = refused(
        tmp_path,
        row(1, meter="gpu_allocated"),
        row(1, meter="storage_held", flavor="").replace("1,", "disk,", 1),
    )
    assert [each.split(":")[0] for each in said] == ["2", "3"]


@pytest.mark.django_db
def test_what_only_touches_or_is_of_another_place_is_no_overlap(
    workspace: Workspace, other_project: Project, h100: Flavor, alice: User, tmp_path: Path
) -> None:
    other = workspace_make(workspace.project, h100, alice, name="other")
    start, end = utc(OCT_5 + "10:00:00"), utc(OCT_5 + "12:00:00")
    interval_make(workspace, h100, utc(OCT_5 + "08:00:00"), start)
    interval_make(workspace, h100, end, None)
    interval_make(workspace, h100, start, end, meter=Meter.GPU_ALLOCATED)
    interval_make(other, h100, start, end)
    interval_make(workspace, None, start, end, resource="nvidia.com/mig-1g.5gb")
    done = take(
        tmp_path,
        same("a", end="2026-10-05T11:00:00Z"),
        same("b", start="2026-10-05T11:00:00Z"),
        same("c", meter="gpu_stopped"),
        same("d", meter="vcpu_held", flavor=""),
        same("e", meter="memory_held", flavor=""),
        same("empty", quantity="0"),
        same("no-time", end=START),
    )
    assert (done.rows, done.written) == (7, 5)


@pytest.mark.django_db
def test_a_file_that_was_imported_with_overlaps_is_not_asked_about_again(
    workspace: Workspace, tmp_path: Path
) -> None:
    rows = [same("a"), same("b")]
    assert take(tmp_path, *rows, overlaps=[Overlap.FILE]).written == 2
    assert take(tmp_path, *rows).written == 0
    assert refused(tmp_path, *rows, same("c", start="2026-10-05T09:00:00Z", end="2026-10-05T10:00:01Z"))


@pytest.mark.django_db
def test_every_new_row_is_told_once_for_each_kind(workspace: Workspace, h100: Flavor, tmp_path: Path) -> None:
    """The neighbours of a row may begin before it, with it, and after it; the longest need not be the nearest."""
    interval_make(workspace, h100, utc(OCT_5 + "08:00:00"), utc(OCT_5 + "20:00:00"))
    interval_make(workspace, h100, utc(OCT_5 + "09:00:00"), utc(OCT_5 + "09:10:00"))
    take(tmp_path, same("old"), overlaps=list(Overlap))
    with pytest.raises(Refused) as found:
        take(
            tmp_path,
            same("x", start="2026-10-05T11:59:59Z", end="2026-10-05T13:00:00Z"),
            same("y", start="2026-10-05T09:00:00Z", end="2026-10-05T10:00:01Z"),
            same("z", start="2026-10-05T20:00:00Z", end="2026-10-05T21:00:00Z"),
        )
    assert [(each.line, "the portal" in each.problem) for each in found.value.rows] == [
        (2, False),
        (2, True),
        (3, False),
        (3, True),
    ]
    assert (found.value.overlaps, found.value.early) == (4, 0)


@pytest.mark.django_db
def test_a_batch_has_a_name_and_sums_beside_what_is_there(
    workspace: Workspace, h100: Flavor, tmp_path: Path
) -> None:
    """October ends at 23:00 UTC in Berlin: an hour of the last row is of November."""
    interval_make(workspace, h100, utc(OCT_5 + "00:00:00"), utc(OCT_5 + "01:00:00"), quantity=4)
    rows = [row(1), same("night", start="2026-10-31T22:00:00Z", end="2026-11-01T00:00:00Z", quantity="1")]
    seen = take(tmp_path, *rows, check=True, name="old portal")
    assert not UsageImport.objects.exists()
    done = take(tmp_path, *rows, name="old portal")
    for sums in (seen.sums, list(UsageImportSum.objects.all())):
        assert [
            (
                each.month,
                each.project.slug,
                each.meter,
                each.intervals,
                each.unit_seconds,
                each.besides_unit_seconds,
            )
            for each in sums
        ] == [
            (OCTOBER, "weather-lm", "gpu_held", 2, 2 * 7200 + 3600, 4 * 3600),
            (NOVEMBER, "weather-lm", "gpu_held", 1, 3600, 0),
        ]
    batch = UsageImport.objects.get()
    assert done.batch == batch
    assert (batch.name, batch.file, batch.rows, batch.intervals, batch.imported_by) == (
        "old portal",
        "usage.csv",
        2,
        2,
        "portal",
    )
    assert (batch.starts_at, batch.ends_at) == (utc(OCT_5 + "10:00:00"), utc("2026-11-01 00:00:00"))
    assert set(UsageInterval.objects.exclude(batch=None).values_list("consumer_name", flat=True)) == {
        "1",
        "night",
    }


@pytest.mark.django_db
def test_names_are_told_apart(workspace: Workspace, tmp_path: Path) -> None:
    assert [take(tmp_path, row(n)).batch.name for n in (1, 2, 3)] == [  # type: ignore[union-attr]
        "usage.csv",
        "usage.csv (2)",
        "usage.csv (3)",
    ]
    take(tmp_path, row(4), name="mine")
    assert take(tmp_path, row(4), name="mine").batch is None  # told again: there is nothing to name
    for name in ("mine", "x" * 101, "two\nlines"):
        with pytest.raises(Invalid) as found:
            take(tmp_path, row(5), name=name)
        assert list(found.value.fields) == ["name"]
    assert UsageInterval.objects.count() == 4


@pytest.mark.django_db
def test_a_batch_is_taken_back_whole_and_may_come_again(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path
) -> None:
    interval_make(workspace, h100, utc(OCT_5 + "00:00:00"), utc(OCT_5 + "01:00:00"))
    before = list(UsageInterval.objects.values())
    first = take(tmp_path, row(1), row(2)).batch
    second = take(tmp_path, row(2), row(3)).batch
    assert first is not None
    assert second is not None
    assert second.intervals == 1
    usage_keep(now=NOW)
    back = import_take_back(actor=as_olga, batch=first, now=NOW)
    assert (back.taken_back_at, back.taken_back_by) == (NOW, "olga")
    assert set(UsageInterval.objects.exclude(batch=None).values_list("consumer_name", flat=True)) == {"3"}
    assert KeptMonth.objects.get(month=OCTOBER).until < NOW  # what was added up of it is void
    assert import_take_back(actor=as_olga, batch=first).taken_back_at == NOW
    assert AuditEntry.objects.filter(action="usage.import_take_back").count() == 1
    assert first.sums.count() == 1
    assert take(tmp_path, row(1), row(2)).written == 2
    for batch in UsageImport.objects.filter(taken_back_at=None):
        import_take_back(actor=as_olga, batch=batch)
    assert list(UsageInterval.objects.values()) == before


@pytest.mark.django_db
def test_an_invoice_that_rests_on_it_is_named(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    own = interval_make(workspace, h100, utc("2026-10-02"), utc("2026-10-02 01:00:00"))
    early = take(tmp_path, row(1)).batch
    assert early is not None
    month_close(as_olga, OCTOBER)
    (number,) = InvoiceLine.objects.values_list("invoice__number", flat=True)
    with pytest.raises(Conflict, match=f"{number} rests on it. Correct what was invoiced by credit notes"):
        import_take_back(actor=as_olga, batch=early)
    # of the same month, and not invoiced yet: the close of October has not seen it
    late = take(tmp_path, row(2)).batch
    assert late is not None
    import_take_back(actor=as_olga, batch=late)
    late = take(tmp_path, row(2)).batch
    assert late is not None
    month_close(as_olga, NOVEMBER)
    with pytest.raises(Conflict, match="rests on it"):
        import_take_back(actor=as_olga, batch=late)
    assert UsageInterval.objects.count() == 3
    assert InvoiceLine.objects.filter(invoice__month=NOVEMBER).count() == 1
    assert own.batch is None
    UsageInterval.objects.all().delete()  # as the archive does
    FinalMonth.objects.create(
        month=OCTOBER, ends_at=utc("2026-10-31 23:00:00"), marked_at=NOW, marked_by="olga"
    )
    for batch in (early, late):
        with pytest.raises(Conflict, match="it has usage of a month that is final"):
            import_take_back(actor=as_olga, batch=batch)


@pytest.mark.django_db
def test_unpriced_usage_rests_on_its_invoice_too(
    workspace: Workspace, as_olga: Actor, tmp_path: Path
) -> None:
    batch = take(tmp_path, row(1)).batch
    assert batch is not None
    month_close(as_olga, OCTOBER, accept="no price yet")
    with pytest.raises(Conflict, match="rests on it"):
        import_take_back(actor=as_olga, batch=batch)


@pytest.mark.django_db
def test_only_operators_import_and_take_back(
    workspace: Workspace, as_alice: Actor, bob: User, tmp_path: Path
) -> None:
    bob.platform_role = "auditor"
    bob.save()
    batch = take(tmp_path, row(1)).batch
    assert batch is not None
    for actor, error in ((as_alice, NotFound), (actor_for(user=bob), Forbidden)):
        with pytest.raises(error):
            files_import(actor=actor, usage=file_of(tmp_path, row(2)), now=NOW)
        with pytest.raises(error):
            import_take_back(actor=actor, batch=batch)
    assert UsageInterval.objects.count() == 1


EARLY = ("2025-11-30T22:59:59Z", "2025-11-30T23:00:00Z")


@pytest.mark.django_db
def test_months_that_nobody_expects_are_asked_about(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path
) -> None:
    """Nothing is closed: December 2025 is a year ago, and begins at 23:00 UTC in Berlin."""
    typo, next_day = (
        row(f"typo-{day}", start=f"2003-10-{day}T10:00:00Z", end=f"2003-10-{day}T12:00:00Z")
        for day in (10, 11)
    )
    old = row("old", start=EARLY[0], end=EARLY[1])
    assert refused(tmp_path, row(1), typo, old, next_day) == [
        "3: 2 rows from here on start in October 2003, which is more than a year ago and would be the first month to close",
        "4: this row starts in November 2025, which is more than a year ago and would be the first month to close",
    ]
    assert take(tmp_path, row("new", start=EARLY[1], end="2025-11-30T23:00:01Z"), check=True).written == 1
    interval_make(workspace, h100, utc("2026-08-02"), utc("2026-08-02 01:00:00"))
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    for month in (date(2026, 8, 1), date(2026, 9, 1), OCTOBER):
        month_close(as_olga, month)
    august = row("august", start="2026-08-05T10:00:00Z", end="2026-08-05T12:00:00Z")
    july = row("july", start="2026-07-05T10:00:00Z", end="2026-07-05T12:00:00Z")
    said = refused(tmp_path, row(1), august, july)
    assert "August 2026, which was closed before October 2026" in said[0]
    assert "July 2026, which is before the first closed month, August 2026" in said[1]
    made = take(tmp_path, row(1), august, july, reopen=True)
    assert take(tmp_path, row(1), august, july).written == 0  # known: they reopen nothing
    assert made.batch is not None
    assert invoices_of(batch=made.batch) == []
    month_close(as_olga, date(2026, 7, 1))  # earlier than what was closed before, and closed later
    assert len(invoices_of(batch=made.batch)) == 1


@pytest.mark.django_db
def test_the_command_asks_lists_and_takes_back(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [same("a-1"), same("b-1"), row("typo", start="2003-10-05T10:00:00Z", end="2003-10-05T12:00:00Z")]
    usage, out = file_of(tmp_path, *rows), StringIO()
    with pytest.raises(CommandError, match=r"--allow-overlap imports the 1 that would.*--reopen imports"):
        call_command("usage_import", usage=usage, check=True)
    assert f"usage.csv:3: {TWICE}line 2" in capsys.readouterr().err
    call_command("usage_import", usage=usage, allow_overlap=[], reopen=True, name="all of it", stdout=out)
    assert (
        "2026-10  weather-lm  gpu_held: 8.00 unit-hours in 2 intervals, beside 0.00 that are there"
        in out.getvalue()
    )
    assert "3 of 3 rows were imported as all of it" in out.getvalue()
    call_command("usage_import", list=True, stdout=out)
    assert "all of it: 3 intervals from 2003-10-05 10:00 to 2026-10-05 12:00 UTC, imported" in out.getvalue()
    with pytest.raises(CommandError, match="no import is called nothing"):
        call_command("usage_import", take_back="nothing")
    call_command("usage_import", take_back="all of it", stdout=out)
    assert "all of it was taken back: its 3 intervals are deleted" in out.getvalue()
    assert not UsageInterval.objects.exists()
    call_command("usage_import", list=True, stdout=out)
    assert "by portal, taken back" in out.getvalue()

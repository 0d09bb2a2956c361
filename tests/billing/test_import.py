"""Usage of elsewhere becomes usage of the portal: all or nothing, once whatever is repeated, late like all that is late."""

import threading
from contextlib import suppress
from datetime import date, timedelta
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from billing.files import Refused, files_import
from billing.models import InvoiceLine
from billing.selectors import statement
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.metering import imports
from gpuaas.metering.models import EndedBy, Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc, workspace_make
from tests.billing.test_closing_at_once import at_once
from tests.billing.test_files import USAGE
from tests.lasting import lasting

NOW = utc("2026-12-20 12:00:00")
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
START, END = "2026-10-05T10:00:00Z", "2026-10-05T12:00:00Z"
NO_TIME = timedelta()


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


def row(number: int | str = 1, **more: str) -> str:
    """Rows of other numbers are of other times."""
    later = (
        timedelta(hours=2 * (number - 1))
        if isinstance(number, int) and not {"start", "end"} & set(more)
        else NO_TIME
    )
    cells = {
        "project": "weather-lm",
        "workspace": "train",
        "flavor": "h100.1",
        "meter": "gpu_held",
        "price_class": "on_demand",
        "quantity": "2",
        "start": f"{utc('2026-10-05 10:00:00') + later:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{utc('2026-10-05 12:00:00') + later:%Y-%m-%dT%H:%M:%SZ}",
        **more,
    }
    return ",".join([str(number), *cells.values()])


def file_of(folder: Path, *rows: str) -> Path:
    path = folder / "usage.csv"
    path.write_text("\n".join([USAGE, *rows]) + "\n", encoding="utf-8")
    return path


def refused(folder: Path, *rows: str) -> list[str]:
    """The complaints; nothing may have been written."""
    before = list(UsageInterval.objects.order_by("pk").values())
    with pytest.raises(Refused) as found:
        files_import(actor=SYSTEM, usage=file_of(folder, *rows), now=NOW)
    assert list(UsageInterval.objects.order_by("pk").values()) == before
    return [str(each) for each in found.value.rows]


@pytest.mark.django_db
def test_a_row_becomes_an_interval(workspace: Workspace, h100: Flavor, tmp_path: Path) -> None:
    cells = ("quantity=3", "start=2026-10-05T12:00:00+02:00")
    storage = row("disk", meter="storage_held", flavor="", quantity="500")
    by_id = row(
        "by-id", workspace=str(workspace.pk), meter="gpu_allocated", **dict(each.split("=") for each in cells)
    )
    done = files_import(actor=SYSTEM, usage=file_of(tmp_path, storage, by_id), now=NOW)
    assert (done.rows, done.written) == (2, 2)
    gpus, disk = UsageInterval.objects.order_by("consumer_name")
    assert (gpus.workspace, gpus.project, gpus.site, gpus.flavor) == (
        workspace,
        workspace.project,
        workspace.site,
        h100,
    )
    assert (gpus.consumer_name, gpus.meter, gpus.resource_name) == (
        "by-id",
        "gpu_allocated",
        h100.pool.resource_name,
    )
    assert (gpus.quantity, gpus.started_at, gpus.ended_at, gpus.last_seen_at, gpus.ended_by) == (
        3,
        utc("2026-10-05 10:00:00"),
        utc("2026-10-05 12:00:00"),
        utc("2026-10-05 12:00:00"),
        EndedBy.OBSERVED,
    )
    assert (disk.flavor, disk.resource_name, disk.quantity) == (None, "storage_held", 500)
    entry = AuditEntry.objects.get(action="usage.import")
    assert entry.project_id == workspace.project_id
    assert entry.after == {
        "file": "usage.csv",
        "intervals": 2,
        "from": "2026-10-05T10:00:00+00:00",
        "until": "2026-10-05T12:00:00+00:00",
    }


@pytest.mark.django_db
def test_what_was_taken_in_is_taken_in_once(workspace: Workspace, tmp_path: Path) -> None:
    brief = row(2, start="2026-10-05T12:00:00Z", end="2026-10-05T13:00:00Z")
    rows = [row(1), brief, row(1), row(3, quantity="0"), row(4, end=START)]
    first = files_import(actor=SYSTEM, usage=file_of(tmp_path, *rows), now=NOW)
    assert (first.rows, first.written) == (5, 2)
    known = list(UsageInterval.objects.order_by("pk").values())
    # another order, other ways to write the same, one more
    again = [row(5), *reversed(rows), row(1, start="2026-10-05T15:45:00+05:45")]
    second = files_import(actor=SYSTEM, usage=file_of(tmp_path, *again), now=NOW)
    assert (second.rows, second.written) == (7, 1)
    assert list(UsageInterval.objects.exclude(consumer_name="5").order_by("pk").values()) == known
    assert [entry.after["intervals"] for entry in AuditEntry.objects.order_by("pk") if entry.after] == [2, 1]


# in the order of a file's lines, the second being its first row; one that is blank is good
BAD = {
    row(1, project="nobody"): "there is no project nobody",
    row(2, project="protein-fold"): "the project protein-fold has no workspace train",
    row(3, workspace=""): "workspace is empty; the portal counts by workspace",
    row(4, workspace="old"): "had 2 workspaces old; write the id",
    row(5, meter="gpu_idle"): "usage of the meter gpu_idle is not taken in",
    row(6, meter="storage_held"): "storage_held is of no flavor",
    row(7, flavor=""): "gpu_held is of a flavor",
    row(8, flavor="b200.1"): "there is no flavor b200.1",
    row(9, price_class="spot"): "the price class here is on_demand, not spot",
    row(10, quantity="1000000001"): "quantity 1000000001 is more than anybody has: at most 1000000000",
    row(11, quantity="-1"): "not a whole number",
    row(12, quantity="1.5"): "not a whole number",
    row("x" * 254): "longer than 253",
    row(13, start="1999-12-31T23:59:59Z"): "before the year 2000",
    row(14, end="2026-12-20T12:00:01Z"): "the end is still to come",
    row(15, end="2026-10-05T09:59:59Z"): "is before the start",
    row(16, start="2026-02-30T10:00:00Z"): "not an RFC 3339 time",
    row(17, start="2026-10-05T10:00:00"): "not an RFC 3339 time",
    row(18) + ",more": "10 cells instead of 9",
    row("good"): "",
    row("good", quantity="3"): "the id good has another meaning in line 21",
}


@pytest.mark.django_db
def test_every_bad_row_is_told_with_its_line(
    workspace: Workspace, other_project: Project, h100: Flavor, alice: User, tmp_path: Path
) -> None:
    for _ in range(2):
        Workspace.objects.filter(pk=workspace_make(workspace.project, h100, alice, name="old").pk).update(
            state="deleted"
        )
    files_import(actor=SYSTEM, usage=file_of(tmp_path, row("known")), now=NOW)
    told = refused(tmp_path, *BAD)
    wanted = [(line, text) for line, text in enumerate(BAD.values(), start=2) if text]
    assert len(told) == len(wanted)
    for said, (line, text) in zip(told, wanted, strict=True):
        assert said.startswith(f"usage.csv:{line}: ")
        assert text in said
    assert refused(tmp_path, row("new"), row("known", quantity="7")) == [
        "usage.csv:3: the id known was taken in before with another meaning"
    ]
    assert AuditEntry.objects.filter(action="usage.import").count() == 1


@pytest.mark.django_db
def test_the_workspace_that_lives_is_meant(
    workspace: Workspace, h100: Flavor, alice: User, tmp_path: Path
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="deleted")
    files_import(actor=SYSTEM, usage=file_of(tmp_path, row(1)), now=NOW)
    heir = workspace_make(workspace.project, h100, alice)
    files_import(actor=SYSTEM, usage=file_of(tmp_path, row(2)), now=NOW)
    found = dict(UsageInterval.objects.values_list("consumer_name", "workspace"))
    assert found == {"1": workspace.pk, "2": heir.pk}


@pytest.mark.django_db
def test_the_command_says_what_it_did_or_would_do(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usage, out = file_of(tmp_path, row(1), row(2)), StringIO()
    call_command("usage_import", usage=usage, check=True, stdout=out)
    assert "2 of 2 rows would be imported as usage.csv" in out.getvalue()
    assert not UsageInterval.objects.exists()
    assert not AuditEntry.objects.filter(action="usage.import").exists()
    call_command("usage_import", usage=usage, stdout=out)
    assert "2 of 2 rows were imported as usage.csv; 0 are already known" in out.getvalue()
    with pytest.raises(CommandError, match="1 rows are refused; nothing was imported"):
        call_command("usage_import", usage=file_of(tmp_path, row(3), row(4, project="nobody")))
    assert "usage.csv:3: there is no project nobody" in capsys.readouterr().err
    assert UsageInterval.objects.count() == 2
    with pytest.raises(CommandError, match="No such file"):
        call_command("usage_import", usage=tmp_path / "none.csv")


@pytest.mark.django_db
def test_usage_of_a_closed_month_is_a_correction(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path
) -> None:
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    interval_make(workspace, h100, utc("2026-10-02"), utc("2026-10-02 01:00:00"))
    month_close(as_olga, OCTOBER)
    files_import(actor=SYSTEM, usage=file_of(tmp_path, row(1)), now=NOW)
    month_close(as_olga, NOVEMBER)
    late = InvoiceLine.objects.get(invoice__month=NOVEMBER)
    assert (late.charge_month, late.unit_seconds, late.amount_minor) == (OCTOBER, 2 * 7200, 960)
    assert late.corrects is not None
    assert late.corrects.invoice.month == OCTOBER
    files_import(actor=SYSTEM, usage=file_of(tmp_path, row(1)), now=NOW)
    month_close(as_olga, date(2026, 12, 1))
    assert not InvoiceLine.objects.filter(invoice__month=date(2026, 12, 1)).exists()


@pytest.mark.django_db
def test_it_costs_what_files_say(workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path) -> None:
    """The same usage.csv by `manage.py rate` and by the portal."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.399999", valid_from=utc("2026-01-01"))
    rows = [
        row(
            n, quantity=str(n), start=f"2026-10-{6 + n:02}T00:00:00Z", end=f"2026-10-{6 + n:02}T12:34:{n:02}Z"
        )
        for n in range(1, 9)
    ]
    usage, out = file_of(tmp_path, *rows), tmp_path / "lines.csv"
    rates = tmp_path / "rates.csv"
    rates.write_text(
        "flavor,meter,price_class,from,to,price\nh100.1,gpu_held,on_demand,2026-01-01T00:00:00Z,,2.399999\n"
    )
    files_import(actor=SYSTEM, usage=usage, now=NOW)
    given = {"timezone": "Europe/Berlin", "currency": "EUR", "month": "2026-10"}
    call_command("rate", usage=usage, rates=rates, out=out, **given, stdout=StringIO())
    (line,) = out.read_text().splitlines()[1:]
    found = statement(actor=as_olga, project=workspace.project, month=OCTOBER)
    assert line == f"weather-lm,h100.1,gpu_held,on_demand,2.399999,{found.gpu_seconds},{found.total}"


@pytest.mark.django_db(transaction=True)
def test_two_at_once_take_in_each_row_once(workspace: Workspace, tmp_path: Path) -> None:
    rows = [row(number) for number in range(300)]
    files = []
    for number, order in enumerate((rows, rows[::-1], rows[100:] + rows[:100])):
        (tmp_path / str(number)).mkdir()
        files.append(file_of(tmp_path / str(number), *order))

    def take(file: Path) -> int:
        return files_import(actor=SYSTEM, usage=file, now=NOW).written

    written = at_once([lambda file=file: take(file) for file in files])  # type: ignore[misc]
    assert sum(written) == 300
    assert UsageInterval.objects.count() == 300


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dies_after", ["import_stage", "import_problems", "import_write"])
def test_killed_in_the_middle_nothing_is_there_and_it_is_done_again(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_after: str
) -> None:
    from billing.files import take

    usage, whole = file_of(tmp_path, *map(row, range(50))), getattr(imports, dies_after)

    def then_dies(**given: object) -> object:
        done = whole(**given)
        with suppress(psycopg.OperationalError):
            connection.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return done

    monkeypatch.setattr(take, dies_after, then_dies)
    with pytest.raises((OperationalError, psycopg.OperationalError)):
        files_import(actor=SYSTEM, usage=usage, now=NOW)
    connection.close()
    monkeypatch.undo()
    assert not UsageInterval.objects.exists()
    assert not AuditEntry.objects.filter(action="usage.import").exists()
    assert files_import(actor=SYSTEM, usage=usage, now=NOW).written == 50


@pytest.mark.django_db(transaction=True)
def test_a_month_that_is_closed_meanwhile_corrects_it_in_the_next(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import has written and not committed while October is closed: nothing is lost, nothing charged twice."""
    from billing.files import take

    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    interval_make(workspace, h100, utc("2026-10-02"), utc("2026-10-02 01:00:00"))
    written, closed, whole = threading.Event(), threading.Event(), imports.import_write

    def then_waits(**given: object) -> object:
        done = whole(**given)  # type: ignore[arg-type]
        written.set()
        closed.wait(120)
        return done

    def close() -> None:
        written.wait(120)
        month_close(as_olga, OCTOBER)
        closed.set()

    monkeypatch.setattr(take, "import_write", then_waits)
    at_once([lambda: files_import(actor=SYSTEM, usage=file_of(tmp_path, row(1)), now=NOW), close])
    assert [line.unit_seconds for line in InvoiceLine.objects.all()] == [3600]
    month_close(as_olga, NOVEMBER)
    late = InvoiceLine.objects.get(invoice__month=NOVEMBER)
    assert (late.charge_month, late.unit_seconds) == (OCTOBER, 2 * 7200)


def test_the_bounds_of_time_are_those_of_months() -> None:
    from gpuaas.core.clock import FIRST_YEAR

    assert imports.EARLIEST.year == FIRST_YEAR
    assert timedelta(days=31).total_seconds() * imports.MOST < 2**63

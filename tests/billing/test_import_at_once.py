"""Imports, take-backs and closes at the same time, and one that dies."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from billing.files import Refused, files_import, import_take_back
from billing.models import InvoiceLine
from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import Conflict
from gpuaas.metering import imports
from gpuaas.metering.models import Meter, UsageImport, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tests.billing.closed import month_close
from tests.billing.stage import interval_make, utc
from tests.billing.test_closing_at_once import at_once
from tests.billing.test_import import NOW, OCTOBER, file_of, row, workspace
from tests.billing.test_import_batches import take, unit_seconds

__all__ = ["workspace"]  # the fixture


@pytest.mark.django_db(transaction=True)
def test_the_same_file_twice_at_once_is_one_batch(workspace: Workspace, tmp_path: Path) -> None:
    """Under its own name or a fresh one, with the same ids or fresh ones."""
    files = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        prefix = "x" if name == "c" else "y"
        files.append(
            file_of(tmp_path / name, *(row(n).replace(f"{n},", f"{prefix}{n},", 1) for n in range(1, 40)))
        )

    def one(file: Path) -> int:
        with suppress(Refused):
            return files_import(actor=SYSTEM, usage=file, name="same", now=NOW).written
        return 0

    assert sorted(at_once([lambda file=file: one(file) for file in files])) == [0, 0, 39]  # type: ignore[misc]
    assert UsageInterval.objects.count() == UsageImport.objects.get().intervals == 39


@pytest.mark.django_db(transaction=True)
def test_taken_back_twice_and_imported_at_once(workspace: Workspace, as_olga: Actor, tmp_path: Path) -> None:
    batch = take(tmp_path, row(1), row(2)).batch
    assert batch is not None
    file = file_of(tmp_path, row(1), row(2), row(3))
    works: list[Callable[[], object]] = [
        lambda: import_take_back(actor=as_olga, batch=batch) for _ in range(2)
    ]
    works.append(lambda: files_import(actor=SYSTEM, usage=file, now=NOW))
    at_once(works)
    standing = UsageImport.objects.filter(taken_back_at=None)
    assert UsageInterval.objects.count() == sum(each.intervals for each in standing)
    assert set(UsageInterval.objects.values_list("batch", flat=True)) == {each.pk for each in standing}


@pytest.mark.django_db(transaction=True)
def test_a_close_and_a_take_back_at_once(
    workspace: Workspace, h100: Flavor, as_olga: Actor, tmp_path: Path
) -> None:
    """Either an invoice rests on the batch and it stands, or it is gone and nothing of it was charged."""
    rate_set(actor=as_olga, flavor=h100, meter=Meter.GPU_HELD, price="2.40", valid_from=utc("2026-01-01"))
    interval_make(workspace, h100, utc("2026-10-02"), utc("2026-10-02 01:00:00"))
    batch = take(tmp_path, *map(row, range(1, 60))).batch
    assert batch is not None

    def back() -> None:
        with suppress(Conflict):
            import_take_back(actor=as_olga, batch=batch)

    at_once([back, lambda: month_close(as_olga, OCTOBER), back])
    batch.refresh_from_db()
    charged = sum(InvoiceLine.objects.values_list("unit_seconds", flat=True))
    assert charged == (3600 if batch.taken_back_at else 3600 + 59 * 2 * 7200)
    assert charged == unit_seconds()


@pytest.mark.django_db(transaction=True)
def test_who_dies_while_taking_back_has_taken_back_nothing(
    workspace: Workspace, as_olga: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = take(tmp_path, row(1), row(2)).batch
    assert batch is not None
    whole = imports.import_remove

    def then_dies(**given: object) -> None:
        whole(**given)  # type: ignore[arg-type]
        with pytest.raises(psycopg.OperationalError):
            connection.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(imports, "import_remove", then_dies)
    with pytest.raises((OperationalError, psycopg.OperationalError)):
        import_take_back(actor=as_olga, batch=batch)
    connection.close()
    monkeypatch.undo()
    assert UsageInterval.objects.count() == 2
    import_take_back(actor=as_olga, batch=batch)
    assert not UsageInterval.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_close_under_way_is_said(workspace: Workspace, as_olga: Actor, tmp_path: Path) -> None:
    batch = take(tmp_path, row(1)).batch
    assert batch is not None

    def back() -> str:
        with pytest.raises(Conflict) as found:
            import_take_back(actor=as_olga, batch=batch)
        return found.value.message

    with transaction.atomic():
        imports.closes_share()
        (said,) = at_once([back])
    assert said == "a close is under way; wait until it is done"

"""Usage of a final month is not taken in again, from wherever it is told; what is open still ends, and what goes on counts."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from billing.files import Refused, files_import
from gpuaas.catalog.models import Flavor
from gpuaas.metering import crosscheck
from gpuaas.metering.final import final_until, intervals_require
from gpuaas.metering.models import FinalMonth, UsageInterval
from gpuaas.metering.services import held_sync, usage_apply
from gpuaas.workspaces.models import Holding, Workspace
from tenants.actors import SYSTEM
from tests.billing.test_files import USAGE
from tests.metering.stage import gone, pod, seen, utc

START, END = utc("2026-06-02 10:00:00"), utc("2026-06-02 11:00:00")
BOUND, LATER = utc("2026-06-30 22:00:00"), utc("2026-07-02 10:00:00")


@pytest.fixture(autouse=True)
def june(db: None, monkeypatch: pytest.MonkeyPatch) -> FinalMonth:
    """Final; it is November."""
    monkeypatch.setattr(timezone, "now", lambda: utc("2026-11-02 10:00:00"))
    return FinalMonth.objects.create(month=START.date().replace(day=1), ends_at=BOUND, marked_at=LATER)


def test_what_ended_in_a_final_month_is_refused_and_what_is_open_ends(workspace: Workspace) -> None:
    events = [
        gone(workspace, pod("late", start=START, end=END), LATER),
        gone(workspace, pod("at-the-bound", start=START, end=BOUND), LATER),
        gone(workspace, pod("into-july", start=START, end=BOUND + timedelta(seconds=1)), LATER),
        seen(workspace, pod("open", start=START), START),
        gone(workspace, pod("open", start=START, end=END), LATER),
    ]
    usage_apply(site_id=workspace.site_id, events=events[3:4])
    for _ in range(2):
        usage_apply(site_id=workspace.site_id, events=events)
    rows = UsageInterval.objects.order_by("consumer_uid").values_list("consumer_uid", "ended_at")
    assert list(rows) == [("into-july", BOUND + timedelta(seconds=1)), ("open", END)]


def test_an_archived_holding_is_not_copied_again(workspace: Workspace, h100: Flavor) -> None:
    known = {"workspace": workspace, "flavor": h100, "meter": "gpu_held", "quantity": 8, "started_at": START}
    Holding.objects.create(**known, ended_at=END)
    kept = Holding.objects.create(**{**known, "meter": "vcpu_held"}, ended_at=BOUND + timedelta(hours=1))
    assert [held_sync(), held_sync()] == [1, 0]
    assert UsageInterval.objects.get().consumer_uid == f"holding:{kept.pk}"


def test_the_cross_check_does_not_miss_what_is_archived(workspace: Workspace) -> None:
    events = [
        seen(workspace, pod("done", start=START, end=END), LATER),
        seen(workspace, pod("lost", start=BOUND, end=LATER), LATER),
    ]
    assert {uid for uid, *_ in crosscheck._facts(workspace.site_id, events)} == {"lost"}


def test_a_file_with_usage_of_a_final_month_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    row = "{},weather-lm,train,h100.1,gpu_held,on_demand,2,{},2026-07-02T12:00:00Z"
    path.write_text(
        "\n".join([USAGE, row.format(1, "2026-06-30T21:59:59Z"), row.format(2, "2026-06-30T22:00:00Z")])
    )
    with pytest.raises(Refused) as found:
        files_import(actor=SYSTEM, usage=path)
    (said,) = map(str, found.value.rows)
    assert "used until 2026-06-30 22:00 UTC is not taken in any more" in said


def test_a_month_that_is_final_and_not_archived_is_all_here(june: FinalMonth) -> None:
    assert final_until() == BOUND
    intervals_require(starts_at=START)

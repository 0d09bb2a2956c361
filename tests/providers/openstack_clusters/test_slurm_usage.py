"""What a head reports of the use of people: by the accounting of Slurm, by the days of the billing time zone, as often as it is asked."""

import json
import os
import subprocess
import sys
from ast import literal_eval
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpuaas.providers.openstack.clusters import slurm_usage

BERLIN = ZoneInfo("Europe/Berlin")
ONE, EIGHT = "billing=2,cpu=2,gres/gpu:h100=1,gres/gpu=1,mem=4G,node=1", "cpu=64,gres/gpu=8,node=1"


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


def used(
    tmp_path: Path, lines: list[str], *days: str, zone: str = "Europe/Berlin"
) -> dict[tuple[str, str], int]:
    """As the head runs it, with sacct played."""
    (tmp_path / "said").write_text("".join(f"{line}\n" for line in lines))
    sacct = tmp_path / "sacct"
    sacct.write_text(f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" > {tmp_path}/asked\ncat {tmp_path}/said\n')
    sacct.chmod(0o755)
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TZ": zone}
    command = [sys.executable, slurm_usage.__file__, *days]
    done = subprocess.run(command, env=around, text=True, capture_output=True, check=True)
    rows = json.loads(f"{{{done.stdout.rstrip().rstrip(',')}}}")["usage"]
    return {(row["day"], row["login"]): row["gpu_seconds"] for row in rows}


def test_jobs_are_cut_at_midnight_and_added_up_by_person(tmp_path: Path) -> None:
    today = datetime.now(BERLIN).date()
    before = today - timedelta(days=1)
    late, early = at(f"{before}T23:00:00"), at(f"{today}T00:00:00")
    lines = [
        f"bob|{late}|{early + 60}|{ONE}",
        f"bob|{late}|{late + 10}|{EIGHT}",
        f"carol|{late}|{late + 10}|cpu=4,mem=4G",
        f"carol|{at(f'{before - timedelta(days=3)}T10:00:00')}|{early}|{ONE}",
        "carol|Unknown|Unknown|",
        "carol|None|1|",
    ]
    assert used(tmp_path, lines, str(before)) == {
        (str(before), "bob"): 3600 + 80,
        (str(today), "bob"): 60,
        (str(before), "carol"): early - at(f"{before}T00:00:00"),
    }
    assert (
        f"%s --allusers --allocations --duplicates --noheader --parsable2 --starttime={before}T00:00:00"
        in (tmp_path / "asked").read_text()
    )


def test_a_job_that_runs_has_run_until_now() -> None:
    lines = [f"bob|100|Unknown|{EIGHT}"]
    assert sum(slurm_usage.usage_read(lines, date(1969, 1, 1), date(1970, 1, 2), 160).values()) == 480


def test_one_day_alone_can_be_asked_for(tmp_path: Path) -> None:
    today = datetime.now(BERLIN).date()
    before = today - timedelta(days=1)
    lines = [f"bob|{at(f'{before}T23:00:00')}|Unknown|{ONE}"]
    assert used(tmp_path, lines, str(before), str(before)) == {(str(before), "bob"): 3600}
    assert f"--endtime={today}T00:00:00" in (tmp_path / "asked").read_text()
    used(tmp_path, lines, str(today), str(today))
    assert "--endtime=now" in (tmp_path / "asked").read_text()


def test_after_a_long_outage_it_does_not_ask_for_years(tmp_path: Path) -> None:
    used(tmp_path, [], "2020-01-01", zone="UTC")
    first = datetime.now(ZoneInfo("UTC")).date() - timedelta(days=31)
    assert f"--starttime={first}T00:00:00" in (tmp_path / "asked").read_text()


def test_a_day_has_the_hours_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from slurm_usage import days_of\n"
        "print([(str(day), seconds // 3600) for day, seconds in days_of(int(sys.argv[2]), int(sys.argv[3]))])"
    )
    folder = str(Path(slurm_usage.__file__).parent)
    for first, last, hours in (
        ("2026-03-28", "2026-03-30", [24, 23]),
        ("2026-10-24", "2026-10-26", [24, 25]),
    ):
        span = [str(at(f"{day}T00:00:00")) for day in (first, last)]
        monkeypatch.setenv("TZ", "Europe/Berlin")
        done = subprocess.run(
            [sys.executable, "-c", code, folder, *span], text=True, capture_output=True, check=True
        )
        assert [hour for _, hour in literal_eval(done.stdout)] == hours

#!/usr/bin/python3
"""Run on the head of a Slurm cluster before each report, as gpuaas-usage DAY [LAST]: writes how many GPU-seconds the jobs of each user
had on each day from DAY to LAST, or until now, as sacct has them, as a part of the report. Days are those of the time zone TZ.

The head runs this very file, so it imports nothing but the standard library. It keeps nothing, and may be run for any day again: the
numbers of a day only grow, and the latest count.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta

FIELDS = ("user", "start", "end", "alloctres")
LOOKS_BACK, MOST = timedelta(days=31), 10_000  # after an outage; and of the report's entries


def days_of(start: int, end: int) -> Iterator[tuple[date, int]]:
    """The seconds of [start, end) by day. A day has 23 hours or 25 where clocks are changed."""
    while start < end:
        day = datetime.fromtimestamp(start).date()  # noqa: DTZ006 — TZ is the zone of the days
        following = datetime.combine(day + timedelta(days=1), datetime.min.time())
        until = min(end, int(following.timestamp()))
        yield day, until - start
        start = until


def usage_read(lines: Iterable[str], since: date, last: date, now: int) -> Counter[tuple[date, str]]:
    """Of what sacct writes, with times in seconds. A job that has not ended has run until now; one that waits has not started."""
    found: Counter[tuple[date, str]] = Counter()
    for line in lines:
        user, start, end, resources = line.split("|")
        gpus = int(dict(part.partition("=")[::2] for part in resources.split(",")).get("gres/gpu") or 0)
        if not user or not gpus or not start.isdigit():
            continue
        for day, seconds in days_of(int(start), int(end) if end.isdigit() else now):
            if since <= day <= last:
                found[day, user] += gpus * seconds
    return found


def sacct(since: date, end: str) -> list[str]:
    """Runs of a job that was requeued are jobs of their own."""
    command = ("sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2")
    around = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    asked = (*command, f"--starttime={since}T00:00:00", f"--endtime={end}", f"--format={','.join(FIELDS)}")
    done = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True, env=around)
    return done.stdout.splitlines()


def main(now: int, first: str, last: str = "") -> str:
    today = datetime.fromtimestamp(now).date()  # noqa: DTZ006 — as above
    since = max(date.fromisoformat(first), today - LOOKS_BACK)
    until = max(date.fromisoformat(last), since) if last else today
    lines = sacct(since, f"{until + timedelta(days=1)}T00:00:00" if until < today else "now")
    found = sorted(usage_read(lines, since, until, now).items())[-MOST:]
    return json.dumps([{"day": str(day), "login": user, "gpu_seconds": used} for (day, user), used in found])


if __name__ == "__main__":
    sys.stdout.write(f'"usage": {main(int(time.time()), *sys.argv[1:])}, ')

"""The policies that come with the portal. Each is an example of how to write another one."""

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from gpuaas.clusters.policies.facts import Pool, Signals, Wish
from gpuaas.core.errors import Invalid

Settings = Mapping[str, Any]
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
DAY = "|".join(DAYS)
WINDOW = rf"(?P<first>{DAY})(?:-(?P<last>{DAY}))? (?P<start>{CLOCK})-(?P<end>{CLOCK}) (?P<count>[0-9]{{1,3}})"
WINDOW_SCHEMA = rf"^(?:{DAY})(?:-(?:{DAY}))? {CLOCK}-{CLOCK} [0-9]{{1,3}}$"


def per(amount: int, each: int) -> int:
    """How many of `each` hold `amount`, rounded up."""
    return -(-amount // each)


class PendingPods:
    """As many workers as hold what runs and what waits."""

    label: ClassVar[str] = "Waiting GPUs"
    schema: ClassVar[Settings] = {
        "type": "object",
        "properties": {
            "spare_workers": {
                "type": "integer",
                "title": "Spare workers",
                "description": "Kept free for what comes next.",
                "minimum": 0,
                "maximum": 100,
                "default": 0,
            }
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.spare: int = settings["spare_workers"]

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Wish:
        del now, memory
        wanted = per(signals.demand_gpus, pool.gpus) + self.spare
        words = f"{signals.used_gpus} GPUs are used and {signals.pending_gpus} are waited for"
        return Wish(wanted, f"{words}, {self.spare} workers kept spare" if self.spare else words)


class JobQueue:
    """A worker for so many jobs that wait, beside what runs."""

    label: ClassVar[str] = "Jobs in the queue"
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["jobs_per_worker"],
        "properties": {
            "jobs_per_worker": {
                "type": "integer",
                "title": "Waiting jobs per worker",
                "description": "One more worker for each so many jobs that wait.",
                "minimum": 1,
                "maximum": 1000,
                "default": 1,
            }
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.jobs: int = settings["jobs_per_worker"]

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Wish:
        del now, memory
        wanted = per(signals.used_gpus, pool.gpus) + per(signals.queued, self.jobs)
        return Wish(wanted, f"{signals.queued} jobs wait and {signals.used_gpus} GPUs are used")


class GpuUse:
    """As many workers as keep the share of GPUs in use at a target."""

    label: ClassVar[str] = "GPUs in use"
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["target_percent"],
        "properties": {
            "target_percent": {
                "type": "integer",
                "title": "Target (%)",
                "description": "Workers are added above this share of GPUs in use, and removed well below it.",
                "minimum": 10,
                "maximum": 100,
                "default": 80,
            }
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.target: int = settings["target_percent"]

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Wish:
        del now, memory
        wanted = per(signals.used_gpus * 100, pool.gpus * self.target)
        if signals.pending_gpus and wanted <= pool.count:
            wanted = pool.count + 1  # all are taken, and more is wanted than the share can show
        share = signals.used_gpus * 100 // pool.capacity if pool.capacity else 0
        return Wish(wanted, f"{share} % of {pool.capacity} GPUs are in use, the target is {self.target} %")


class Schedule:
    """So many workers at these hours of the week, on the wall clock of a time zone; the minimum at all others."""

    label: ClassVar[str] = "Hours of the week"
    needs_signals: ClassVar[bool] = False
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["hours", "time_zone"],
        "properties": {
            "hours": {
                "type": "array",
                "title": "Hours",
                "description": "One a line: Mon-Fri 08:00-18:00 4. Where two overlap, the larger number counts.",
                "items": {"type": "string", "maxLength": 40, "pattern": WINDOW_SCHEMA},
                "maxItems": 50,
            },
            "time_zone": {
                "type": "string",
                "title": "Time zone",
                "description": "Such as Europe/Berlin; summer time is kept.",
                "maxLength": 64,
            },
        },
    }

    def __init__(self, settings: Settings) -> None:
        try:
            self.zone = ZoneInfo(settings["time_zone"])
        except (KeyError, ValueError, OSError) as error:
            raise Invalid.field("time_zone", "there is no such time zone; write Europe/Berlin") from error
        self.windows = [_Window(line) for line in settings["hours"]]

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Wish:
        del signals, memory
        local = now.astimezone(self.zone)
        words = f"{DAYS[local.weekday()]} {local:%H:%M} in {self.zone.key}"
        open_now = [window for window in self.windows if window.holds(local)]
        if not open_now:
            return Wish(pool.minimum, f"{words}: no hours are set, so the minimum")
        most = max(open_now, key=lambda window: window.count)
        return Wish(most.count, f"{words}: {most.line}")


class _Window:
    """An end at or before the start is on the next day."""

    def __init__(self, line: str) -> None:
        found = re.fullmatch(WINDOW, line)
        if found is None:
            raise Invalid.field("hours", f"{line[:40]!r} is not like Mon-Fri 08:00-18:00 4")
        self.line, self.count = line, int(found["count"])
        first = DAYS.index(found["first"])
        last = DAYS.index(found["last"] or found["first"])
        self.days = {(first + number) % 7 for number in range((last - first) % 7 + 1)}
        self.start, self.end = time.fromisoformat(found["start"]), time.fromisoformat(found["end"])

    def holds(self, local: datetime) -> bool:
        """By the wall clock: an hour that summer time skips or repeats is one hour of the plan."""
        at, today = local.time(), local.weekday()
        yesterday = (local.date() - timedelta(days=1)).weekday()
        if self.start < self.end:
            return today in self.days and self.start <= at < self.end
        return (today in self.days and at >= self.start) or (yesterday in self.days and at < self.end)

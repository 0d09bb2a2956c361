"""The policies of the portal. Each is an example for writing another one."""

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from gpuaas.clusters.policies.facts import Pool, Recommendation, Signals
from gpuaas.core.errors import Invalid

Settings = Mapping[str, Any]
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
DAY = "|".join(DAYS)
WINDOW = rf"(?P<first>{DAY})(?:-(?P<last>{DAY}))? (?P<start>{CLOCK})-(?P<end>{CLOCK}) (?P<count>[0-9]{{1,3}})"
WINDOW_SCHEMA = rf"^(?:{DAY})(?:-(?:{DAY}))? {CLOCK}-{CLOCK} [0-9]{{1,3}}$"


TIME_ZONE: Settings = {
    "type": "string",
    "title": "Time zone",
    "description": "For example Europe/Berlin; daylight saving time is observed.",
    "maxLength": 64,
}
FLOOR: Settings = {
    "hours": {
        "type": "array",
        "title": "At least, by hours",
        "description": "At these hours at least so many workers, whatever the demand. One per line: Mon-Fri 08:00-18:00 4.",
        "items": {"type": "string", "maxLength": 40, "pattern": WINDOW_SCHEMA},
        "maxItems": 50,
    },
    "time_zone": {**TIME_ZONE, "description": "Of these hours, for example Europe/Berlin."},
}


def per(amount: int, each: int) -> int:
    """How many of `each` hold `amount`, rounded up."""
    return -(-amount // each)


def healthy(need: int, signals: Signals, pool: Pool) -> tuple[int, str]:
    """How many workers there have to be for `need` that accept work, and why those are more, in words.

    Others stand in for unhealthy ones, but only one, or as many as are healthy: what makes all of them unhealthy would do so with new
    ones. Work that still runs on an unhealthy one counts beside it, since what is left of that worker takes none.
    """
    sick = {number for number in signals.unhealthy if number <= pool.count}
    most = need + max(1, pool.count - len(sick)) if need else 0
    wanted = next(
        (count for count in range(need, most) if count - sum(number <= count for number in sick) >= need),
        most,
    )
    if wanted == need:
        return need, ""
    return (
        wanted,
        f", and {len(sick)} unhealthy {'worker accepts' if len(sick) == 1 else 'workers accept'} no work",
    )


class PendingPods:
    """As many workers as running and waiting work needs."""

    label: ClassVar[str] = "Waiting GPUs"
    schema: ClassVar[Settings] = {
        "type": "object",
        "properties": {
            "spare_workers": {
                "type": "integer",
                "title": "Spare workers",
                "description": "Kept free for future demand.",
                "minimum": 0,
                "maximum": 100,
                "default": 0,
            },
            **FLOOR,
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.spare: int = settings["spare_workers"]
        self.floor = _Hours(settings)

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Recommendation:
        del memory
        wanted, unhealthy = healthy(per(signals.demand_gpus, pool.gpus) + self.spare, signals, pool)
        words = f"{signals.used_gpus} GPUs are used and {signals.pending_gpus} are requested"
        words = f"{words}, plus {self.spare} spare workers" if self.spare else words
        return self.floor.under(wanted, words + unhealthy, now)


class JobQueue:
    """One worker for each given number of waiting jobs, beside those that run."""

    label: ClassVar[str] = "Jobs in the queue"
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["jobs_per_worker"],
        "properties": {
            "jobs_per_worker": {
                "type": "integer",
                "title": "Waiting jobs per worker",
                "description": "Adds one worker for each such number of waiting jobs.",
                "minimum": 1,
                "maximum": 1000,
                "default": 1,
            },
            **FLOOR,
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.jobs: int = settings["jobs_per_worker"]
        self.floor = _Hours(settings)

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Recommendation:
        del memory
        need = per(signals.used_gpus, pool.gpus) + per(signals.queued, self.jobs)
        wanted, unhealthy = healthy(need, signals, pool)
        words = f"{signals.queued} jobs are waiting and {signals.used_gpus} GPUs are used{unhealthy}"
        return self.floor.under(wanted, words, now)


class GpuUse:
    """As many workers as keep the share of allocated GPUs at a target."""

    label: ClassVar[str] = "GPUs allocated"
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["target_percent"],
        "properties": {
            "target_percent": {
                "type": "integer",
                "title": "Target (%)",
                "description": "Workers are added above this share of allocated GPUs, and removed well below it.",
                "minimum": 10,
                "maximum": 100,
                "default": 80,
            },
            **FLOOR,
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.target: int = settings["target_percent"]
        self.floor = _Hours(settings)

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Recommendation:
        del memory
        wanted, unhealthy = healthy(per(signals.used_gpus * 100, pool.gpus * self.target), signals, pool)
        if signals.pending_gpus and wanted <= pool.count:
            wanted = pool.count + 1  # all are taken, and more is wanted than the share can show
        share = signals.used_gpus * 100 // pool.capacity if pool.capacity else 0
        words = f"{share}% of {pool.capacity} GPUs are allocated, the target is {self.target}%{unhealthy}"
        return self.floor.under(wanted, words, now)


class Schedule:
    """A number of workers at given hours of the week, in the local time of a time zone; the minimum at all other
    times."""

    label: ClassVar[str] = "Hours of the week"
    needs_signals: ClassVar[bool] = False
    schema: ClassVar[Settings] = {
        "type": "object",
        "required": ["hours", "time_zone"],
        "properties": {
            "hours": {
                "type": "array",
                "title": "Hours",
                "description": "One per line: Mon-Fri 08:00-18:00 4. If two overlap, the larger number applies.",
                "items": {"type": "string", "maxLength": 40, "pattern": WINDOW_SCHEMA},
                "maxItems": 50,
            },
            "time_zone": TIME_ZONE,
        },
    }

    def __init__(self, settings: Settings) -> None:
        self.hours = _Hours(settings)

    def decide(self, signals: Signals, pool: Pool, now: datetime, memory: Settings) -> Recommendation:
        del signals, memory
        words, window = self.hours.at(now)
        if window is None:
            return Recommendation(pool.minimum, f"{words}: no hours are configured, so the minimum applies")
        return Recommendation(window.count, f"{words}: {window.line}")


class _Hours:
    """`hours` in `time_zone`. Raises Invalid; both may be missing, but not the time zone of hours."""

    def __init__(self, settings: Settings) -> None:
        self.windows = [_Window(line) for line in settings.get("hours", ())]
        if self.windows and "time_zone" not in settings:
            raise Invalid.field("time_zone", "the hours need a time zone; write, for example, Europe/Berlin")
        try:
            self.zone = ZoneInfo(settings.get("time_zone", "UTC"))
        except (KeyError, ValueError, OSError) as error:
            raise Invalid.field(
                "time_zone", "unknown time zone; write, for example, Europe/Berlin"
            ) from error

    def at(self, now: datetime) -> tuple[str, "_Window | None"]:
        """The local time in words, and of the windows that are open then the one with most workers."""
        local = now.astimezone(self.zone)
        open_now = [window for window in self.windows if window.holds(local)]
        most = max(open_now, key=lambda window: window.count, default=None)
        return f"{DAYS[local.weekday()]} {local:%H:%M} in {self.zone.key}", most

    def under(self, wanted: int, reason: str, now: datetime) -> Recommendation:
        """`wanted`, or what these hours keep at least."""
        words, window = self.at(now)
        if window is None or window.count <= wanted:
            return Recommendation(wanted, reason)
        return Recommendation(window.count, f"{reason}; {words} at least {window.count}: {window.line}")


class _Window:
    """An end at or before the start is on the next day."""

    def __init__(self, line: str) -> None:
        match = re.fullmatch(WINDOW, line)
        if match is None:
            raise Invalid.field("hours", f"{line[:40]!r} does not have the form Mon-Fri 08:00-18:00 4")
        self.line, self.count = line, int(match["count"])
        first = DAYS.index(match["first"])
        last = DAYS.index(match["last"] or match["first"])
        self.days = {(first + number) % 7 for number in range((last - first) % 7 + 1)}
        self.start, self.end = time.fromisoformat(match["start"]), time.fromisoformat(match["end"])

    def holds(self, local: datetime) -> bool:
        """In local time: an hour that daylight saving time skips or repeats is one hour of the plan."""
        at, today = local.time(), local.weekday()
        yesterday = (local.date() - timedelta(days=1)).weekday()
        if self.start < self.end:
            return today in self.days and self.start <= at < self.end
        return (today in self.days and at >= self.start) or (yesterday in self.days and at < self.end)

"""The state of the portal in words: sick parts first, processes that were killed after those that run."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from frontend import formats
from gpuaas.core.looks import Tone
from gpuaas.core.models import Process
from gpuaas.system.health import WORK_LATE, Part, skewed
from gpuaas.system.selectors import SiteState
from gpuaas.system.work import Work


@dataclass(frozen=True)
class PartShown:
    part: Part
    tone: Tone
    word: str


@dataclass(frozen=True)
class ProcessShown:
    """clock: how it differs from the database's, in words; it is only told of a process that runs."""

    row: Process
    kind: str
    tone: Tone
    word: str
    clock: str
    clock_wrong: bool


@dataclass(frozen=True)
class WorkShown:
    kind: str
    due: int
    claimed: int
    oldest: datetime | None
    waits: str
    late: bool


@dataclass(frozen=True)
class SiteShown:
    row: SiteState
    tone: Tone
    word: str
    waits: str


def parts_shown(parts: Iterable[Part]) -> list[PartShown]:
    shown = [
        PartShown(row, Tone.OK if row.works else Tone.BAD, "works" if row.works else "sick") for row in parts
    ]
    return sorted(shown, key=lambda row: row.part.works)


def processes_shown(rows: Iterable[Process], *, now: datetime) -> list[ProcessShown]:
    shown = [_process(row, now) for row in rows]
    return sorted(shown, key=lambda row: row.tone is Tone.BAD)


def _process(row: Process, now: datetime) -> ProcessShown:
    kind = row.get_kind_display()
    if not row.is_alive(now):
        return ProcessShown(row, kind, Tone.BAD, "Killed or cut off", formats.NONE, clock_wrong=False)
    return ProcessShown(row, kind, Tone.OK, "Running", _clock(row.skew_seconds), clock_wrong=skewed(row))


def _clock(skew: float | None) -> str:
    if skew is None:
        return formats.NONE
    if abs(skew) < 0.01:
        return "exact"
    return f"{formats.duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}"


def work_shown(rows: Iterable[Work], *, now: datetime) -> list[WorkShown]:
    """What waits the longest first; then what a worker has."""
    ordered = sorted(rows, key=lambda row: (row.oldest or now, -row.claimed, row.kind))
    return [
        WorkShown(
            kind=row.kind.capitalize(),
            due=row.due,
            claimed=row.claimed,
            oldest=row.oldest,
            waits=_since(row.oldest, now),
            late=row.oldest is not None and row.oldest <= now - WORK_LATE,
        )
        for row in ordered
    ]


def sites_shown(rows: Iterable[SiteState], *, now: datetime) -> list[SiteShown]:
    shown = [SiteShown(row, *_looks(row), waits=_since(row.visited.oldest, now)) for row in rows]
    return sorted(shown, key=lambda row: row.tone is Tone.OK)


def _looks(row: SiteState) -> tuple[Tone, str]:
    if not row.reachable:
        return (Tone.BAD, "Does not answer") if row.site.probed_at else (Tone.WAIT, "Not probed yet")
    if row.slow:
        return Tone.WARN, "Answers slowly"
    return (Tone.WARN, "Meter late") if row.late else (Tone.OK, "Answers")


def _since(moment: datetime | None, now: datetime) -> str:
    return formats.NONE if moment is None else formats.duration(max((now - moment).total_seconds(), 0))

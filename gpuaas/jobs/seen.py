"""What is known of the tasks of a job, kept as ranges of their numbers, and details of some, in `Job.observed`; and of its files,
in `Job.moved`."""

from dataclasses import asdict, dataclass
from typing import Any

from gpuaas.core.ranges import ranges_read
from gpuaas.jobs.models import Job
from gpuaas.jobs.mover import transfers_of
from gpuaas.jobs.states import TaskState
from gpuaas.providers.base import ObservedJob
from gpuaas.staging import rclone
from gpuaas.staging.transfers import Way

RANGES = (TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED)


@dataclass(frozen=True)
class Task:
    """attempt: of which number; 0 while none is known, as of one that has ended long ago."""

    number: int
    state: TaskState
    node: str = ""
    exit_code: int | None = None
    reason: str = ""
    attempt: int = 0

    @property
    def key(self) -> str:
        """Sorts as text."""
        return f"{self.number:04}"


def observed_of(seen: ObservedJob) -> dict[str, Any]:
    """As a row of several tasks keeps it."""
    details = [{key: each for key, each in asdict(task).items() if key != "phase"} for task in seen.tasks]
    found = {"running": seen.running, "succeeded": seen.succeeded, "failed": seen.failed, "tasks": details}
    return found | ({"made": seen.made} if seen.made else {})


def tasks_of(row: Job) -> list[Task]:
    """All of them, by their numbers."""
    states = {number: state for state in RANGES for number in ranges_read(row.observed.get(state, ""))}
    details = {each["number"]: each for each in row.observed.get("tasks", [])}
    return [
        Task(**{**details.get(number, {}), "number": number, "state": _state(row, states.get(number))})
        for number in range(row.tasks)
    ]


def counts_of(row: Job) -> dict[TaskState, int]:
    """How many are in each state, without those in which none is."""
    found = {state: len(ranges_read(row.observed.get(state, ""))) for state in RANGES}
    rest = row.tasks - sum(found.values())
    over = (
        {TaskState.ENDED: rest + found.pop(TaskState.RUNNING)} if row.outcome else {TaskState.WAITING: rest}
    )
    return {state: count for state, count in (found | over).items() if count}


def ranges_of(row: Job) -> dict[TaskState, str]:
    """As `gpuaas/core/ranges.py` has them; nothing runs of a job that is over."""
    found = {state: str(row.observed.get(state, "")) for state in RANGES}
    return found | ({TaskState.RUNNING: ""} if row.outcome else {})


def moved_of(row: Job, way: Way) -> list[dict[str, Any]]:
    """What is to be moved, with how far it is."""
    return rclone.moved_of(transfers_of(row, way), row.moved.get(way, {}))


def _state(row: Job, seen: TaskState | None) -> TaskState:
    """What did not end by itself has ended with the job."""
    if row.outcome and seen in (None, TaskState.RUNNING):
        return TaskState.ENDED
    return seen or TaskState.WAITING

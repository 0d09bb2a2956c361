"""The operations of a workspace or cluster: the newest with its steps on one time axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from frontend import formats
from frontend.components import StepState, TimelineStep
from gpuaas.lifecycle.operations import StepRow
from gpuaas.lifecycle.operations import StepState as State

STEP_STATES = {
    State.WAITING: StepState.TODO,
    State.RUNNING: StepState.RUNNING,
    State.DONE: StepState.DONE,
    State.FAILED: StepState.FAILED,
}


class Row(Protocol):
    """A row of any room's operations."""

    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    succeeded: bool | None
    summary: str

    def get_kind_display(self) -> str: ...


class Step(Protocol):
    @property
    def step(self) -> StepRow: ...
    @property
    def usual_seconds(self) -> float | None: ...


class Operation(Protocol):
    @property
    def operation(self) -> Row: ...
    @property
    def steps(self) -> Sequence[Step]: ...
    @property
    def remaining_seconds(self) -> float | None: ...


@dataclass(frozen=True)
class OperationShown:
    title: str
    asked_by: str
    asked_at: datetime
    open: bool
    progress: str
    steps: tuple[TimelineStep, ...]
    note: str
    earlier: tuple[str, ...]


def operation_of(
    views: Sequence[Operation], *, now: datetime, history: str, may_retry: bool = False
) -> OperationShown | None:
    """The newest operation with its steps on one axis; earlier ones in a line each. `history`: the source of the usual durations."""
    if not views:
        return None
    newest = views[0]
    row = newest.operation
    steps = tuple(_step(view, row.requested_at, now, may_retry=may_retry) for view in newest.steps)
    known = [view for view in newest.steps if view.usual_seconds is not None]
    kind = row.get_kind_display()
    return OperationShown(
        title=f"{kind}: {row.summary}" if row.summary else kind,
        asked_by=row.requested_by,
        asked_at=row.requested_at,
        open=row.finished_at is None,
        progress=_progress(newest, now),
        steps=steps,
        note=f"Duration / usual: {history}." if known else "",
        earlier=tuple(_earlier(view) for view in views[1:4]),
    )


def _earlier(view: Operation) -> str:
    row = view.operation
    kind = row.get_kind_display().lower()
    if row.finished_at is None:
        return kind
    return f"{kind} {_result(row, row.finished_at)}"


def _result(row: Row, finished_at: datetime) -> str:
    """What another change overtook has not failed; its summary says which change that was."""
    took = formats.duration(finished_at - row.requested_at)
    if row.succeeded:
        return f"done in {took}"
    return f"{row.summary if row.succeeded is None else 'failed'} after {took}"


def _progress(view: Operation, now: datetime) -> str:
    row = view.operation
    if row.finished_at is not None:
        return _result(row, row.finished_at)
    done = sum(1 for item in view.steps if item.step.state == State.DONE)
    place = f"Step {min(done + 1, len(view.steps))} of {len(view.steps)}"
    remaining = view.remaining_seconds
    if remaining is None:
        return place
    running = next((item.step for item in view.steps if item.step.state == State.RUNNING), None)
    spent = (now - running.started_at).total_seconds() if running and running.started_at else 0.0
    return f"{place} · about {formats.duration(max(round(remaining - spent), 1))} left"


def _step(view: Step, origin: datetime, now: datetime, *, may_retry: bool) -> TimelineStep:
    step = view.step
    state = STEP_STATES[State(step.state)]
    started = max((step.started_at - origin).total_seconds(), 0.0) if step.started_at else 0.0
    ended = step.finished_at or (now if state is not StepState.TODO else None)
    seconds = max((ended - step.started_at).total_seconds(), 0.0) if ended and step.started_at else 0.0
    tries = f"try {step.attempts}" if step.attempts > 1 and state is not StepState.DONE else ""
    return TimelineStep(
        name=step.label,
        state=state,
        started=started,
        seconds=seconds,
        usual=view.usual_seconds,
        note=" · ".join(part for part in (step.detail, tries) if part),
        may_retry=may_retry and state is StepState.FAILED,
    )

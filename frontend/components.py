"""What the components are drawn from: frozen values, so that a page's context is checked by types.

Amounts are Decimal or int; a component formats, it never computes money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from gpuaas.core.looks import Tone

CELLS_MAX = 16
Number = int | float | Decimal


class Amount(StrEnum):
    """The meaning of a cell or a part of a bar: solid, hatched, outlined, red hatch, empty."""

    USED = "used"
    HELD = "held"
    ASKED = "asked"
    OVER = "over"
    FREE = "free"
    BAD = "bad"
    CORDONED = "cordoned"
    OTHERS = "others"


@dataclass(frozen=True)
class Segment:
    """A part of a bar in percent of its width."""

    kind: Amount
    start: float
    width: float


@dataclass(frozen=True)
class Meter:
    """Amounts against a limit. `held` is held but not in use; a limit of None means none is set."""

    used: Number
    held: Number = 0
    asked: Number = 0
    limit: Number | None = None
    label: str = ""
    text: str = ""
    unit: str = ""
    budget: Number | None = None
    marks: tuple[Number, ...] = ()

    @property
    def total(self) -> float:
        return float(self.used) + float(self.held) + float(self.asked)

    @property
    def scale(self) -> float:
        """The width of the whole meter in units; never zero."""
        top = self.total if self.limit is None else max(float(self.limit), self.total)
        return max(top, *map(float, (self.budget or 0, *self.marks))) or 1.0

    @property
    def in_cells(self) -> bool:
        countable = all(
            float(value).is_integer() for value in (self.used, self.held, self.asked, self.limit or 0)
        )
        return countable and self.budget is None and self.scale <= CELLS_MAX

    @property
    def cells(self) -> tuple[Amount, ...]:
        """One kind per GPU; everything beyond the limit is over, whatever it is used for."""
        limit = self.total if self.limit is None else float(self.limit)
        kinds: list[Amount] = []
        kinds += (
            [Amount.USED] * int(self.used) + [Amount.HELD] * int(self.held) + [Amount.ASKED] * int(self.asked)
        )
        kinds = [Amount.OVER if place >= limit else kind for place, kind in enumerate(kinds)]
        return tuple(kinds + [Amount.FREE] * (int(self.scale) - len(kinds)))

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The same for a bar: parts in percent, cut at the limit."""
        limit = self.scale if self.limit is None else float(self.limit)
        parts: list[Segment] = []
        start = 0.0
        for kind, value in ((Amount.USED, self.used), (Amount.HELD, self.held), (Amount.ASKED, self.asked)):
            end = start + float(value)
            inside = min(end, limit)
            if inside > start:
                parts.append(self._segment(kind, start, inside))
            if end > max(start, limit):
                parts.append(self._segment(Amount.OVER, max(start, limit), end))
            start = end
        return tuple(parts)

    @property
    def budget_at(self) -> float | None:
        return None if self.budget is None else round(float(self.budget) / self.scale * 100, 2)

    @property
    def marks_at(self) -> tuple[float, ...]:
        return tuple(round(float(mark) / self.scale * 100, 2) for mark in self.marks)

    @property
    def words(self) -> str:
        """The numbers beside the meter; screen readers use them as its name."""
        if self.text:
            return self.text
        unit = f" {self.unit}" if self.unit else ""
        held = plain(float(self.used) + float(self.held))
        asked = f" + {plain(self.asked)}" if self.asked else ""
        return f"{held}{asked}{unit}" if self.limit is None else f"{held}{asked} of {plain(self.limit)}{unit}"

    def _segment(self, kind: Amount, start: float, end: float) -> Segment:
        return Segment(kind, round(start / self.scale * 100, 2), round((end - start) / self.scale * 100, 2))


def plain(value: Number) -> str:
    """A number as people write it: grouped, without needless decimals; an amount of money with all of its currency's."""
    if isinstance(value, Decimal) and value.as_tuple().exponent in {-2, -3}:
        return f"{value:,}"
    number = float(value)
    return f"{int(number):,}" if number.is_integer() else f"{number:,.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class GpuCell:
    """One GPU of a node. A shared GPU lists its parts, which are drawn as strips."""

    kind: Amount
    parts: tuple[Amount, ...] = ()


CAPACITY = {
    Amount.USED: "allocated",
    Amount.HELD: "held, not allocated",
    Amount.OTHERS: "in other hands",
    Amount.BAD: "unhealthy",
    Amount.CORDONED: "cordoned",
    Amount.FREE: "free",
}


def counted(kinds: Mapping[Amount, int]) -> str:
    """`3 allocated, 5 free`: of GPUs."""
    found = (f"{kinds[kind]:,} {name}" for kind, name in CAPACITY.items() if kinds.get(kind))
    return ", ".join(found) or "no GPU"


@dataclass(frozen=True)
class CapacityNode:
    """One node: a button whose label says its name and counts; `detail` is read out below the map."""

    name: str
    cells: tuple[GpuCell, ...]
    detail: str = ""
    url: str = ""

    @property
    def counts(self) -> str:
        return counted(Counter(part for cell in self.cells for part in (cell.parts or (cell.kind,))))

    @property
    def wide(self) -> bool:
        return any(cell.parts for cell in self.cells)


@dataclass(frozen=True)
class CapacityRow:
    """The nodes of one GPU type at one site, and their sums.

    Where the nodes are too many to be drawn, `bar` says of how many devices what is true, and `url` where they are listed.
    """

    name: str
    note: str
    nodes: tuple[CapacityNode, ...]
    allocated: int
    held: int
    free: int
    out: int = 0
    others: int = 0
    bar: tuple[tuple[Amount, int], ...] = ()
    url: str = ""

    @property
    def segments(self) -> tuple[Segment, ...]:
        total = sum(devices for _, devices in self.bar) or 1
        parts: list[Segment] = []
        start = 0
        for kind, devices in self.bar:
            if devices:
                parts.append(Segment(kind, round(start / total * 100, 2), round(devices / total * 100, 2)))
            start += devices
        return tuple(parts)

    @property
    def counts(self) -> str:
        return counted(dict(self.bar))


class StepState(StrEnum):
    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    TODO = "todo"


STEP_TONES = {
    StepState.DONE: Tone.OK,
    StepState.RUNNING: Tone.BUSY,
    StepState.FAILED: Tone.BAD,
    StepState.TODO: Tone.WAIT,
}


@dataclass(frozen=True)
class TimelineStep:
    """One step of an operation; seconds count from the operation's start."""

    name: str
    state: StepState
    started: float = 0.0
    seconds: float = 0.0
    usual: float | None = None
    note: str = ""
    may_retry: bool = False  # by the dialog `retry` of its page
    retry_label: str = "Try now"

    @property
    def tone(self) -> Tone:
        return STEP_TONES[self.state]

    @property
    def expected(self) -> float:
        """Remaining seconds, estimated from the usual duration."""
        if self.state is StepState.TODO:
            return self.usual or 0.0
        return max((self.usual or 0.0) - self.seconds, 0.0) if self.state is StepState.RUNNING else 0.0


@dataclass(frozen=True)
class Bar:
    """A step with its place on the common time axis, in percent."""

    step: TimelineStep
    start: float
    width: float
    expected_start: float
    expected_width: float


def timeline_bars(steps: Sequence[TimelineStep]) -> tuple[Bar, ...]:
    """Put steps on one axis; steps to come follow each other from the end of the running one."""
    placed: list[tuple[TimelineStep, float]] = []
    cursor = 0.0
    for step in steps:
        start = cursor if step.state is StepState.TODO else step.started
        placed.append((step, start))
        cursor = max(cursor, start + step.seconds + step.expected)
    axis = cursor or 1.0

    def percent(seconds: float) -> float:
        return round(seconds / axis * 100, 2)

    return tuple(
        Bar(
            step,
            percent(start),
            max(percent(step.seconds), 0.8) if step.seconds or step.state is StepState.DONE else 0.0,
            percent(start + step.seconds),
            percent(step.expected),
        )
        for step, start in placed
    )


@dataclass(frozen=True)
class Action:
    """A button or link. With `post` it is a form's submit or an htmx request, else a link."""

    label: str
    url: str = ""
    icon: str = ""
    kind: str = "secondary"
    key: str = ""
    post: str = ""
    disabled: str = ""


@dataclass(frozen=True)
class Notice:
    """A refusal, a warning or an answer: which limit, how much is used, what to do."""

    tone: Tone
    title: str
    text: str = ""
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Stat:
    label: str
    value: str
    unit: str = ""
    note: str = ""
    tone: Tone | None = None
    url: str = ""


@dataclass(frozen=True)
class Fact:
    term: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class PriceLine:
    name: str
    per_hour: str
    later: str
    note: str = ""


@dataclass(frozen=True)
class Creation:
    """A thing that will exist after the request; `code` is set in monospace."""

    icon: str
    text: str
    code: str = ""


@dataclass(frozen=True)
class AnswerPanel:
    """The summary beside a form while it is filled in: verdict, limits, capacity, price, what it includes and creates."""

    title: str
    notice: Notice
    meters: tuple[Meter, ...] = ()
    facts: tuple[Fact, ...] = ()
    lines: tuple[PriceLine, ...] = ()
    total: PriceLine | None = None
    later_label: str = "Per month"
    lease_cost_label: str = ""
    lease_cost_note: str = ""
    lease_cost: str = ""
    after: tuple[Fact, ...] = ()
    warning: str = ""
    gives: tuple[str, ...] = ()
    creates: tuple[Creation, ...] = ()
    submit: Action | None = None


@dataclass(frozen=True)
class Chip:
    label: str
    value: str
    remove_url: str

"""Budgets as rows: a bar of what is spent and expected, the thresholds and the strictest alert."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from billing.models import BudgetAction, BudgetAlert, Measure, Period
from billing.selectors.budgets import BudgetState, scope_words
from frontend import formats
from frontend.components import Meter
from gpuaas.core.looks import Tone

DONE = {
    BudgetAction.NOTIFY: "notifies",
    BudgetAction.BLOCK: "blocks new requests",
    BudgetAction.SUSPEND: "suspends workspaces and clusters",
}
LOOKS = {
    BudgetAction.NOTIFY: (Tone.WARN, "Threshold reached"),
    BudgetAction.BLOCK: (Tone.BAD, "Blocks new requests"),
    BudgetAction.SUSPEND: (Tone.BAD, "Suspends workspaces"),
}


@dataclass(frozen=True)
class Threshold:
    percent: int
    does: str
    reached: bool


@dataclass(frozen=True)
class BudgetRow:
    """`url` is empty if the budget has no page."""

    state: BudgetState
    scope: str
    period: str
    meter: Meter | None
    amount: str
    spent: str
    forecast: str
    over: bool
    thresholds: tuple[Threshold, ...]
    tone: Tone
    word: str
    url: str = ""


def rows_of(states: Iterable[BudgetState], urls: dict[object, str]) -> list[BudgetRow]:
    return [row_of(state, urls.get(state.budget.pk, "")) for state in states]


def row_of(state: BudgetState, url: str = "") -> BudgetRow:
    budget, reading = state.budget, state.reading
    tone, word = _standing(state)
    return BudgetRow(
        state=state,
        scope=scope_words(budget),
        period=_period(state),
        meter=_meter(state),
        amount=shown(state, state.amount),
        spent=shown(state, state.spent),
        forecast=shown(state, state.forecast),
        over=state.forecast is not None and state.forecast > state.amount,
        thresholds=tuple(
            Threshold(
                row.percent,
                DONE[BudgetAction(row.action)],
                reading is not None and reading.reached(row.percent),
            )
            for row in budget.thresholds.all()
        ),
        tone=tone,
        word=word,
        url=url,
    )


def shown(state: BudgetState, value: Decimal | None) -> str:
    if value is None:
        return formats.NONE
    if state.budget.measure == Measure.MONEY:
        return formats.money(value, state.unit)
    return f"{formats.number(value, 2)} GPU h"


def strictest(alerts: Iterable[BudgetAlert]) -> BudgetAlert | None:
    order = list(LOOKS)
    return max(alerts, key=lambda alert: order.index(BudgetAction(alert.action)), default=None)


def _standing(state: BudgetState) -> tuple[Tone, str]:
    if state.reading is None:
        return Tone.OFF, "Outside its period"
    alert = strictest(state.alerts)
    if alert is not None:
        unusual = not alert.percent
        return (Tone.WARN, "Unusual day") if unusual else LOOKS[BudgetAction(alert.action)]
    if state.forecast is not None and state.forecast > state.amount:
        return Tone.WARN, "Will be exceeded"
    return Tone.OK, "Within budget"


def _period(state: BudgetState) -> str:
    if state.reading is None:
        start, end = state.budget.starts_on, state.budget.ends_on
        return f"{start:%-d %b %Y} to {end:%-d %b %Y}" if start and end else ""
    first, last = state.reading.period.first, state.reading.period.last
    name = "" if state.budget.period == Period.FIXED else f"{Period(state.budget.period).label}: "
    return f"{name}{first:%-d %b} to {last:%-d %b %Y}"


def _meter(state: BudgetState) -> Meter | None:
    """Solid is spent, hatched is expected; ticks stand at the thresholds and at the amount."""
    if state.spent is None or state.forecast is None:
        return None
    marks = [state.amount * row.percent / 100 for row in state.budget.thresholds.all()]
    return Meter(
        used=state.spent,
        held=max(state.forecast - state.spent, Decimal(0)),
        limit=state.amount,
        budget=state.amount,
        marks=tuple(marks),
        label=state.budget.name,
        text=(
            f"{shown(state, state.spent)} of {shown(state, state.amount)} spent, "
            f"{shown(state, state.forecast)} expected"
        ),
    )

"""Random usage under random terms (tiers, discounts, increments, changes of price): lines are what is counted second by
second, whatever the order in which usage was told, and no view loses or makes a second."""

from datetime import date, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from billing.models import Discount, Rate, RateCard
from billing.months import day_span, month_days, month_span
from billing.rating import Cell, Slots, rate_usage
from billing.services import rate_card_ensure
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.billing.oracle import Lowered, Terms, Used, lines_by_terms
from tests.billing.stage import interval_make, rate_make, utc, workspace_make

OCTOBER, NOVEMBER, DECEMBER = date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1)
BOUND = month_span(NOVEMBER).starts_at
WINDOW = 600  # seconds, half of them before the bound
ORIGIN = BOUND - timedelta(seconds=WINDOW / 2)
NOW = utc("2026-12-24 00:00:00")
BOUNDED = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

used = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(1, 400), st.integers(1, 60), st.integers(0, 2)),
    min_size=1,
    max_size=7,
)
tiers = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9_999_999)), min_size=1, max_size=3, unique_by=lambda t: t[0]
).map(sorted)
sessions = st.sampled_from([(1, 0), (60, 0), (1, 300), (60, 90)])
whole_seconds = st.just((1, 0))


def terms_of(session: Any, modes: Any) -> Any:
    """(from which second on, millionths, tier mode, tiers, (increment, minimum)), in the order of time."""
    one = st.tuples(st.integers(0, WINDOW), st.integers(0, 9_999_999), modes, tiers, session)
    return st.lists(one, max_size=3, unique_by=lambda row: row[0]).map(sorted)


any_mode = st.sampled_from(["", "graduated", "volume"])
discounts = st.lists(
    st.tuples(st.integers(0, WINDOW), st.integers(1, 300), st.integers(1, 10_000)), max_size=2
).filter(lambda rows: len(rows) < 2 or _apart(*rows))


def _apart(one: tuple[int, int, int], two: tuple[int, int, int]) -> bool:
    return one[0] + one[1] <= two[0] or two[0] + two[1] <= one[0]


class Stage:
    """What was drawn, in the database and as the oracle takes it."""

    def __init__(self, project: Project, flavor: Flavor, user: User) -> None:
        self.project, self.flavor = project, flavor
        found = list(Workspace.objects.filter(project=project).order_by("name"))
        self.workspaces = found or [
            workspace_make(project, flavor, user, name=f"train-{number}") for number in range(3)
        ]

    def price(self, terms: list[Any], lowered: list[Any]) -> tuple[list[Terms], list[Lowered]]:
        Rate.objects.all().delete()
        Discount.objects.all().delete()
        card: RateCard = rate_card_ensure()
        known = []
        for number, (start, micro, mode, steps, (increment, minimum)) in enumerate(terms):
            first = _at(start)
            last = _at(terms[number + 1][0]) if number + 1 < len(terms) else None
            more = {"tier_mode": mode, "increment_seconds": increment, "minimum_seconds": minimum}
            rate_make(card, self.flavor, micro, first, last, tiers=steps if mode else (), **more)
            known.append(Terms(first, last, micro, mode, steps if mode else [], increment, minimum))
        lower = [Lowered(_at(start), _at(start + lasts), points) for start, lasts, points in lowered]
        for row in lower:
            Discount.objects.create(
                organization=self.project.organization,
                basis_points=row.basis_points,
                valid_from=row.start,
                valid_to=row.end,
                created_by="olga",
            )
        return known, lower

    def use(self, usage: list[Any]) -> list[Used]:
        UsageInterval.objects.all().delete()
        told = []
        for start, lasts, quantity, who in usage:
            told.append(Used(_at(start), _at(start + lasts), quantity))
            interval_make(self.workspaces[who], self.flavor, told[-1].start, told[-1].end, quantity=quantity)
        return told

    def lines(self, month: date, **asked: Any) -> list[Cell]:
        slots = Slots([month], [month_span(month)])
        return rate_usage(slots=slots, now=NOW, projects=[self.project.pk], **asked)


def _at(second: int) -> datetime:
    return ORIGIN + timedelta(seconds=second)


def shown(cells: list[Cell]) -> dict[int | None, tuple[int, int | None]]:
    """Unit price → (unit-seconds, cents), cells of one price added."""
    found: dict[int | None, tuple[int, int | None]] = {}
    for cell in cells:
        price = None if cell.unit_price is None else int(cell.unit_price * 1_000_000)
        cents = None if cell.amount is None else int(cell.amount * 100)
        units, before = found.get(price, (0, None))
        found[price] = (units + cell.unit_seconds, cents if before is None else before + (cents or 0))
    return found


@given(usage=used, terms=terms_of(sessions, any_mode), lowered=discounts)
@example(
    usage=[(0, 400, 20, 0), (200, 400, 30, 1)],
    terms=[(0, 5_000_001, "graduated", [(1, 3_333_333), (3, 1_111_111)], (60, 90))],
    lowered=[(100, 400, 3333)],
)
@BOUNDED
def test_lines_are_what_is_counted_second_by_second(
    project: Project, h100: Flavor, alice: User, usage: list[Any], terms: list[Any], lowered: list[Any]
) -> None:
    stage = Stage(project, h100, alice)
    known, lower = stage.price(terms, lowered)
    told = stage.use(usage)
    for month in (OCTOBER, NOVEMBER):
        span = month_span(month)
        assert shown(stage.lines(month)) == lines_by_terms(told, known, lower, span.starts_at, span.ends_at)


@given(usage=used, terms=terms_of(sessions, any_mode), lowered=discounts)
@BOUNDED
def test_days_and_workspaces_add_up_line_by_line(
    project: Project, h100: Flavor, alice: User, usage: list[Any], terms: list[Any], lowered: list[Any]
) -> None:
    stage = Stage(project, h100, alice)
    stage.price(terms, lowered)
    stage.use(usage)
    for month in (OCTOBER, NOVEMBER):
        days = month_days(month)
        finest = rate_usage(
            slots=Slots([month] * len(days), days), now=NOW, projects=[project.pk], by_holder=True
        )
        assert shown(finest) == shown(stage.lines(month))


@given(usage=used, terms=terms_of(sessions, any_mode), lowered=discounts, order=st.randoms())
@BOUNDED
def test_the_order_in_which_usage_was_told_is_nothing(
    project: Project,
    h100: Flavor,
    alice: User,
    usage: list[Any],
    terms: list[Any],
    lowered: list[Any],
    order: Any,
) -> None:
    stage = Stage(project, h100, alice)
    stage.price(terms, lowered)
    stage.use(usage)
    before = stage.lines(NOVEMBER)
    stage.use(order.sample(usage, len(usage)))
    assert stage.lines(NOVEMBER) == before


@given(usage=used, terms=terms_of(whole_seconds, any_mode), lowered=discounts, cut=st.integers(1, 399))
@BOUNDED
def test_whole_seconds_are_billed_once_and_cutting_them_is_nothing(
    project: Project,
    h100: Flavor,
    alice: User,
    usage: list[Any],
    terms: list[Any],
    lowered: list[Any],
    cut: int,
) -> None:
    """With increment 1 and no minimum: what is on lines is what was used, in the months together and after every cut."""
    stage = Stage(project, h100, alice)
    stage.price(terms, lowered)
    stage.use(usage)
    before = [stage.lines(month) for month in (OCTOBER, NOVEMBER)]
    assert not stage.lines(DECEMBER)
    physical = sum(lasts * quantity for _, lasts, quantity, _ in usage)
    assert sum(cell.unit_seconds for lines in before for cell in lines) == physical
    pieces = [
        piece
        for start, lasts, quantity, who in usage
        for piece in ((start, min(cut, lasts), quantity, who), (start + cut, lasts - cut, quantity, who))
        if piece[1] > 0
    ]
    stage.use(pieces)
    assert [stage.lines(month) for month in (OCTOBER, NOVEMBER)] == before


@given(usage=used, more=used, terms=terms_of(sessions, st.sampled_from(["", "graduated"])))
@BOUNDED
def test_more_usage_costs_no_less(
    project: Project, h100: Flavor, alice: User, usage: list[Any], more: list[Any], terms: list[Any]
) -> None:
    """Without volume tiers. Rounded once per line: a line of more seconds has no smaller amount."""
    stage = Stage(project, h100, alice)
    stage.price(terms, [])
    stage.use(usage)
    before = shown(stage.lines(NOVEMBER))
    stage.use([*usage, *more])
    after = shown(stage.lines(NOVEMBER))
    for price, (units, cents) in before.items():
        assert after[price][0] >= units
        assert (after[price][1] or 0) >= (cents or 0)


def test_the_window_is_the_end_of_a_day_and_a_month() -> None:
    """So that all of the above crosses both."""
    assert day_span(NOVEMBER).starts_at == BOUND

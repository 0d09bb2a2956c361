"""How often a property is tried."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import FEW, MANY, bounded


@pytest.mark.parametrize(
    ("declared", "number", "tried"),
    [(100, FEW, 25), (12, FEW, 12), (100, MANY, 200), (400, MANY, 400)],
)
def test_a_property_is_tried_as_often_as_its_tier_says(declared: int, number: int, tried: int) -> None:
    seen = 0

    @settings(max_examples=declared, database=None)
    @given(st.integers())
    def true_of_all(_: int) -> None:
        nonlocal seen
        seen += 1

    with bounded(true_of_all, number):
        true_of_all()
    assert seen == tried
    seen = 0
    true_of_all()
    assert seen == declared


def test_the_few_are_drawn_alike_and_the_many_are_others() -> None:
    seen: list[int] = []

    @settings(database=None)
    @given(st.integers())
    def kept(number: int) -> None:
        seen.append(number)

    def drawn(number: int) -> list[int]:
        seen.clear()
        with bounded(kept, number):
            kept()
        return list(seen)

    assert drawn(FEW) == drawn(FEW)
    assert drawn(MANY) != drawn(MANY)


def test_a_state_machine_is_told_and_draws_alike_in_the_fast_tier(examples: int) -> None:
    assert examples in {FEW, MANY}
    assert settings().derandomize == (examples == FEW)

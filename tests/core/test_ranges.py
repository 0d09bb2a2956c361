"""Numbers in ranges: read as Kubernetes writes them, written as it would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.core.ranges import ranges_read, ranges_shown, ranges_text


@given(st.frozensets(st.integers(0, 9_999)))
def test_what_is_written_is_read_again(numbers: frozenset[int]) -> None:
    assert ranges_read(ranges_text(numbers)) == numbers


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([7], "7"), ([3, 1, 2, 2], "1-3"), ([0, 1, 4, 6, 7], "0-1,4,6-7")]
)
def test_how_it_is_written(numbers: list[int], text: str) -> None:
    assert ranges_text(numbers) == text


def test_what_a_site_claims_is_bounded() -> None:
    assert len(ranges_read("0-999999999999", most=50)) == 50
    with pytest.raises(ValueError, match="invalid literal"):
        ranges_read("a-b")


def test_many_parts_are_cut_in_a_sentence() -> None:
    assert ranges_shown("4,17-18") == "4, 17-18"
    assert ranges_shown("1,3,5,7", most=2) == "1, 3 and 2 more"

"""How many cards the devices of a node are cut from."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.providers.base import DeviceKind
from gpuaas.providers.kinds import Share, cards_of, kind

A40, A80 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def mig(profile: str, product: str = A40) -> DeviceKind:
    return kind(product, memory_mib=40960, mig_profile=profile)


@pytest.mark.parametrize(
    ("profile", "product", "devices", "cards"),
    [
        ("1g.5gb", A40, 14, 2),
        ("1g.5gb", A40, 8, 2),
        ("1g.10gb", A80, 14, 2),
        ("1g.20gb", A80, 8, 2),
        ("2g.10gb", A40, 21, 7),
        ("3g.20gb", A40, 14, 7),
        ("4g.20gb", A40, 2, 2),
        ("7g.40gb", A40, 3, 3),
        ("1g.10gb.me", A80, 1, 1),
        ("1c.3g.20gb", A40, 12, 2),
        ("1g.6gb", "NVIDIA-A30", 16, 4),
        ("3g.71gb", "NVIDIA-H200", 16, 8),
        ("strange", A40, 3, 3),
    ],
)
def test_slices_are_as_many_cards_as_can_hold_them(
    profile: str, product: str, devices: int, cards: int
) -> None:
    assert cards_of([(mig(profile, product), devices, 1)]) == [cards]


def test_whole_cards_are_themselves_and_shares_are_parts() -> None:
    l40s = kind("NVIDIA-L40S", memory_mib=46068, share=Share(4))
    whole = kind("NVIDIA-L40S", memory_mib=46068)
    assert cards_of([(whole, 8, 1), (l40s, 16, 4), (l40s, 10, 4)]) == [8, 4, Fraction(5, 2)]
    assert cards_of([(mig("1g.5gb"), 56, 4)]) == [2]  # each slice shared by four


def test_slices_of_several_profiles_lie_on_the_same_cards() -> None:
    """One card with a 4g and a 3g; two of 7 x 1g beside two of 2 x 3g; slices of another product have their own."""
    one = cards_of([(mig("4g.20gb"), 1, 1), (mig("3g.20gb"), 1, 1)])
    assert (sum(one), one) == (1, [Fraction(2, 3), Fraction(1, 3)])
    assert cards_of([(mig("1g.5gb"), 14, 1), (mig("3g.20gb"), 4, 1)]) == [2, 2]
    assert cards_of([(mig("1g.5gb"), 7, 1), (mig("1g.10gb", A80), 7, 1)]) == [1, 1]


@given(counts=st.dictionaries(st.sampled_from(PROFILES), st.integers(0, 60)))
def test_slices_of_a_node_are_whole_cards_and_no_more_than_one_each(counts: dict[str, int]) -> None:
    cards = cards_of([(mig(profile), count, 1) for profile, count in counts.items()])
    assert sum(cards) == int(sum(cards))
    assert sum(cards) <= sum(counts.values())
    assert all((each > 0) == (count > 0) for each, count in zip(cards, counts.values(), strict=True))

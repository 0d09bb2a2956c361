"""Places of what may be under way at once."""

import gc

import pytest

from gpuaas.core.errors import Unavailable
from gpuaas.core.places import Limit, Places


def test_a_place_counts_in_each_of_its_limits() -> None:
    places = Places(Unavailable)
    alice, bob, everybody = (
        Limit("alice", 1, "one of alice"),
        Limit("bob", 2, "two of bob"),
        Limit("", 2, "two"),
    )
    one = places.take(alice, everybody)
    with pytest.raises(Unavailable, match="one of alice"):
        places.take(alice, everybody)
    with places.take(bob, everybody), pytest.raises(Unavailable, match=r"^two$"):
        places.take(bob, everybody)
    one.leave()
    one.leave()
    held = [places.take(bob, everybody) for _ in range(2)]
    with pytest.raises(Unavailable, match="two of bob"):
        places.take(bob)
    del held
    gc.collect()
    places.take(alice, everybody).leave()


def test_an_error_leaves_its_place() -> None:
    places, one = Places(Unavailable), Limit("", 1, "full")
    with pytest.raises(ZeroDivisionError), places.take(one):
        raise ZeroDivisionError
    places.take(one).leave()

"""What a warm pool lacks and has too much of, for whatever waits in it."""

import uuid
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.clusters.warm_plan import Waiting, keep

COUNTS = st.integers(0, 6)


@st.composite
def pools(draw: st.DrawFn) -> list[Waiting]:
    kinds = st.sampled_from(["fit", "making", "broken", "old fit", "old making"])
    return [
        Waiting(uuid.UUID(int=number), "fit" in kind, kind == "broken", "old" not in kind)
        for number, kind in enumerate(draw(st.lists(kinds, max_size=12)))
    ]


@given(rows=pools(), wanted=COUNTS, making_most=st.integers(1, 3))
def test_a_pool_is_never_kept_above_what_is_wanted(
    rows: list[Waiting], wanted: int, making_most: int
) -> None:
    deed = keep(rows, wanted=wanted, making_most=making_most)
    left = [row for row in rows if row.id not in deed.delete]
    current = [row for row in left if row.current]
    making = [row for row in current if not row.fit]
    old = [row for row in left if not row.current]
    assert len(set(deed.delete)) == len(deed.delete)
    assert len(current) + deed.order <= wanted
    assert deed.order == 0 or len(making) + deed.order <= making_most
    assert not any(row.broken for row in left)
    assert all(row.fit for row in old)
    fit = sum(row.fit for row in current)
    assert len(old) == min(max(wanted - fit, 0), sum(row.fit and not row.current for row in rows))
    assert set(deed.yields) == {row.id for row in old}
    assert fit == min(wanted, sum(row.current and row.fit for row in rows)), "what is ready goes last"


@given(wanted=COUNTS, making_most=st.integers(1, 3), rows=pools())
def test_rounds_come_to_rest_at_what_is_wanted(
    rows: Sequence[Waiting], wanted: int, making_most: int
) -> None:
    """Whatever is ordered becomes ready before the next round."""
    held = list(rows)
    for turn in range(20):
        deed = keep(held, wanted=wanted, making_most=making_most)
        held = [row for row in held if row.id not in deed.delete]
        held = [Waiting(row.id, True, False, row.current) for row in held]
        held += [Waiting(uuid.UUID(int=1000 * turn + 100 + one), True) for one in range(deed.order)]
    assert len(held) == wanted
    assert all(row.current for row in held)

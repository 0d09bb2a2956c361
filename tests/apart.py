"""Many cases before one stage: each is a subtest that leaves no trace, so that building the stage is paid once."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVarTuple

import pytest
from django.db import transaction

Case = TypeVarTuple("Case")


@contextmanager
def undone() -> Iterator[None]:
    """What is written inside is gone at its end; the next case meets the same world."""
    block = transaction.atomic()
    # as Django marks the transaction of a test case: what must run outside of one takes it for none
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)


def each_apart(
    subtests: pytest.Subtests, cases: Iterable[tuple[str, tuple[*Case]]], check: Callable[[*Case], None]
) -> None:
    """`check` for each case, by the name that is told where it fails; the others are tried all the same."""
    for name, case in cases:
        with subtests.test(name), undone():
            check(*case)

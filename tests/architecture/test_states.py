"""Which verb is allowed in which state is in the table `ALLOWED` of a kind, and nowhere else (lifecycle/allowed.py)."""

import ast

import pytest

from tests.architecture.test_fold import room_of
from tests.architecture.test_house import ROOT, sources

# lives of their own, without verbs for tenants: each has a table of edges, and one place that asks
OTHER_LIVES = {"AdoptionState", "DriftState", "MachineState"}


def is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "state"


def asks_the_state(test: ast.expr) -> bool:
    """Whether nothing but the state of a row decides, however it is put."""
    match test:
        case ast.BoolOp(values=values):
            return all(map(asks_the_state, values))
        case ast.UnaryOp(operand=operand):
            return asks_the_state(operand)
        case ast.Compare(left=left, comparators=[right]):
            return (
                (is_state(left) or is_state(right)) and not is_table(right) and not names(test) & OTHER_LIVES
            )
    return False


def is_table(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "ALLOWED"


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def by_hand(text: str) -> list[int]:
    """Lines where a service refuses by the state alone what a table could refuse."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.If)
        and asks_the_state(node.test)
        and any(
            isinstance(each, ast.Raise) and "Conflict" in names(each) for each in (*node.body, *node.orelse)
        )
    ]


def test_a_table_says_what_is_allowed_in_which_state() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources()
        if room_of(path)
        for line in by_hand(path.read_text())
    }
    assert not found, "add the verb to the room's ALLOWED, and ask Kind.require"


@pytest.mark.parametrize(
    "test",
    [
        "row.state != WorkspaceState.READY",
        "row.state not in (S.READY, S.FAILED)",
        "not row.state == 'ready' and cluster.state != 'failed'",
        "WorkspaceState.READY != self.row.state",
        "row.state in LIVE",
    ],
)
def test_every_spelling_is_found(test: str) -> None:
    assert by_hand(f"if {test}:\n    raise Conflict('not now')")
    assert not by_hand(f"if {test} and row.ready_at is None:\n    raise Conflict('another reason, too')")
    assert not by_hand(f"if {test}:\n    return row")

"""The house gets no bigger unnoticed, and no test of the fast tier slow."""

from pathlib import Path

from tests import durations
from tests.architecture import budget


def test_no_room_has_more_code_than_it_may() -> None:
    """Take as much away as you add. Where a room has to grow, raise its line of budget.json in a commit that says why."""
    assert budget.over(budget.measured(), budget.allowed()) == []


def test_what_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        '"""Two\nlines."""\n\n# alone\nx = 1  # beside\n\ndef f():\n    """One."""\n    return "#"\n'
    )
    assert budget.code_of(source) == ["x = 1  # beside", "def f():", 'return "#"']
    style = tmp_path / "style.css"
    style.write_text("/* alone */\n\na { b: c }\n")
    assert budget.code_of(style) == ["a { b: c }"]


def test_twenty_lines_more_are_too_many() -> None:
    now = {"billing": {"lines": 120, "characters": 900}}
    assert budget.over(now, {"billing": {"lines": 100, "characters": 900}}) == [
        "billing has 120 lines of code and may have 100"
    ]
    assert len(budget.over(now, {})) == 2


def test_no_test_is_slow() -> None:
    """By the figures that `make durations` wrote last, on a quiet machine and without slack."""
    kept = durations.kept()
    assert durations.over(kept["slow"]) == []
    assert kept["sum"] <= durations.SUM_S
    assert kept["tests"] > 4_000, "they are of the whole tier"


def test_a_slow_test_is_named_and_an_exempt_one_is_not() -> None:
    exempt = next(iter(durations.EXEMPT))
    assert durations.over({"a": 5.1, "b": 4.9, f"{exempt}_x": 5.1}) == [
        "a took 5.1 s of the 5 s that it may take"
    ]
    assert durations.over({f"{exempt}_x": 99.0})
    assert durations.over({"a": 14.9}, slack=3) == []
    assert durations.over({str(number): 4.0 for number in range(400)})[-1].startswith(
        "all together took 1,600 s"
    )

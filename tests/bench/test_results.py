"""What is kept of a bench, and when a new run is worse."""

from pathlib import Path

from tests.bench.results import keep, load, worse
from tests.bench.table import Measured


def row(what: str, ours: float, floor: float, *, rate: bool = True) -> Measured:
    return Measured(what, "1/s" if rate else "ms", ours, floor, "a floor", higher_is_better=rate)


def test_a_bench_that_did_not_run_keeps_its_results(tmp_path: Path) -> None:
    path, page = tmp_path / "results.json", tmp_path / "page.md"
    keep({"lists": [row("home", 80, 8, rate=False)]}, where="one machine", path=path, page=page)
    keep({"rating": [row("rows", 50, 100)]}, where="another one", path=path, page=page)
    assert load(path)["lists"] == ("one machine", [row("home", 80, 8, rate=False)])
    text = page.read_text()
    assert (
        text.index("## lists")
        < text.index("one machine")
        < text.index("## rating")
        < text.index("another one")
    )
    assert "| home | 80.0 ms | 8.0 ms | 0.100 | a floor |\n" in text


def test_a_long_note_stands_below_the_table_in_short_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    noted = Measured("home", "ms", 80, 8, "a floor", higher_is_better=False, note="statement " * 30)
    keep({"lists": [noted]}, where="one machine", path=tmp_path / "results.json", page=page)
    assert "\n\n- home: statement" in page.read_text()
    assert max(map(len, page.read_text().splitlines())) <= 120


def test_only_a_ratio_that_fell_by_more_than_a_third_is_worse(tmp_path: Path) -> None:
    """Both kinds: a rate below its floor, and a time above it. Slower on a machine whose floor is slower is not worse."""
    path = tmp_path / "results.json"
    before = [row("rate", 60, 100), row("time", 20, 10, rate=False)]
    keep({"lists": before}, where="", path=path, page=tmp_path / "page.md")
    assert worse({"lists": before}, path=path) == []
    assert worse({"lists": [row("rate", 41, 100), row("time", 58, 20, rate=False)]}, path=path) == []
    fallen = worse({"lists": [row("rate", 39, 100), row("time", 31, 10, rate=False)]}, path=path)
    assert fallen == [
        "lists: the ratio of rate fell from 0.600 to 0.390.",
        "lists: the ratio of time fell from 0.500 to 0.323.",
    ]


def test_a_row_that_is_gone_is_said_and_a_bench_that_did_not_run_is_not(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert worse({"lists": [row("rate", 1, 100)]}, path=path) == []
    keep({"lists": [row("rate", 60, 100)], "rating": []}, where="", path=path, page=tmp_path / "page.md")
    assert worse({"lists": []}, path=path) == ["lists: rate is not measured any more."]
    assert worse({"rating": []}, path=path) == []

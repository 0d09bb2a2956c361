"""The pages of the security standard name tests that there are, and leave no entry without an answer."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "docs/operators").glob("asvs*.md")))
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
ENTRIES = re.findall(r"^- \*\*([\d., –]+)\*\*: (.*(?:\n  .*)*)", PAGES, re.MULTILINE)


def test_every_named_test_exists() -> None:
    named = NAMED.findall(PAGES)
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or f"def {name}(" * bool(name) not in (ROOT / path).read_text("utf-8")
    ]
    assert missing == []


def test_every_entry_has_a_test_a_reason_or_says_that_it_is_open() -> None:
    assert len(ENTRIES) > 50
    assert [
        section for section, said in ENTRIES if "\n  — " not in said and "**open**" not in said.lower()
    ] == []


def test_every_chapter_of_the_standard_is_met() -> None:
    chapters = {int(number) for section, _ in ENTRIES for number in re.findall(r"(\d+)\.\d+", section)}
    assert chapters == set(range(1, 15))

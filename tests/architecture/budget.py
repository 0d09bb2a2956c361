"""How much code each room may have: `python -m tests.architecture.budget` writes budget.json where the code has become less.

Counted are lines with code in them and their characters, in every language of the product: without blank lines, comments
that stand alone, docstrings, migrations and what a program writes. So neither longer lines nor another language make room.
"""

import ast
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from tests.architecture.test_house import ROOMS, sources

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("budget.json")
COMMENT = re.compile(r"\s*(#|--|//|/?\*|\{#)")
Budget = dict[str, dict[str, int]]


def measured() -> Budget:
    """By room, the sources outside of any by their folder; tests are free."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"lines": 0, "characters": 0})
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        if place.startswith("tests/"):
            continue
        room = next((each for each in ROOMS if place.startswith(f"{each}/")), place.partition("/")[0])
        lines = code_of(path)
        found[room]["lines"] += len(lines)
        found[room]["characters"] += sum(map(len, lines))
    return dict(sorted(found.items()))


def code_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    documented = _docstrings(text) if path.suffix == ".py" else set()
    return [
        line.strip()
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and number not in documented and not COMMENT.match(line)
    ]


def _docstrings(text: str) -> set[int]:
    """Numbers of their lines."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, holders) and ast.get_docstring(node) is not None:
            words = node.body[0]
            found |= set(range(words.lineno, (words.end_lineno or words.lineno) + 1))
    return found


def allowed() -> Budget:
    budget: Budget = json.loads(FILE.read_text("utf-8"))
    return budget


def over(found: Budget, budget: Budget) -> list[str]:
    """A sentence for each room that has more than it may."""
    return [
        f"{room} has {now[what]:,} {what} of code and may have {budget.get(room, {}).get(what, 0):,}"
        for room, now in found.items()
        for what in ("lines", "characters")
        if now[what] > budget.get(room, {}).get(what, 0)
    ]


def main() -> int:
    found = measured()
    if FILE.exists() and (sentences := over(found, allowed())):
        print(*sentences, sep="\n", file=sys.stderr)  # noqa: T201
        return 1
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

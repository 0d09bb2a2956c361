"""What workspaces, clusters, environments, jobs and machines share stands once, in `gpuaas/lifecycle`: no six lines of them are equal.

Compared are the lines that the formatter writes once the nouns are folded into one and trailing commas no longer count, so
that neither the length of a noun nor a comma decides where a statement is wrapped. Left out is what only names: docstrings,
comments, imports, lines of brackets, and the members of enumerations, which Python does not let an enumeration inherit.
"""

import ast
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

from tests.architecture.test_house import ROOT, sources
from tests.architecture.test_once import is_enumeration

NOUNS = re.compile(r"(?i:workspace|cluster|machine|environment|job)s?")
FORMATTER = (
    "format",
    "--quiet",
    "--isolated",
    "--line-length=110",
    "--config=format.skip-magic-trailing-comma=true",
)
RUN = 6
Lines = list[tuple[str, str]]  # where it is, and what it says


def room_of(path: Path) -> str:
    place = path.relative_to(ROOT).as_posix()
    if not place.endswith(".py"):
        return ""
    names = ("workspaces/machines", "workspaces", "clusters", "environments", "jobs")
    return next((room for name in names if place.startswith(room := f"gpuaas/{name}/")), "")


def folded(found: dict[str, str], folder: Path) -> dict[str, str]:
    """Texts by name, with one noun for all and as the formatter writes them then."""
    files = {name: folder / f"{number}.py" for number, name in enumerate(found)}
    for name, file in files.items():
        file.write_text(NOUNS.sub("x", found[name]))
    if files:
        subprocess.run([Path(sys.executable).with_name("ruff"), *FORMATTER, folder], check=True)
    return {name: file.read_text() for name, file in files.items()}


def lines_of(name: str, text: str) -> Lines:
    tree, left_out = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or is_docstring(node):
            left_out |= lines_in(node)
        if isinstance(node, ast.ClassDef) and any(map(is_enumeration, node.bases)):
            left_out |= {at for each in node.body if isinstance(each, ast.Assign) for at in lines_in(each)}
    listed = enumerate(map(str.strip, text.splitlines()), 1)
    return [
        (f"{name}: {line}", line)
        for number, line in listed
        if number not in left_out and not line.startswith("#") and re.search(r"\w", line)
    ]


def is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def lines_in(node: ast.AST) -> set[int]:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return set(range(first, last + 1))


def shared(one: list[Lines], other: list[Lines]) -> set[str]:
    """Where six lines begin in `one` that stand in `other` too."""

    def runs(files: list[Lines]) -> dict[tuple[str, ...], str]:
        return {
            tuple(line for _, line in lines[at : at + RUN]): lines[at][0]
            for lines in files
            for at in range(len(lines) - RUN + 1)
        }

    theirs = runs(other)
    return {place for run, place in runs(one).items() if run in theirs}


def test_two_rooms_share_no_six_lines(tmp_path: Path) -> None:
    found = {path.relative_to(ROOT).as_posix(): path for path in sources() if room_of(path)}
    texts = folded({name: path.read_text() for name, path in found.items()}, tmp_path)
    rooms: dict[str, list[Lines]] = {}
    for name, text in texts.items():
        rooms.setdefault(room_of(found[name]), []).append(lines_of(name, text))
    assert len(rooms) == 5
    twice = {place for one, other in combinations(rooms.values(), 2) for place in shared(one, other)}
    assert not twice, "move what they share into gpuaas/lifecycle"


def test_what_counts_as_a_line(tmp_path: Path) -> None:
    """A noun that is longer, another case and a trailing comma make no difference; one line that is another one does."""
    text = '''
"""Of a workspace."""
from gpuaas.workspaces import (
    one,
)

class WorkspaceState(models.TextChoices):
    READY = "ready", "Ready"

def workspace_end(
    *, workspace: Workspace,
) -> None:
    # at once
    a(WORKSPACE)
    b(workspace.pk)
    c()
    d()
    return
'''
    texts = {"w": text, "c": text.replace("workspace", "cluster").replace("Workspace", "Cluster")}
    texts["other"] = texts["c"].replace("c()", "e()")
    written = {name: lines_of(name, text) for name, text in folded(texts, tmp_path).items()}
    assert [line for _, line in written["w"]] == [
        "class xState(models.TextChoices):",
        "def x_end(*, x: x) -> None:",
        "a(x)",
        "b(x.pk)",
        "c()",
        "d()",
        "return",
    ]
    assert shared([written["w"]], [written["c"]]) == {
        "w: class xState(models.TextChoices):",
        "w: def x_end(*, x: x) -> None:",
    }
    assert not shared([written["w"]], [written["other"]])

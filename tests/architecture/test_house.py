"""The house stays as planned: sizes, furniture, words. Floors and walls are import-linter's (`make check`)."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [
    "gpuaas/core",
    "gpuaas/providers",
    "gpuaas/catalog",
    "gpuaas/lifecycle",
    "gpuaas/workspaces",
    "gpuaas/clusters",
    "gpuaas/environments",
    "gpuaas/jobs",
    "gpuaas/staging",
    "gpuaas/metering",
    "gpuaas/gpustats",
    "gpuaas/backup",
    "gpuaas/sample",
    "gpuaas/api",
    "gpuaas/live",
    "tenants",
    "quotas",
    "billing",
    "frontend",
]
CODE = re.compile(r"\.(py|ts|css|html|sql)\Z")
GENERATED = re.compile(r"/migrations/|node_modules|/static/")
LINES = {".c", ".css", ".html", ".md", ".mjs", ".scss", ".sh", ".sql", ".toml", ".tpl", ".ts", ".yaml"}
# by `make openapi`; and what the lab's site does with pods, whose expressions are one line each
WRITTEN = {"openapi.v1.yaml", "pods.yaml"}
FILE_LINES, FUNCTION_LINES, README_LINES, COLUMNS = 400, 40, 45, 140


def tracked() -> list[Path]:
    """What git would commit: tracked files and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def sources() -> list[Path]:
    return [path for path in tracked() if CODE.search(path.name) and not GENERATED.search(path.as_posix())]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := len(path.read_text().splitlines())) > FILE_LINES
    }
    assert not long


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources()
        if path.suffix == ".py"
        for node in functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long


def test_lines_are_short() -> None:
    """Ruff sees to Python. A table of Markdown whose rows get longer is a list. Left out is what a program
    writes, and what a program reads that takes no broken lines."""
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if (path.suffix in LINES or path.name == "Makefile") and path.name not in WRITTEN
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert not long


@pytest.mark.parametrize("room", ROOMS)
def test_room_has_a_readme_that_is_short(room: str) -> None:
    assert 5 <= len((ROOT / room / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_no_utils() -> None:
    assert not [path for path in sources() if path.name in {"utils.py", "helpers.py", "misc.py"}]


def test_no_signals_between_our_apps() -> None:
    users = [path for path in sources() if path.suffix == ".py" and "django.dispatch" in path.read_text()]
    assert [path for path in users if "tests" not in path.parts] == []


def test_only_services_send_tasks_by_name() -> None:
    """Nobody calls `.delay()`: tasks are poked after commit (core/queue.py)."""
    callers = [
        str(path.relative_to(ROOT))
        for path in sources()
        if path.suffix == ".py"
        and re.search(r"(?<!backoff)\.(delay|apply_async)\(", path.read_text())
        and "tests" not in path.parts
    ]
    assert not callers


def test_no_path_of_a_machine_is_committed() -> None:
    leak = re.compile(r"/(?:work|farm|root)/[a-z.]|/tmp/bash")
    found = []
    for path in tracked():
        if path == Path(__file__) or path.stat().st_size > 1 << 20:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if leak.search(text):
            found.append(str(path.relative_to(ROOT)))
    assert not found

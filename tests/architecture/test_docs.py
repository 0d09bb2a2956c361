"""What the documents for newcomers name exists, and no page of docs/ is left out of the index."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.frontend.pages.pictures import FOLDER, PICTURES, THEMES, file_of

ROOT = Path(__file__).resolve().parents[2]
# `a/path`, `a/file.py`, and [text](link) to a file
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|md))`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
PAGE_LINES = 150
NOT_PAGES = {"README.md", "conf.py"}
CONCEPTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/concepts").glob("*.md"))
# furniture that many rooms have, and addresses
NOT_PATHS = {"states.py", "models.py", "selectors.py", "services.py", "reconcile.py", "tasks.py", "utils.py"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/house.md", *CONCEPTS])
def test_named_files_exist(page: str) -> None:
    named = set(NAMED.findall((ROOT / page).read_text(encoding="utf-8"))) - NOT_PATHS
    assert len(named) > 2
    assert not [
        name
        for name in sorted(named)
        if not name.startswith(("/", "api/")) and not (ROOT / name).exists() and not in_a_room(name)
    ]


def in_a_room(name: str) -> bool:
    return name == "README.md"


def pages() -> list[Path]:
    return [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """As the places that show Markdown name headings: lower case, without punctuation, hyphens for spaces."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pytest.mark.parametrize("folder", ["docs", "docs/tenants", "docs/operators"])
def test_index_has_every_page(folder: str) -> None:
    listed = {target for target, _ in LINK.findall((ROOT / folder / "README.md").read_text(encoding="utf-8"))}
    assert {path.name for path in (ROOT / folder).glob("*.*") if path.name not in NOT_PAGES} <= listed


@pytest.mark.parametrize("folder", ["docs/tenants", "docs/operators"])
def test_a_page_of_a_guide_has_one_subject(folder: str) -> None:
    for page in (ROOT / folder).glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= PAGE_LINES, page.name
        assert lines[0].startswith("# "), page.name


def test_decisions_are_listed() -> None:
    folder = ROOT / "docs/decisions"
    listed = [target for target, _ in LINK.findall((folder / "README.md").read_text(encoding="utf-8"))]
    assert sorted(listed) == sorted(path.name for path in folder.glob("[0-9]*.md"))


def test_license_is_named_where_packagers_look() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License")


def test_every_picture_is_taken_by_a_command_and_shown_in_both_themes() -> None:
    """`make pictures` writes them; a guide shows the dark one to who reads in the dark."""
    shown = {
        (page.parent / file).resolve().name
        for page in pages()
        for file in re.findall(r'(?:srcset|src)="([^"]+pictures/[^"]+)"', page.read_text(encoding="utf-8"))
    }
    taken = {file_of(name, theme) for name in PICTURES for theme in THEMES}
    assert shown == taken == {path.name for path in FOLDER.glob("*.png")}

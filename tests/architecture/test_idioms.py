"""Texts for people are plain English: a few habits of speech that native writers of manuals do not have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_house import ROOT, tracked

# what a person or a program "tells" and "says" is written as a fact; "what is left is X" is "the rest is X"
BANNED = re.compile(
    r"\b(?:[Tt]old|[Ss]aid|[Ww]hoever|goes)\b|\b[Ww]hat is \w+ (?:is|are|was|has)\b|(?:^|[.!?] )Who \w+s (?:a|an|the|it)\b"
)
MARKUP = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<[^>]*>|<!--.*?-->|`[^`]*`", re.DOTALL)
# 80%, without a space: after a digit or a value
PERCENT = re.compile(r"(?:\d|}}|^) %(?![\w(}%])")
API = ROOT / "docs/openapi.v1.yaml"
OURS = re.compile(
    r"docs/decisions/|tests/|(?:gpuaas|tenants|quotas|billing|frontend|deploy)/"
)  # for those who work on it
SQL = re.compile(r"\b(?:SELECT|FUNCTION|UPDATE|DO \$\$)\b")


def documents() -> Iterator[Path]:
    for path in tracked():
        place = path.relative_to(ROOT).as_posix()
        if path == API or "/templates/" in place or (path.suffix == ".md" and not OURS.match(place)):
            yield path


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a document without its code and markup; of the API's document the descriptions."""
    for number, line in enumerate(plain(path.read_text(encoding="utf-8")).splitlines(), 1):
        is_name = path == API and line.strip().endswith((":", "- said"))
        is_code = path.suffix == ".md" and line.startswith("    ")
        if not is_name and not is_code:
            yield number, line


def plain(text: str) -> str:
    """Markup becomes as many line ends as it has, so that the numbers of lines stay."""
    return MARKUP.sub(lambda found: "\n" * found[0].count("\n"), text)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module that are neither docstrings nor SQL and have several words."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in docs:
            continue
        if " " in node.value.strip() and not SQL.search(node.value):
            yield node.lineno, node.value


def banned(path: Path, found: Iterator[tuple[int, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {hit[0]}"
        for number, text in found
        if (hit := BANNED.search(text))
    ]


def test_documents_and_pages() -> None:
    assert [hit for path in documents() for hit in banned(path, texts(path))] == []


def test_sentences_of_the_code() -> None:
    files = [
        path for path in tracked() if path.suffix == ".py" and not {"tests", "migrations"} & set(path.parts)
    ]
    assert len(files) > 500
    assert [hit for path in files for hit in banned(path, sentences(path))] == []


def spaced(path: Path) -> list[str]:
    """Percentages of a file that are written with a space, where people read them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [line for line in text.splitlines() if re.search(r"(?:\d|}}) %(?![\w(}%])", line)]
    if "%" not in text:
        return []
    constants = (each.value for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Constant))
    return [each for each in constants if isinstance(each, str) and PERCENT.search(each)]


def test_a_percentage_has_one_form() -> None:
    files = [path for path in tracked() if path.suffix in {".py", ".html", ".txt", ".md"} or path == API]
    found = {path.relative_to(ROOT).as_posix(): lines for path in files if (lines := spaced(path))}
    assert found == {}


@pytest.mark.parametrize(
    ("text", "is_banned"),
    [
        ("Whoever asks is refused.", True),
        ("What is left is not enough.", True),
        ("Who needs a cluster orders one. Who orders a cluster waits.", True),
        ("What is left over belongs to the last row.", False),
        ("Say what is left.", False),
    ],
)
def test_what_is_found(text: str, is_banned: bool) -> None:
    assert bool(BANNED.search(text)) == is_banned

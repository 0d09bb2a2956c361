"""Figures as they stand in a page: text beside a label, or a cell of a table, and nothing else."""

import re
from html import unescape

TAG = re.compile(r"<[^>]+>")
ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
HEAD = re.compile(r'<th scope="row".*?</th>', re.DOTALL)
CELL = re.compile(r'<td[^>]*data-l="([^"]*)"[^>]*>(.*?)</td>', re.DOTALL)
DATA = re.compile(r"<td\b[^>]*>(.*?)</td>", re.DOTALL)
TERM = re.compile(r"<dt>(.*?)</dt>(.*?)(?=<dt>|</dl>)", re.DOTALL)


def text(html: str) -> str:
    return " ".join(unescape(TAG.sub(" ", html)).split())


def term(html: str, label: str) -> str:
    """What is said of `label` in a list of stats or facts: value, unit and note."""
    found = [text(said) for name, said in TERM.findall(html) if text(name) == label]
    assert found, (label, [text(name) for name, _ in TERM.findall(html)])
    return found[0]


def value(html: str, label: str) -> str:
    """Of a stat, its number alone."""
    said = next(said for name, said in TERM.findall(html) if text(name) == label)
    bold = re.search(r"<b>(.*?)</b>", said, re.DOTALL)
    assert bold, label
    return text(bold[1])


def cell(html: str, row: str, column: str) -> str:
    """By the first word of the row's head and the column's name."""
    for found in ROW.findall(html):
        head = HEAD.search(found)
        if head and re.match(rf"{re.escape(row)}( |$)", text(head[0])):
            said = {unescape(name): text(inner) for name, inner in CELL.findall(found)}
            if column in said:
                return said[column]
    raise AssertionError((row, column, [text(found) for found in ROW.findall(html)]))


def nth(html: str, row: str, number: int) -> str:
    """The cell of that number, from 0, where columns have no names."""
    for found in ROW.findall(html):
        head = HEAD.search(found)
        if head and re.match(rf"{re.escape(row)}( |$)", text(head[0])):
            return text(DATA.findall(found)[number])
    raise AssertionError((row, number))


def bar(html: str, row: str) -> str:
    """The percent of its row's first bar that is used."""
    for found in ROW.findall(html):
        head = HEAD.search(found)
        if head and text(head[0]) == row:
            used = re.search(r'data-kind="used"[^>]*?width="([\d.]+)%"', found, re.DOTALL)
            return f"{float(used[1]):.2f}" if used else "none"
    raise AssertionError(row)

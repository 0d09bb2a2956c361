"""YAML that is read strictly: what is written comes back, and each way to surprise or to overload a reader is refused by line."""

from time import perf_counter
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpuaas.core.errors import Invalid
from gpuaas.core.plain_yaml import LONGEST, plain_read, plain_yaml

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
ODD_TEXTS = st.sampled_from(
    [
        *("", " ", "on", "No", "~", "null", "1:30", "0o7", "1_0", "1e3", "2026-11-27", "- a", "# a", "a: b"),
        *("&a", "*a", "!a", "<<", "=", "---", "...", "%a", "'", '"', "\ufeffa", "\x85", "\u2028", "\x7f"),
        *(" a\n", "a\n\n", "\n", "a\n b", "\ta", "a\t\n", "\r\n"),
    ]
)
PLAIN = st.recursive(
    st.one_of(TEXTS, ODD_TEXTS, st.integers(-(10**17), 10**17), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | ODD_TEXTS, inner, max_size=4),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inner), default=0)


@given(st.dictionaries(TEXTS | ODD_TEXTS, PLAIN, max_size=5).filter(lambda value: depth_of(value) <= 8))
@example({"script": "set -e\n\tpython train.py\n"})
def test_what_is_written_comes_back(value: dict[str, Any]) -> None:
    text = plain_yaml(value)
    assert plain_read(text).value == plain_read(text.encode()).value == value
    assert yaml.safe_load(text) == value, "other readers find the same"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1: it has no fields"),
        ("- a", "it has no fields"),
        ("a: &x [1]\nb: 2", "line 1, column 4: anchors and aliases"),
        ("a: 1\nb: *x", "line 2, column 4: anchors and aliases"),
        ("a: !!python/object:os.system x", "line 1, column 4: tags"),
        ("a: !!binary YQ==", "tags"),
        ("1: a", "a name must be a text"),
        ("true: a", "a name must be a text"),
        ("? [a]\n: b", "a name must be a text"),
        ("a: 1\n---\nb: 1", "line 2, column 1: there is a second document"),
        ("a: " + "[" * 30_000, "nested deeper"),
        ("a: [" + "1, " * 6_000 + "1]", "more than 5,000 values"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed"),
        ("a: [1\nb: 2", "line 2"),
        ("a: 'open", "unexpected end"),
        ("a: \x01", "not allowed in YAML"),
        ("a: \ud800", "UTF-8"),
        (b"a: \xff", "UTF-8"),
        ("a: " + "x" * LONGEST, "longer than 512 KiB"),
    ],
)
def test_what_is_no_plain_document_is_refused_by_line(text: str | bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        plain_read(text)
    assert not refused.value.fields


def test_all_that_is_wrong_with_its_fields_is_named_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        plain_read('a: 1\nb:\n  c: 1\n  c: 2\nd: ["x", "\\0"]\na: 2\n')
    assert refused.value.fields == {
        "b.c": ["line 4: this name is given twice"],
        "d.1": ["line 5: text must not contain null characters or lone surrogates"],
        "a": ["line 6: this name is given twice"],
    }


def test_words_are_texts_and_lines_are_known() -> None:
    found = plain_read("on: no\nday: 2026-11-27\nlist:\n- 010\n- 3\n- 0.5\nnothing:\n")
    assert found.value == {"on": "no", "day": "2026-11-27", "list": ["010", 3, 0.5], "nothing": None}
    assert found.lines == {"on": 1, "day": 2, "list": 4, "list.0": 4, "list.1": 5, "list.2": 6, "nothing": 7}


@pytest.mark.parametrize("each", ["x y ", "\n", "\\x41", "#", "? ", "{a: ", "- ", "a: \n "])
def test_no_document_takes_long(each: str) -> None:
    begun = perf_counter()
    for text in (f'a: "{each * (LONGEST // len(each) - 4)}"', each * (LONGEST // len(each))):
        try:
            plain_read(text)
        except Invalid:
            continue
    assert perf_counter() - begun < 10

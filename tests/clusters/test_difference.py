"""Two schemas of parameters compared: each change is told in words, and what breaks an order that was taken is marked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.clusters.difference import ChangeKind, parameters_difference
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import document_check, schema_compile

TEXT = {"type": "string"}


def of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def number(least: int, most: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def choice(*values: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "enum": list(values), **more}


def listed(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": TEXT, **more}


@pytest.mark.parametrize(
    ("before", "after", "breaking", "said"),
    [
        (of(v=TEXT), of(), True, "is no longer available: orders that name it are refused"),
        (of(), of(v=TEXT), False, "a text, from 1 to 1000 characters; is optional"),
        (of(), of("v", v=number(1, 2)), True, "a whole number, from 1 to 2; is required"),
        (of(), of("v", v=choice("a", "b", default="b")), False, "one of a, b; b by default"),
        (of(v=TEXT), of(v=number(1, 2)), True, "is a whole number now, was a text"),
        (of(v=number(1, 9)), of(v=number(1, 8)), True, "is from 1 to 8 now, was from 1 to 9"),
        (of(v=number(1, 9)), of(v=number(0, 10)), False, "is from 0 to 10 now, was from 1 to 9"),
        (of(v=number(1, 9)), of(v=number(0, 8)), True, "is from 0 to 8 now, was from 1 to 9"),
        (of(v=TEXT), of(v={**TEXT, "maxLength": 9}), True, "is from 1 to 9 characters now"),
        (of(v=listed()), of(v=listed(maxItems=3)), True, "is from 1 to 3 entries now"),
        (of(v=listed()), of(v=listed(uniqueItems=True)), True, "accepts each entry only once"),
        (
            of(v=listed()),
            of(v={"type": "array", "items": {**TEXT, "maxLength": 5}}),
            True,
            "each entry is from 1 to 5 characters now",
        ),
        (
            of(v=listed()),
            of(v={"type": "array", "items": number(1, 2)}),
            True,
            "each entry is a whole number",
        ),
        (of(v=choice("a", "b")), of(v=choice("b", "c")), True, "no longer accepts a; also accepts c"),
        (of(v=choice("a")), of(v=choice("a", "b")), False, "also accepts b"),
        (of(v=TEXT), of(v=choice("a")), True, "accepts only a"),
        (of(v=choice("a")), of(v=TEXT), False, "is no longer limited to a"),
        (of(v=TEXT), of(v={**TEXT, "pattern": "^a+$"}), True, "must match ^a+$"),
        (of(v={**TEXT, "pattern": "^a+$"}), of(v=TEXT), False, "no longer has a pattern"),
        (of(v=TEXT), of("v", v=TEXT), True, "is required: orders without it are refused"),
        (of("v", v=TEXT), of(v=TEXT), False, "is optional"),
        (of("v", v=number(1, 9, default=1)), of("v", v=number(1, 9)), True, "no longer has a default, was 1"),
        (of(v=number(1, 9, default=1)), of(v=number(1, 9)), False, "no longer has a default, was 1"),
        (
            of(v=number(1, 9, default=1)),
            of(v=number(1, 9, default=2)),
            False,
            "is 2 by default, was 1",
        ),
        (of(v=TEXT), of(v={**TEXT, "title": "A zone"}), False, "has another description"),
        (
            of("d", d=of(size=number(1, 9))),
            of("d", d=of(size=number(2, 9))),
            True,
            "is from 2 to 9 now, was from 1 to 9",
        ),
    ],
)
def test_a_change_in_words(before: Any, after: Any, breaking: bool, said: str) -> None:
    (change,) = parameters_difference(before, after)
    assert said in "; ".join(change.sentences)
    assert change.breaking is breaking
    assert change.parameter in {"v", "d.size"}


def test_what_is_the_same_is_not_told_and_what_breaks_comes_first() -> None:
    before = of(a=TEXT, b=TEXT, c=number(1, 9))
    after = of(b=TEXT, c=number(1, 5), d=TEXT)
    found = [
        (change.parameter, change.kind, change.breaking) for change in parameters_difference(before, after)
    ]
    assert found == [
        ("a", ChangeKind.GONE, True),
        ("c", ChangeKind.CHANGED, True),
        ("d", ChangeKind.NEW, False),
    ]
    assert parameters_difference(before, before) == ()
    assert parameters_difference(schema_compile(before), before) == (), (
        "the rules of the subset are no change"
    )


SMALL = st.integers(0, 4)
SCHEMAS = st.one_of(
    st.builds(lambda a, b: number(min(a, b), max(a, b)), SMALL, SMALL),
    st.sets(st.sampled_from("abc"), min_size=1).map(lambda values: choice(*sorted(values))),
    st.builds(lambda a, b: {**TEXT, "minLength": 1 + min(a, b), "maxLength": 1 + max(a, b)}, SMALL, SMALL),
    st.sets(st.integers(0, 4), min_size=1).map(lambda values: {"type": "integer", "enum": sorted(values)}),
    st.just({"type": "boolean"}),
)
OBJECTS = st.builds(
    lambda properties, required: of(*(name for name in required if name in properties), **properties),
    st.dictionaries(st.sampled_from("pqr"), SCHEMAS, max_size=3),
    st.sets(st.sampled_from("pqr")),
)
VALUES = st.one_of(st.integers(-1, 5), st.booleans(), st.text("abcd", min_size=1, max_size=6))


def takes(schema: Any, document: Any) -> bool:
    try:
        document_check(schema_compile(schema), document)
    except Invalid:
        return False
    return True


@given(OBJECTS, OBJECTS, st.dictionaries(st.sampled_from("pqr"), VALUES, max_size=3))
def test_where_nothing_breaks_every_order_that_was_taken_is_taken(
    before: Any, after: Any, document: Any
) -> None:
    changes = parameters_difference(before, after)
    if takes(before, document) and not takes(after, document):
        assert any(change.breaking for change in changes)

"""Whatever a schema takes, a form can hold: both ways, without a loss; what a form could not hold is no schema of ours."""

import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.clusters.definition import definition_read
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import PROPERTY, Unfit, document_check, schema_compile
from gpuaas.core.schema_form import document_of, fields_of, form_of
from tests.clusters.stage import DOCUMENT

NAMES = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=8).filter(
    PROPERTY.fullmatch
)
LINES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029"), min_size=1, max_size=12
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1)


@st.composite
def leaves(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    """A schema of one field, and what it takes."""
    kind = draw(st.sampled_from(["text", "choice", "number", "numbers", "switch", "list"]))
    if kind == "text":
        most = draw(st.integers(12, 40))
        return {"type": "string", "maxLength": most}, LINES
    if kind == "choice":
        values = draw(st.lists(LINES, min_size=1, max_size=4, unique=True))
        return {"type": "string", "enum": values}, st.sampled_from(values)
    if kind == "number":
        least, most = sorted((draw(NUMBERS), draw(NUMBERS)))
        return {"type": "integer", "minimum": least, "maximum": most}, st.integers(least, most)
    if kind == "numbers":
        numbers = draw(st.lists(NUMBERS, min_size=1, max_size=4, unique=True))
        return {"type": "integer", "enum": numbers}, st.sampled_from(numbers)
    if kind == "switch":
        return {"type": "boolean"}, st.booleans()
    item, values_of = draw(leaves().filter(lambda made: made[0]["type"] in {"string", "integer"}))
    return {"type": "array", "items": item}, st.lists(values_of, min_size=1, max_size=4)


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of an object, and a document that it takes."""
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    document: dict[str, Any] = {}
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        if depth < 2 and draw(st.booleans()):
            schema["properties"][name], document[name] = draw(objects(depth=depth + 1))
            schema["required"].append(name)
            continue
        schema["properties"][name], values = draw(leaves())
        if draw(st.booleans()):
            schema["required"].append(name)
            document[name] = draw(values)
        elif draw(st.booleans()):
            document[name] = draw(values)
    return schema, document


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(objects())
def test_every_document_survives_the_form(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, document = schema_compile(made[0]), made[1]
    assert document_check(schema, document) == document
    posted = form_of(schema, document)
    assert set(posted) == {field.name for field in fields_of(schema)}
    assert all(type(text) is str for text in posted.values())
    as_browsers_do = {name: text.replace("\n", "\r\n") for name, text in posted.items()}
    assert document_check(schema, document_of(schema, as_browsers_do)) == document


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(objects(), st.dictionaries(NAMES, st.text(max_size=8), max_size=4))
def test_nothing_that_is_posted_breaks_the_form(
    made: tuple[dict[str, Any], dict[str, Any]], posted: dict[str, str]
) -> None:
    """It is a document that the schema takes, or it is refused beside a field of the form."""
    schema = schema_compile(made[0])
    texts = {**form_of(schema, made[1]), **posted}
    names = {field.name for field in fields_of(schema)}
    refused: set[str] = set()
    document: dict[str, Any] = made[1]
    try:
        document = document_check(schema, document_of(schema, texts))
    except Invalid as error:
        refused = set(error.fields)
    assert refused <= names
    assert document_check(schema, document) == document


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 0}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", ""]}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "x"]}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x", 1]}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}},
        {"type": "object", "properties": {"a": {"type": "number", "minimum": 0, "maximum": 1}}},
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0.5, "maximum": 1}}},
        {"type": "object", "properties": {"a": {"type": "integer", "enum": [True, 1]}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string"}, "minItems": 0}},
        },
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a.b": {"type": "boolean"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "properties": {"a": {"oneOf": []}}},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "boolean", "default": "yes"}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": []},
        [],
        None,
    ],
)
def test_what_a_form_could_not_hold_is_refused_at_definition(schema: Any) -> None:
    with pytest.raises(Unfit) as caught:
        schema_compile(schema)
    assert caught.value.fields["document"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"release": "1.30.0"}, "release"),
        ({"control_plane": 2}, "control_plane"),
        ({"pools": {"gpu": {"count": 9}}}, "pools.gpu.count"),
        ({"pools": {"gpu": {"count": 1.5}}}, "pools.gpu.count"),
        ({"pools": {"gpu": {"count": True}}}, "pools.gpu.count"),
        ({"pools": {"gpu": {"flavor": "l40s.1"}}}, "pools.gpu.flavor"),
        ({"pools": {"no": {}}}, "pools"),
        ({"pools": []}, "pools"),
        ({"addons": {"gpu-operator": False}}, "addons"),
        ({"parameters": {"mirrors": ["a\nb"]}}, "parameters.mirrors"),
        ({"parameters": {"mirrors": []}}, "parameters.mirrors"),
        ({"parameters": {"boot_seconds": 0}}, "parameters.boot_seconds"),
        ({"other": 1}, ""),
    ],
)
def test_an_order_is_refused_beside_its_field(change: dict[str, Any], field: str) -> None:
    schema = definition_read(DOCUMENT, kind="kubernetes").schema
    with pytest.raises(Invalid) as caught:
        document_check(schema, change)
    assert list(caught.value.fields) == [field]


def test_an_empty_order_is_the_default_one() -> None:
    schema = definition_read(DOCUMENT, kind="kubernetes").schema
    assert document_check(schema, {}) == {
        "release": "1.36.3",
        "control_plane": 1,
        "pools": {"gpu": {"flavor": "h100.2", "count": 1}, "small": {"flavor": "l40s.1", "count": 0}},
        "addons": {"monitoring": True},
        "parameters": {"pod_network": "cilium"},
    }


@pytest.mark.parametrize("given_document", [None, [], "x", 3])
def test_what_is_no_object_is_no_order(given_document: Any) -> None:
    schema = definition_read(DOCUMENT, kind="kubernetes").schema
    with pytest.raises(Invalid):
        document_check(schema, given_document)

"""What a driver may declare, and what is checked by it."""

from typing import Any

import pytest

from gpuaas.core.declaration import declaration_compile, declared_check
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Schema, Unfit
from gpuaas.core.schema_form import FieldKind, document_of, fields_of, form_of

TEXT = {"type": "string"}


def compiled(**properties: Any) -> Schema:
    return declaration_compile({"type": "object", "properties": properties})


WHOLE = compiled(
    config={**TEXT, "contentMediaType": "application/yaml", "writeOnly": True},
    token={**TEXT, "writeOnly": True, "title": "API token"},
    mode={**TEXT, "oneOf": [{"const": "a", "title": "The first"}, {"const": "b", "title": "The second"}]},
    labels={"type": "object", "additionalProperties": TEXT},
    rooms={"type": "array", "items": TEXT},
    door={"type": "object", "properties": {"code": {"type": "integer", "minimum": 1, "maximum": 9}}},
)


def test_fields_follow_from_it() -> None:
    fields = {field.name: field for field in fields_of(WHOLE)}
    kinds = {name: field.kind for name, field in fields.items()}
    assert kinds == {
        "config": FieldKind.DOCUMENT,
        "token": FieldKind.TEXT,
        "mode": FieldKind.CHOICE,
        "labels": FieldKind.PAIRS,
        "rooms": FieldKind.LINES,
        "door.code": FieldKind.NUMBER,
    }
    assert {name for name, field in fields.items() if field.secret} == {"config", "token"}
    assert fields["mode"].choices == (("a", "The first"), ("b", "The second"))
    assert fields["token"].label == "API token"


def test_forms_lose_nothing() -> None:
    document = {
        "config": "a: 1\nb: 2",
        "mode": "b",
        "labels": {"owner": "hpc", "rack": "7"},
        "rooms": ["one", "two"],
        "door": {"code": 3},
    }
    assert document_of(WHOLE, form_of(WHOLE, document)) == document
    assert declared_check(WHOLE, document, at="options") == document


@pytest.mark.parametrize(
    ("given", "beside"),
    [
        ({"token": 7}, "credentials.token"),
        ({"token": "two\nlines"}, "credentials.token"),
        ({"mode": "c"}, "credentials.mode"),
        ({"labels": {"owner": 1}}, "credentials.labels.owner"),
        ({"door": {"code": 10}}, "credentials.door.code"),
        ({"hello": "world"}, "credentials"),
    ],
)
def test_what_does_not_fit_is_refused_beside_its_field(given: dict[str, Any], beside: str) -> None:
    with pytest.raises(Invalid) as refused:
        declared_check(WHOLE, given, at="credentials")
    assert list(refused.value.fields) == [beside]


def test_what_is_needed_and_what_is_empty() -> None:
    schema = declaration_compile({"type": "object", "properties": {"token": TEXT}, "required": ["token"]})
    for given in ({}, {"token": ""}, {"token": None}):
        with pytest.raises(Invalid, match="this is required") as refused:
            declared_check(schema, given, at="credentials")
        assert list(refused.value.fields) == ["credentials.token"]
    assert declared_check(WHOLE, {"later": 1}, at="options", complete=False)["door"] == {}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "number"}, "the type must be one of"),
        ({**TEXT, "default": "x"}, "a default is not allowed"),
        ({**TEXT, "contentMediaType": "text/plain", "pattern": "x"}, "may only have"),
        ({**TEXT, "oneOf": [{"const": "a"}]}, "a const and a title"),
        ({"type": "object", "additionalProperties": {"type": "null"}}, "the type must be one of"),
        ({"type": "object", "patternProperties": {}}, "is not supported here"),
    ],
)
def test_what_no_form_could_show_is_refused(field: dict[str, Any], said: str) -> None:
    with pytest.raises(Unfit, match=said) as refused:
        compiled(field=field)
    assert "field" in refused.value.message

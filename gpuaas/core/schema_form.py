"""Converts a schema of the subset to plain form fields, and documents to posted values and back, without loss."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document, Schema

YES, NO = "true", "false"


class FieldKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    LINES = "lines"  # one entry a line
    PAIRS = "pairs"  # `name = value`, one a line
    DOCUMENT = "document"  # many lines, as they are


KINDS = {
    "boolean": FieldKind.SWITCH,
    "array": FieldKind.LINES,
    "integer": FieldKind.NUMBER,
    "object": FieldKind.PAIRS,
}
UNREADABLE = {
    "boolean": "choose yes or no",
    "object": "one entry per line, for example name = value, and each name only once",
}


@dataclass(frozen=True)
class FormField:
    """`name` is the path in the document ("pools.gpu.count"); a value posted as "" is left out of the document.

    choices: posted values with their labels. default: as it would be posted. secret: never shown again.
    """

    name: str
    kind: FieldKind
    label: str
    help: str = ""
    required: bool = False
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    max_length: int | None = None
    secret: bool = False


def fields_of(schema: Schema) -> tuple[FormField, ...]:
    """In the order of the schema."""
    return tuple(_fields(schema, ()))


def form_of(schema: Schema, document: Mapping[str, Any]) -> dict[str, str]:
    """What a form that shows the document would post."""
    posted = {}
    for path, inner, _ in _leaves(schema, ()):
        value = _get(document, path)
        posted[".".join(path)] = "" if value is None else _posted(inner, value)
    return posted


def document_of(schema: Schema, posted: Mapping[str, str]) -> Document:
    """The posted document, validated only for numbers. Raises Invalid at the fields."""
    document: Document = _empty(schema)
    wrong: dict[str, list[str]] = {}
    for path, inner, _ in _leaves(schema, ()):
        name = ".".join(path)
        text = posted.get(name, "")
        if text == "":
            continue
        try:
            _set(document, path, _read(inner, text))
        except ValueError:
            wrong[name] = [UNREADABLE.get(inner["type"], "a whole number")]
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)
    return document


def _leaves(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema, bool]]:
    for name, inner in schema["properties"].items():
        if inner["type"] == "object" and "properties" in inner:
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name), inner, name in schema["required"]


def _fields(schema: Schema, path: tuple[str, ...]) -> Iterator[FormField]:
    for where, inner, required in _leaves(schema, path):
        yield FormField(
            name=".".join(where),
            kind=_kind(inner),
            label=inner.get("title") or where[-1].replace("_", " ").replace("-", " ").capitalize(),
            help=inner.get("description", ""),
            required=required,
            default=_posted(inner, inner["default"]) if "default" in inner else "",
            choices=tuple(_choices(inner)),
            minimum=inner.get("minimum"),
            maximum=inner.get("maximum"),
            max_length=inner.get("maxLength"),
            secret=inner.get("writeOnly", False),
        )


def _choices(schema: Schema) -> Iterator[tuple[str, str]]:
    yield from ((str(one), str(one)) for one in schema.get("enum", ()))
    yield from ((one["const"], one["title"]) for one in schema.get("oneOf", ()))


def _kind(schema: Schema) -> FieldKind:
    if "enum" in schema or "oneOf" in schema:
        return FieldKind.CHOICE
    if "contentMediaType" in schema:
        return FieldKind.DOCUMENT
    return KINDS.get(schema["type"], FieldKind.TEXT)


def _posted(schema: Schema, value: Any) -> str:
    match schema["type"]:
        case "array":
            return "\n".join(_posted(schema["items"], one) for one in value)
        case "object":
            return "\n".join(f"{name} = {one}" for name, one in value.items())
        case "boolean":
            return YES if value else NO
        case "integer":
            return str(int(value))
    return str(value)


def _read(schema: Schema, text: str) -> Any:
    """Raises ValueError."""
    match schema["type"]:
        case "array":
            lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
            return [_read(schema["items"], line) for line in lines]
        case "object":
            pairs = [_pair(line) for line in map(str.strip, text.splitlines()) if line]
            if len(dict(pairs)) < len(pairs):
                raise ValueError(text)
            return dict(pairs)
        case "boolean":
            return {YES: True, NO: False}[text] if text in {YES, NO} else int("")
        case "integer":
            return int(text) if len(text) <= 20 and text.isascii() else int("")
    return text


def _pair(line: str) -> tuple[str, str]:
    """Raises ValueError."""
    name, _, value = (part.strip() for part in line.partition("="))
    if not (name and value):
        raise ValueError(line)
    return name, value


def _empty(schema: Schema) -> Document:
    inner = schema["properties"].items()
    return {name: _empty(each) for name, each in inner if each["type"] == "object" and "properties" in each}


def _get(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _set(document: Document, path: tuple[str, ...], value: Any) -> None:
    *above, last = path
    for name in above:
        document = document[name]
    document[last] = value

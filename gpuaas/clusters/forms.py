"""A schema of the subset as the plain fields of a form, and documents as what such a form posts; both ways without a loss."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuaas.clusters.schema import Document, Schema
from gpuaas.core.errors import Invalid

YES, NO = "true", "false"


class FieldKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    LINES = "lines"  # one entry a line


@dataclass(frozen=True)
class FormField:
    """`name` is the path in the document ("pools.gpu.count"); what is posted as "" is left out of it.

    choices: what is posted, and how it is shown. default: as it would be posted.
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
    """The document that was posted, not checked yet but for what is no number. Raises Invalid beside the fields."""
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
            wrong[name] = ["a whole number" if inner["type"] != "boolean" else "choose yes or no"]
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)
    return document


def _leaves(schema: Schema, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Schema, bool]]:
    for name, inner in schema["properties"].items():
        if inner["type"] == "object":
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
            choices=tuple((str(one), str(one)) for one in inner.get("enum", ())),
            minimum=inner.get("minimum"),
            maximum=inner.get("maximum"),
            max_length=inner.get("maxLength"),
        )


def _kind(schema: Schema) -> FieldKind:
    if "enum" in schema:
        return FieldKind.CHOICE
    kinds = {"boolean": FieldKind.SWITCH, "array": FieldKind.LINES, "integer": FieldKind.NUMBER}
    return kinds.get(schema["type"], FieldKind.TEXT)


def _posted(schema: Schema, value: Any) -> str:
    match schema["type"]:
        case "array":
            return "\n".join(_posted(schema["items"], one) for one in value)
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
        case "boolean":
            return {YES: True, NO: False}[text] if text in {YES, NO} else int("")
        case "integer":
            return int(text) if len(text) <= 20 and text.isascii() else int("")
    return text


def _empty(schema: Schema) -> Document:
    inner = schema["properties"].items()
    return {name: _empty(each) for name, each in inner if each["type"] == "object"}


def _get(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _set(document: Document, path: tuple[str, ...], value: Any) -> None:
    *above, last = path
    for name in above:
        document = document[name]
    document[last] = value

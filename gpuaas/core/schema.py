"""The subset of JSON Schema that templates may use: exactly what a form of plain fields can represent.

Objects have fixed properties, nested ones are required; strings are single lines of at least one character; numbers
are integers with bounds; lists hold at least one string or number. Anything else is refused when the template is
defined.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError

from gpuaas.core.errors import Invalid

Schema = dict[str, Any]
Document = dict[str, Any]

LINE: Final = r"^[^\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]+$(?!\n)"
PROPERTY = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,39}")
TEXT_MAX, ITEMS_MAX, PROPERTIES_MAX, DEPTH_MAX, PATTERN_MAX = 1000, 100, 40, 3, 200
INTEGER_MAX = 2**53 - 1
COMMON = {"type", "title", "description", "default"}
KEYWORDS: dict[str, set[str]] = {
    "object": COMMON - {"default"} | {"properties", "required", "additionalProperties"},
    "string": COMMON | {"enum", "minLength", "maxLength", "pattern"},
    "integer": COMMON | {"enum", "minimum", "maximum"},
    "boolean": COMMON,
    "array": COMMON | {"items", "minItems", "maxItems", "uniqueItems"},
}


class Unfit(Invalid):
    """A schema outside the subset; the path names the place."""

    def __init__(self, path: str, words: str) -> None:
        where = f"{path}: " if path else ""
        super().__init__(f"{where}{words}", fields={"document": [f"{where}{words}"]})


def schema_compile(given: Any, *, path: str = "") -> Schema:
    """The schema with the rules of the subset written into it, so that any JSON Schema validator enforces them.
    Raises Unfit."""
    return _compile(given, path, depth=0)


def _compile(given: Any, path: str, depth: int) -> Schema:
    if not isinstance(given, Mapping):
        raise Unfit(path, "a schema must be a JSON object")
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        raise Unfit(path, f"the type must be one of {', '.join(sorted(KEYWORDS))}")
    if unknown := sorted(set(map(str, given)) - KEYWORDS[kind]):
        raise Unfit(
            path, f"{unknown[0]!r} cannot be shown in a form; supported: {', '.join(sorted(KEYWORDS[kind]))}"
        )
    for key in ("title", "description"):
        if not isinstance(given.get(key, ""), str):
            raise Unfit(path, f"the {key} must be a string")
    made = _KINDS[kind](dict(given), path, depth)
    if "default" in made and (wrong := next(_wrong(made, made["default"]), "")):
        raise Unfit(path, f"the default is not valid: {wrong}")
    return made


def _object(given: Schema, path: str, depth: int) -> Schema:
    properties, required = given.get("properties", {}), given.get("required", [])
    if depth > DEPTH_MAX:
        raise Unfit(path, f"objects may be nested at most {DEPTH_MAX} deep")
    if not isinstance(properties, Mapping) or len(properties) > PROPERTIES_MAX:
        raise Unfit(path, f"properties must be an object of at most {PROPERTIES_MAX} schemas")
    if given.get("additionalProperties", False) is not False:
        raise Unfit(path, "additionalProperties must be false: a form has no place for others")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise Unfit(path, "required must be a list of names")
    if unknown := [name for name in required if name not in properties]:
        raise Unfit(path, f"{unknown[0][:40]!r} is required and has no schema")
    made = {}
    for name, schema in properties.items():
        inner = f"{path}.{name}" if path else str(name)
        if not isinstance(name, str) or not PROPERTY.fullmatch(name):
            raise Unfit(
                path,
                (
                    "the name of a property has 1 to 40 letters, digits, _ and -; this one is "
                    f"{str(name)[:60]!r}"
                ),
            )
        made[name] = _compile(schema, inner, depth + 1)
        if made[name]["type"] == "object" and name not in required:
            raise Unfit(inner, "a nested object must be required; its properties need not be")
    return {
        **given,
        "properties": made,
        "required": list(dict.fromkeys(required)),
        "additionalProperties": False,
    }


def _string(given: Schema, path: str, depth: int) -> Schema:
    del depth
    if "enum" in given:
        if extra := sorted({"minLength", "maxLength", "pattern"} & set(given)):
            raise Unfit(path, f"an enum cannot have {extra[0]}")
        if not _is_choice(given["enum"], str) or not all(re.search(LINE, one) for one in given["enum"]):
            raise Unfit(path, "enum must list different single lines of text")
        return given
    least, most = given.get("minLength", 1), given.get("maxLength", TEXT_MAX)
    if not _is_count(least) or not _is_count(most) or not 1 <= least <= most <= TEXT_MAX:
        raise Unfit(path, f"a string needs a length from 1 to {TEXT_MAX}: an empty one is left out")
    pattern = given.get("pattern", LINE)
    if not isinstance(pattern, str) or len(pattern) > PATTERN_MAX:
        raise Unfit(path, f"a pattern may have at most {PATTERN_MAX} characters")
    try:
        re.compile(pattern)
    except re.error as error:
        raise Unfit(path, f"the pattern is not a valid regular expression: {error}") from error
    made = {**given, "minLength": least, "maxLength": most, "pattern": pattern}
    return made if pattern == LINE else {**made, "allOf": [{"pattern": LINE}]}


def _integer(given: Schema, path: str, depth: int) -> Schema:
    del depth
    if "enum" in given:
        if {"minimum", "maximum"} & set(given) or not _is_choice(given["enum"], int):
            raise Unfit(path, "enum must list different integers, without minimum and maximum")
        bounds = given["enum"]
    else:
        bounds = [given.get("minimum"), given.get("maximum")]
    if not all(type(one) is int and abs(one) <= INTEGER_MAX for one in bounds):
        raise Unfit(path, "a number must be an integer with a minimum and a maximum")
    if "enum" not in given and bounds[0] > bounds[1]:
        raise Unfit(path, "the minimum is above the maximum")
    return given


def _boolean(given: Schema, path: str, depth: int) -> Schema:
    del path, depth
    return given


def _array(given: Schema, path: str, depth: int) -> Schema:
    items = _compile(given.get("items"), f"{path}[]", depth + 1)
    if items["type"] not in {"string", "integer"} or "default" in items:
        raise Unfit(path, "a list may contain strings or integers, without defaults of their own")
    least, most = given.get("minItems", 1), given.get("maxItems", ITEMS_MAX)
    if not _is_count(least) or not _is_count(most) or not 1 <= least <= most <= ITEMS_MAX:
        raise Unfit(path, f"a list needs from 1 to {ITEMS_MAX} entries: an empty one is left out")
    if type(given.get("uniqueItems", False)) is not bool:
        raise Unfit(path, "uniqueItems must be true or false")
    return {**given, "items": items, "minItems": least, "maxItems": most}


_KINDS = {"object": _object, "string": _string, "integer": _integer, "boolean": _boolean, "array": _array}


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_choice(values: Any, kind: type) -> bool:
    if not isinstance(values, list) or not 1 <= len(values) <= ITEMS_MAX:
        return False
    return all(type(one) is kind for one in values) and len(set(values)) == len(values)


# -- documents --------------------------------------------------------------------------------------------------------


def document_check(schema: Schema, given: Any) -> Document:
    """The document with the schema's defaults filled in. Raises Invalid at each field ("pools.gpu.count")."""
    document = filled(schema, given) if isinstance(given, Mapping) else given
    fields: dict[str, list[str]] = {}
    for path, words in _errors(schema, document):
        fields.setdefault(path, []).append(words)
    if fields:
        first, messages = next(iter(fields.items()))
        raise Invalid(f"{first}: {messages[0]}" if first else messages[0], fields=fields)
    checked: Document = _whole(schema, document)
    return checked


def filled(schema: Schema, document: Mapping[str, Any]) -> Document:
    made = dict(document)
    for name, inner in schema["properties"].items():
        if inner["type"] == "object" and "properties" in inner and isinstance(made.get(name, {}), Mapping):
            made[name] = filled(inner, made.get(name, {}))
        elif name not in made and "default" in inner:
            made[name] = inner["default"]
    return made


def _whole(schema: Schema, document: Any) -> Any:
    """JSON Schema accepts 2.0 as an integer; this turns it into 2."""
    match schema["type"]:
        case "object":
            known = schema.get("properties", {})
            return {
                name: _whole(known[name], one) if name in known else one for name, one in document.items()
            }
        case "array":
            return [_whole(schema["items"], value) for value in document]
        case "integer":
            return int(document)
    return document


def _errors(schema: Schema, document: Any) -> Iterator[tuple[str, str]]:
    for error in Draft202012Validator(schema).iter_errors(document):
        path = [str(part) for part in error.absolute_path if isinstance(part, str)]
        if error.validator == "required":
            missing = [name for name in _any(error.validator_value) if name not in _any(error.instance)]
            yield from ((".".join([*path, name]), "this is required") for name in missing)
            return
        yield ".".join(path), _words(error)


def _wrong(schema: Schema, value: Any) -> Iterator[str]:
    return (_words(error) for error in Draft202012Validator(schema).iter_errors(value))


def _words(error: ValidationError) -> str:
    wanted = _any(error.validator_value)
    match error.validator:
        case "enum":
            return f"choose one of {', '.join(map(str, wanted))}"
        case "minimum" | "maximum":
            return f"a whole number of {'at least' if error.validator == 'minimum' else 'at most'} {wanted}"
        case "minLength" | "maxLength":
            return (
                f"text of {'at least' if error.validator == 'minLength' else 'at most'} {wanted} characters"
            )
        case "pattern":
            return "a single line of text" if wanted == LINE else f"text that matches {wanted}"
        case "oneOf":
            return f"choose one of {', '.join(one['const'] for one in wanted)}"
        case "type":
            return f"this is {_ARTICLES[str(wanted)]}"
        case "minItems" | "maxItems":
            return f"{'at least' if error.validator == 'minItems' else 'at most'} {wanted} entries"
        case "uniqueItems":
            return "list each entry only once"
        case "additionalProperties":
            unknown = sorted(set(_any(error.instance)) - set(_any(error.schema)["properties"]))
            return f"unknown property {unknown[0][:60]!r}"
    return error.message[:200]


def _any(value: Any) -> Any:
    """The library's types allow a missing value and schema, which an error that was found always has."""
    return value


_ARTICLES = {
    "object": "an object",
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
}

"""Credentials and options that a driver needs: the JSON Schema subset of templates, with four additions.

`writeOnly` marks a secret. `contentMediaType` marks a document of several lines. `oneOf` of `const` and `title` is a
choice with labels. An object whose `additionalProperties` is a schema of strings maps names to strings. There are no
defaults: the driver decides about values left out.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.core.errors import Invalid
from gpuaas.core.schema import LINE, PROPERTY, Document, Schema, Unfit, document_check, schema_compile

DOCUMENT_MAX: Final = 256 * 1024
TEXTS = {"title", "description"}
NOTHING: Final[Schema] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def declaration_compile(given: Mapping[str, Any], *, path: str = "") -> Schema:
    """An object of fields, with the rules of the subset written into it. Raises Unfit."""
    known = TEXTS | {"type", "properties", "required", "additionalProperties"}
    if (unknown := sorted(set(given) - known)) or given.get("additionalProperties", False) is not False:
        raise Unfit(path, f"{(unknown or ['additionalProperties'])[0]!r} is not supported here")
    properties, required = given.get("properties", {}), list(given.get("required", ()))
    if missing := [name for name in required if name not in properties]:
        raise Unfit(path, f"{missing[0]!r} is required and has no schema")
    made = {}
    for name, inner in properties.items():
        where = f"{path}.{name}" if path else name
        if not PROPERTY.fullmatch(name):
            raise Unfit(where, "the name of a property has 1 to 40 letters, digits, _ and -")
        made[name] = _field(inner, where)
    texts = {key: given[key] for key in TEXTS & set(given)}
    return {**texts, **NOTHING, "properties": made, "required": required}


def _field(given: Mapping[str, Any], path: str) -> Schema:
    if "default" in given:
        raise Unfit(path, "a default is not allowed: the driver decides about values left out")
    plain = {key: value for key, value in given.items() if key != "writeOnly"}
    secret = {"writeOnly": True} if given.get("writeOnly") else {}
    if "contentMediaType" in plain:
        longest = min(int(plain.get("maxLength", DOCUMENT_MAX)), DOCUMENT_MAX)
        return {**_only(plain, {"contentMediaType", "maxLength"}, path), "maxLength": longest, **secret}
    if "oneOf" in plain:
        return {**_only(plain, {"oneOf"}, path), "oneOf": [_choice(one, path) for one in plain["oneOf"]]}
    if plain.get("type") == "object" and is_map(plain):
        values = schema_compile(plain["additionalProperties"], path=path)
        return {**plain, "additionalProperties": values, "propertyNames": {"pattern": LINE}}
    if plain.get("type") == "object":
        return declaration_compile(plain, path=path)
    return {**schema_compile(plain, path=path), **secret}


def _only(given: Schema, known: set[str], path: str) -> Schema:
    if given.get("type") != "string" or set(given) - known - TEXTS - {"type"}:
        raise Unfit(path, f"a string may only have {', '.join(sorted(known))} and descriptions")
    return given


def _choice(given: Mapping[str, Any], path: str) -> Schema:
    if set(given) != {"const", "title"} or not all(isinstance(word, str) and word for word in given.values()):
        raise Unfit(path, "each entry of oneOf has a const and a title, both strings")
    return dict(given)


def is_map(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping)


def declared_check(schema: Schema, given: Mapping[str, Any], *, at: str, complete: bool = True) -> Document:
    """The given values without empty strings. Raises Invalid at each field (`credentials.token`), and at `at` for
    fields that are not declared. complete=False: undeclared fields are ignored and not returned."""
    known = schema["properties"]
    filled = {
        name: value
        for name, value in given.items()
        if value not in ("", None) and (complete or name in known)
    }
    try:
        return document_check(schema, filled)
    except Invalid as error:
        fields = {f"{at}.{path}" if path else at: words for path, words in error.fields.items()}
        raise Invalid(error.message, fields=fields) from error

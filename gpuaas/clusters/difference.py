"""Compares two schemas of parameters in words, for those who decide about offering the newer one. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuaas.core.schema import LINE, Schema, schema_compile

# keyword of the least, of the most, and what they are bounds of
BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
)
TYPES = {"string": "a text", "integer": "a whole number", "boolean": "yes or no", "array": "a list"}


class ChangeKind(StrEnum):
    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


@dataclass(frozen=True)
class ParameterChange:
    """`breaking`: a choice that was accepted before may be refused. `sentences` have no full stop."""

    parameter: str
    kind: ChangeKind
    breaking: bool
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class _Leaf:
    schema: Schema
    required: bool

    @property
    def must(self) -> bool:
        """Required: there is no default."""
        return self.required and "default" not in self.schema


Finding = tuple[bool, str]


def parameters_difference(before: Schema, after: Schema) -> tuple[ParameterChange, ...]:
    """Breaking changes first, then by name. Raises Unfit for a schema that no form can show."""
    old, new = _leaves(schema_compile(before)), _leaves(schema_compile(after))
    found = [_change(name, old.get(name), new.get(name)) for name in {**old, **new}]
    changes = [change for change in found if change is not None]
    return tuple(sorted(changes, key=lambda change: (not change.breaking, change.parameter)))


def _leaves(schema: Schema, prefix: str = "") -> dict[str, _Leaf]:
    leaves: dict[str, _Leaf] = {}
    for name, inner in schema["properties"].items():
        path = f"{prefix}{name}"
        if inner["type"] == "object":
            leaves |= _leaves(inner, f"{path}.")
        else:
            leaves[path] = _Leaf(inner, name in schema["required"])
    return leaves


def _change(name: str, old: _Leaf | None, new: _Leaf | None) -> ParameterChange | None:
    if new is None:
        words = "is no longer available: orders that name it are refused"
        return ParameterChange(name, ChangeKind.GONE, breaking=True, sentences=(words,))
    if old is None:
        return ParameterChange(name, ChangeKind.NEW, breaking=new.must, sentences=tuple(_introduced(new)))
    changes = list(_changed(old, new))
    if not changes:
        return None
    breaking = any(breaks for breaks, _ in changes)
    return ParameterChange(name, ChangeKind.CHANGED, breaking, tuple(words for _, words in changes))


def _introduced(leaf: _Leaf) -> Iterator[str]:
    bounds = "".join(
        f", {words}" for words in (*_ranges(leaf.schema).values(), _choices(leaf.schema)) if words
    )
    yield f"{TYPES[leaf.schema['type']]}{bounds}"
    if "default" in leaf.schema:
        yield f"{_value(leaf.schema['default'])} by default"
    else:
        yield "is required: orders without it are refused" if leaf.must else "is optional"


def _changed(old: _Leaf, new: _Leaf) -> Iterator[Finding]:
    kinds = old.schema["type"], new.schema["type"]
    if kinds[0] != kinds[1]:
        yield True, f"is {TYPES[kinds[1]]} now, was {TYPES[kinds[0]]}"
    else:
        yield from _values(old.schema, new.schema)
        if kinds[0] == "array":
            inner = _values(old.schema["items"], new.schema["items"])
            kind = old.schema["items"]["type"], new.schema["items"]["type"]
            if kind[0] != kind[1]:
                yield True, f"each entry is {TYPES[kind[1]]} now, was {TYPES[kind[0]]}"
            else:
                yield from ((breaks, f"each entry {words}") for breaks, words in inner)
    yield from _defaults(old, new)
    if any(old.schema.get(key, "") != new.schema.get(key, "") for key in ("title", "description")):
        yield False, "has another description"


def _values(old: Schema, new: Schema) -> Iterator[Finding]:
    """Of two schemas of one type."""
    yield from _bounds(old, new)
    was, now = old.get("enum"), new.get("enum")
    if was and now:
        if gone := [one for one in was if one not in now]:
            yield True, f"no longer accepts {_listed(gone)}"
        if more := [one for one in now if one not in was]:
            yield False, f"also accepts {_listed(more)}"
    elif now:
        yield True, f"accepts only {_listed(now)}"
    elif was:
        yield False, f"is no longer limited to {_listed(was)}"
    if old.get("pattern", LINE) != new.get("pattern", LINE):
        free = "enum" in new or new.get("pattern", LINE) == LINE
        yield (False, "no longer has a pattern") if free else (True, f"must match {new['pattern']}")
    if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
        once = bool(new.get("uniqueItems"))
        yield once, "accepts each entry only once" if once else "accepts repeated entries"


def _bounds(old: Schema, new: Schema) -> Iterator[Finding]:
    if "enum" in old or "enum" in new:
        return
    were, are = _ranges(old), _ranges(new)
    for least, most, _ in BOUNDS:
        if least in were and were[least] != are[least]:
            breaking = new[least] > old[least] or new[most] < old[most]
            yield breaking, f"is {are[least]} now, was {were[least]}"


def _defaults(old: _Leaf, new: _Leaf) -> Iterator[Finding]:
    had, has = "default" in old.schema, "default" in new.schema
    if has and (not had or old.schema["default"] != new.schema["default"]):
        was = f", was {_value(old.schema['default'])}" if had else ""
        yield False, f"is {_value(new.schema['default'])} by default{was}"
    elif had and not has:
        yield False, f"no longer has a default, was {_value(old.schema['default'])}"
    if new.must and not old.must:
        yield True, "is required: orders without it are refused"
    elif old.must and not new.must:
        yield False, "is optional"


def _ranges(schema: Schema) -> dict[str, str]:
    return {
        least: f"from {schema[least]} to {schema[most]}{unit}"
        for least, most, unit in BOUNDS
        if least in schema and most in schema
    }


def _choices(schema: Schema) -> str:
    return f"one of {_listed(schema['enum'])}" if "enum" in schema else ""


def _listed(values: list[Any]) -> str:
    most = 12
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(_value(one) for one in values[:most]) + more


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)

"""Two schemas of parameters compared, in words, for whoever decides whether the newer one is offered. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuaas.clusters.schema import LINE, Schema, schema_compile

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
    """`breaking`: a choice that was taken before may be refused. says: sentences without a full stop."""

    parameter: str
    kind: ChangeKind
    breaking: bool
    says: tuple[str, ...]


@dataclass(frozen=True)
class _Leaf:
    schema: Schema
    required: bool

    @property
    def must(self) -> bool:
        """Has to be given: nothing fills it."""
        return self.required and "default" not in self.schema


Said = tuple[bool, str]


def parameters_difference(before: Schema, after: Schema) -> tuple[ParameterChange, ...]:
    """What breaks first, then by name. Raises Unfit for a schema that no form holds."""
    old, new = _leaves(schema_compile(before)), _leaves(schema_compile(after))
    found = [_change(name, old.get(name), new.get(name)) for name in {**old, **new}]
    changes = [change for change in found if change is not None]
    return tuple(sorted(changes, key=lambda change: (not change.breaking, change.parameter)))


def _leaves(schema: Schema, prefix: str = "") -> dict[str, _Leaf]:
    found: dict[str, _Leaf] = {}
    for name, inner in schema["properties"].items():
        path = f"{prefix}{name}"
        if inner["type"] == "object":
            found |= _leaves(inner, f"{path}.")
        else:
            found[path] = _Leaf(inner, name in schema["required"])
    return found


def _change(name: str, old: _Leaf | None, new: _Leaf | None) -> ParameterChange | None:
    if new is None:
        words = "can no longer be chosen: an order that names it is refused"
        return ParameterChange(name, ChangeKind.GONE, breaking=True, says=(words,))
    if old is None:
        return ParameterChange(name, ChangeKind.NEW, breaking=new.must, says=tuple(_introduced(new)))
    said = list(_changed(old, new))
    if not said:
        return None
    breaking = any(breaks for breaks, _ in said)
    return ParameterChange(name, ChangeKind.CHANGED, breaking, tuple(words for _, words in said))


def _introduced(leaf: _Leaf) -> Iterator[str]:
    bounds = "".join(
        f", {words}" for words in (*_ranges(leaf.schema).values(), _choices(leaf.schema)) if words
    )
    yield f"{TYPES[leaf.schema['type']]}{bounds}"
    if "default" in leaf.schema:
        yield f"{_value(leaf.schema['default'])} unless something else is chosen"
    else:
        yield "has to be given: an order without it is refused" if leaf.must else "may be left out"


def _changed(old: _Leaf, new: _Leaf) -> Iterator[Said]:
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
        yield False, "is described in other words"


def _values(old: Schema, new: Schema) -> Iterator[Said]:
    """Of two schemas of one type."""
    yield from _bounds(old, new)
    was, now = old.get("enum"), new.get("enum")
    if was and now:
        if gone := [one for one in was if one not in now]:
            yield True, f"no longer takes {_listed(gone)}"
        if more := [one for one in now if one not in was]:
            yield False, f"takes {_listed(more)} too"
    elif now:
        yield True, f"takes only {_listed(now)}"
    elif was:
        yield False, f"is no longer a choice of {_listed(was)}"
    if old.get("pattern", LINE) != new.get("pattern", LINE):
        free = "enum" in new or new.get("pattern", LINE) == LINE
        yield (False, "needs no pattern any more") if free else (True, f"has to match {new['pattern']}")
    if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
        once = bool(new.get("uniqueItems"))
        yield once, "takes each entry once" if once else "takes an entry more than once"


def _bounds(old: Schema, new: Schema) -> Iterator[Said]:
    if "enum" in old or "enum" in new:
        return
    were, are = _ranges(old), _ranges(new)
    for least, most, _ in BOUNDS:
        if least in were and were[least] != are[least]:
            breaking = new[least] > old[least] or new[most] < old[most]
            yield breaking, f"is {are[least]} now, was {were[least]}"


def _defaults(old: _Leaf, new: _Leaf) -> Iterator[Said]:
    had, has = "default" in old.schema, "default" in new.schema
    if has and (not had or old.schema["default"] != new.schema["default"]):
        was = f", was {_value(old.schema['default'])}" if had else ""
        yield False, f"is {_value(new.schema['default'])} unless something else is chosen{was}"
    elif had and not has:
        yield False, f"has no default any more, was {_value(old.schema['default'])}"
    if new.must and not old.must:
        yield True, "has to be given: an order without it is refused"
    elif old.must and not new.must:
        yield False, "may be left out"


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

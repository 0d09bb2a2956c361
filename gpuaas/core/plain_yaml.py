"""YAML as people write orders in it: one document of names, texts, whole numbers, true, false and null, in mappings and lists.

What makes YAML surprising or dangerous is refused by line: anchors and aliases, tags, names that are no texts or are given twice,
depth. Words are read as in YAML 1.2: `on`, `no` and 2026-11-27 are texts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import yaml
from yaml import Event, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from gpuaas.core.errors import Invalid

LONGEST: Final = 512 * 1024
DEEPEST, VALUES_MOST = 8, 5000
ODD: Final = "text must not contain null characters or lone surrogates"
_WORDS: Final[Mapping[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_BROKEN = re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}")


@dataclass
class Plain:
    """lines: of each value by its dotted path, from 1."""

    value: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, *_: Any) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def plain_yaml(value: Mapping[str, Any]) -> str:
    """In the order of its names. `plain_read` of it gives the same value; quotes are those that older readers need, too."""
    made: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)
    return made


def plain(value: Any) -> Any:
    """The value of an order's field as JSON has it; two that mean the same are equal then."""
    if isinstance(value, list | tuple):
        return [
            {part: text for part, text in each.items() if text} if isinstance(each, Mapping) else each
            for each in value
        ]
    return str(value) if isinstance(value, UUID) else value


def unusual(order: Mapping[str, Any], fields: Iterable[str], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an order as JSON has them, without what is as usual."""
    found = {name: plain(order[name]) for name in fields if name in order}
    return {name: each for name, each in found.items() if each != plain(usual.get(name))}


def plain_read(given: str | bytes) -> Plain:
    """Raises Invalid: without fields, but with the line, where it is no such document at all; else with all that is wrong at its
    fields."""
    if len(given) > LONGEST:
        raise Invalid(f"it is longer than {LONGEST // 1024} KiB")
    try:
        text = given if isinstance(given, str) else given.decode("utf-8-sig")
        reader = _Reader(yaml.parse(text, Loader=yaml.CSafeLoader))
        reader.document()
    except UnicodeError as error:
        raise Invalid("it is not a text in UTF-8") from error
    except yaml.reader.ReaderError as error:
        raise Invalid("it has a character that is not allowed in YAML") from error
    except yaml.MarkedYAMLError as error:
        mark, words = error.problem_mark or error.context_mark, error.problem or "this is not valid YAML"
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise Invalid(f"{where}{words}") from error
    if reader.wrong:
        raise Invalid("; ".join(texts[0] for texts in reader.wrong.values()), fields=reader.wrong)
    return reader.found


def odd(text: str) -> bool:
    """Whether it is one that no column can hold."""
    return "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text)


class _Reader:
    """Makes values of events, so that nothing is expanded or constructed."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.events, self.count = events, 0
        self.found, self.wrong = Plain(), dict[str, list[str]]()

    def document(self) -> None:
        stream, document = next(self.events), next(self.events)
        start = next(self.events, document)
        if not isinstance(start, MappingStartEvent):
            raise _refusal("it has no fields: write one on each line, as name: value", stream)
        self._judge(start, ())
        self.found.value = self._mapping(())
        next(self.events)
        if not isinstance(after := next(self.events), yaml.StreamEndEvent):
            raise _refusal("there is a second document; write one alone", after)

    def _mapping(self, path: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(key := next(self.events), MappingEndEvent):
            self._judge(key, path)
            if not isinstance(key, ScalarEvent) or not isinstance(_value_of(key), str):
                raise _refusal("a name must be a text; write a number or true in quotes", key)
            name = str(key.value)
            if odd(name):
                self._refuse(path, key, ODD)
            if name in found:
                self._refuse((*path, name), key, "this name is given twice")
            found[name] = self._value((*path, name))
        return found

    def _value(self, path: tuple[str, ...], event: Event | None = None) -> Any:
        event = event or next(self.events)
        self._judge(event, path)
        self.found.lines[".".join(path)] = _line_of(event)
        if isinstance(event, MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, ScalarEvent):
            if odd(event.value):
                self._refuse(path, event, ODD)
            return _value_of(event)
        found: list[Any] = []
        while not isinstance(inner := next(self.events), SequenceEndEvent):
            found.append(self._value((*path, str(len(found))), inner))
        return found

    def _judge(self, event: Event, path: tuple[str, ...]) -> None:
        self.count += 1
        if getattr(event, "anchor", None) is not None:
            raise _refusal("anchors and aliases (& and *) are not used here", event)
        if getattr(event, "tag", None) is not None:
            raise _refusal("tags (!) are not used here", event)
        if len(path) > DEEPEST:
            raise _refusal(f"this is nested deeper than {DEEPEST} levels", event)
        if self.count > VALUES_MOST:
            raise _refusal(f"there are more than {VALUES_MOST:,} values", event)

    def _refuse(self, path: tuple[str, ...], event: Event, words: str) -> None:
        shown = ".".join(path).replace("\x00", "�").encode("utf-8", "replace").decode()
        self.wrong.setdefault(shown, []).append(f"line {_line_of(event)}: {words}")


def _value_of(event: ScalarEvent) -> Any:
    text = str(event.value)
    if not event.implicit[0]:  # in quotes
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _WHOLE.fullmatch(text) else float(text) if _BROKEN.fullmatch(text) else text


def _line_of(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _refusal(words: str, event: Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark
    return yaml.MarkedYAMLError(problem=words, problem_mark=mark)

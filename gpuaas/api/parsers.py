"""Strict parsers: they refuse text that no database column can hold before any view sees it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType, ValidationError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.utils.json import strict_constant

from gpuaas.core.errors import Invalid
from gpuaas.core.plain_yaml import ODD, odd, plain_read

UTF_8 = "utf-8"  # RFC 8259, section 8.1
TWICE = "this name is given twice"


class StrictJSONParser(JSONParser):
    """Also refuses other encodings than UTF-8, nesting beyond Python's stack; and, each at its field, a name that an object has
    twice, null characters and lone surrogates."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        encoding = (parser_context or {}).get("encoding") or UTF_8
        if encoding.lower() not in {UTF_8, "utf8"}:
            # Python knows some that inflate a short body to gigabytes
            raise UnsupportedMediaType(f"{self.media_type}; charset={encoding[:40]}")
        try:
            text = stream.read().decode(UTF_8)
            parsed = json.loads(text, parse_constant=strict_constant, object_pairs_hook=_Object)
            wrong = dict(_odd(parsed, ()))
        except RecursionError as error:
            raise ParseError("the JSON is nested too deeply") from error
        except ValueError as error:
            raise ParseError(f"the body is not valid JSON: {error}") from error
        if wrong:
            raise ValidationError({path: [words] for path, words in wrong.items()})
        return parsed


class StrictYAMLParser(BaseParser):
    """The same for the YAML of `plain_yaml`: without anchors, tags, and names that are no texts."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            return plain_read(stream.read()).value
        except Invalid as error:
            if error.fields:
                raise
            raise ParseError(f"the body is not valid YAML: {error.message}") from error


class _Object(dict[str, Any]):
    """An object of JSON, and the names that it had more than once."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Of any iterable: `dataclasses.asdict` copies one by a generator."""
        known = list(pairs)
        super().__init__(known)
        times = Counter(name for name, _ in known)
        self.twice = {name for name, count in times.items() if count > 1}


def _odd(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if odd(value):
            yield _shown(*path), ODD
    elif isinstance(value, _Object):
        for name in value.twice:
            yield _shown(*path, name), TWICE
        for name, inner in value.items():
            if odd(name):
                yield _shown(*path), ODD
            yield from _odd(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _odd(inner, (*path, str(index)))


def _shown(*path: str) -> str:
    """As an answer can hold it."""
    return ".".join(path).replace("\x00", "�").encode("utf-8", "replace").decode()

"""Strict JSON parser: refuses text that no database column can hold before any view sees it."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class StrictJSONParser(JSONParser):
    """Also refuses nesting beyond Python's stack, NUL characters and lone surrogates, in keys and in values."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            parsed = super().parse(stream, media_type, parser_context)
            _refuse_odd_text(parsed)
        except RecursionError as error:
            raise ParseError("the JSON is nested too deeply") from error
        return parsed


def _refuse_odd_text(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ParseError("text must not contain NUL characters or lone surrogates")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _refuse_odd_text(key)
            _refuse_odd_text(inner)
    elif isinstance(value, list):
        for inner in value:
            _refuse_odd_text(inner)

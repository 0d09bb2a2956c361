"""Strict fields and serializers: a JSON integer is an integer, a string is a string, and an unknown field is an
error."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from gpuaas.core.conditions import Stored, conditions_read
from gpuaas.core.errors import UNKNOWN

BIGGEST = 2**31 - 1
EMAILS = "emails"


class Whole(serializers.IntegerField):
    """A JSON integer between `min_value` and `max_value`: no booleans, no floats, no digits in quotes."""

    def __init__(self, *, min_value: int = 0, max_value: int = BIGGEST, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Text(serializers.CharField):
    """A JSON string; numbers are not converted to text."""

    def __init__(self, *, max_length: int = 200, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class TextOrEmpty(Text):
    """Left out means the empty string."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, default="", allow_blank=True, **kwargs)


class TextOrNull(Text):
    """Left out means null."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, default=None, allow_null=True, **kwargs)


class Pick(serializers.ChoiceField):
    """One of the choices, as a JSON string."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=str(data)[:80])
        return super().to_internal_value(data)


class Switch(serializers.BooleanField):
    """A JSON boolean; neither words nor numbers."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=str(data)[:80])
        return data


class Instant(serializers.DateTimeField):
    """RFC 3339 with an offset; a time without one is refused, because its time zone is unknown."""

    def to_internal_value(self, value: Any) -> Any:
        if not isinstance(value, str) or not _has_offset(value):
            self.fail("invalid", format="YYYY-MM-DDThh:mm:ss[+HH:MM|-HH:MM|Z]")
        return super().to_internal_value(value)


def _has_offset(value: str) -> bool:
    """Of what is read of it: the last part of `2026-11-01-05:00` is a time of day, which looks like an offset."""
    try:
        read = parse_datetime(value)
    except ValueError:
        return False
    return read is not None and read.tzinfo is not None


# Input and Output have no docstrings: the API's document would repeat them for every shape.
class Input(serializers.Serializer[Any]):
    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        extend_schema_serializer(component_name=cls.__name__.removesuffix("Input").removesuffix("Patch"))(cls)

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [str(name)[:80] for name in data if name not in self.fields]
            if unknown:
                raise serializers.ValidationError({name: [UNKNOWN] for name in unknown})
        return super().to_internal_value(data)


# Changes what it names; has to name something.
class ChangeInput(Input):
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            *names, last = self.fields
            raise serializers.ValidationError(f"name what to change: {', '.join(names)} or {last}")
        return attrs


# Its shapes may have fields of these names, which hide DRF's own attributes: nothing of an answer reads those.
class Output(serializers.Serializer[Any]):
    fields: Any
    label: Any
    required: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        extend_schema_serializer(component_name=cls.__name__.removesuffix("Output"))(cls)


class MovedOutput(Output):
    """Of a transfer of files, how far it is."""

    files = serializers.IntegerField(help_text="That were copied in the newest attempt.")
    total_files = serializers.IntegerField(help_text="That it has to copy, as far as it knows.")
    bytes = serializers.IntegerField()
    total_bytes = serializers.IntegerField()


class QueryWhole(serializers.IntegerField):
    """Plain digits in a query string; Python's `int()` would also accept `1_0` and digits of any script."""

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, str) or not re.fullmatch(r"[0-9]{1,9}", data):
            self.fail("invalid")
        return int(data)


class QuerySwitch(serializers.BooleanField):
    """`true` or `false` in a query string; None if the parameter is absent."""

    default_empty_html = serializers.empty

    def to_internal_value(self, data: Any) -> bool:
        if data not in ("true", "false"):
            self.fail("invalid", input=str(data)[:80])
        return bool(data == "true")


class PageQuery(Input):
    """The parameters of every list."""

    cursor = serializers.CharField(
        required=False, max_length=1000, help_text="Cursor from the `next` address of the previous page."
    )
    page_size = QueryWhole(
        required=False, min_value=1, max_value=200, default=50, help_text="Rows per page, 200 at most."
    )


class NoQuery(Input):
    """For addresses that take no query parameters."""


class Email(serializers.CharField):
    """Of a member; empty unless the context of the answer says that the reader may see it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(help_text="Empty for readers who do not manage the members.", **kwargs)

    def to_representation(self, value: Any) -> str:
        return super().to_representation(value) if self.context.get(EMAILS) else ""


@extend_schema_field({"type": "string", "format": "decimal", "example": "2.40"})
class Money(serializers.Field[Any, Any, str, Any]):
    """An exact decimal as text, because a JSON number would become a float on the way. Only for answers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: Decimal) -> str:
        return f"{value:f}"


@extend_schema_field({"type": "string", "pattern": r"^\d{4}-\d{2}$", "example": "2026-11"})
class Month(serializers.DateField):
    """A month as YYYY-MM. Only for answers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, format="%Y-%m", **kwargs)


class ConditionOutput(Output):
    type = serializers.CharField()
    status = serializers.ChoiceField(choices=["True", "False", "Unknown"])
    reason = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField()
    remedy = serializers.CharField(allow_blank=True, help_text="What a person can do about it.")


@extend_schema_field(ConditionOutput(many=True))
class Conditions(serializers.Field[Any, Any, list[Any], Any]):
    """The conditions of a row, as `core.conditions` stores them. Only for answers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: Stored) -> list[Any]:
        return [dict(row) for row in ConditionOutput(conditions_read(value), many=True).data]

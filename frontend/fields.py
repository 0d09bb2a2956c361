"""How a Django form field becomes an input of the console: its class, its description, its error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.forms import BoundField, CheckboxInput, RadioSelect, Select, SelectMultiple


@dataclass(frozen=True)
class Control:
    """`html` is nothing for radio buttons, which the template writes one by one."""

    kind: str
    html: str | None
    errors: tuple[str, ...]
    help_id: str


def kind_of(bound: BoundField) -> str:
    widget = bound.field.widget
    if isinstance(widget, CheckboxInput):
        return "check"
    return "radio" if isinstance(widget, RadioSelect) else "text"


def css_of(bound: BoundField) -> str:
    widget = bound.field.widget
    if isinstance(widget, CheckboxInput):
        return "form-check-input"
    is_list = isinstance(widget, Select) and not isinstance(widget, SelectMultiple)
    return "form-select" if is_list else "form-control"


def control_of(bound: BoundField, hint: str, extra: Mapping[str, object]) -> Control:
    kind = kind_of(bound)
    errors = tuple(str(error) for error in bound.errors)
    help_id = f"{bound.auto_id or bound.html_name}-help"
    attrs: dict[str, str | bool] = {
        name.replace("_", "-"): value if isinstance(value, bool) else str(value)
        for name, value in extra.items()
    }
    attrs["class"] = f"{css_of(bound)} {bound.field.widget.attrs.get('class', '')}".strip()
    if hint or bound.help_text or errors:
        attrs["aria-describedby"] = help_id
    if errors:
        attrs["aria-invalid"] = "true"
    return Control(kind, None if kind == "radio" else bound.as_widget(attrs=attrs), errors, help_id)

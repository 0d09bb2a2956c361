"""Files that are moved before a job and after it: rows of a form, each with a field for all that a transfer has."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django import forms

from frontend.forms import Form, choices_set
from gpuaas.staging.transfers import FIELDS, FOLDER_MOST, TRANSFERS_MOST, URL_MOST, Way

ROWS = 2  # of inputs and of outputs that a new form has


class Shown(NamedTuple):
    """Of one way. locked: the reader may not change it."""

    name: str
    hint: str
    locked: bool
    rows: list[list[forms.BoundField]]


class TransferRows(Form):
    """parts: what a transfer has here. hints: where files come from and go."""

    parts: ClassVar[tuple[str, ...]] = FIELDS
    hints: ClassVar[Mapping[Way, str]]

    def rows_make(self, rows: Mapping[Way, int], credentials: Sequence[str]) -> None:
        """rows: how many; one that is left empty is none. credentials: the names of the project's."""
        self.rows = {way: range(min(rows[way], TRANSFERS_MOST)) for way in Way}
        offered = [("", "none"), *((each, each) for each in credentials)]
        for way, row in self.all_rows():
            fields = _fields(f"{way.label[:-1]} {row + 1}")
            for part in self.parts:
                self.fields[row_field(way, row, part)] = fields[part]
            choices_set(self, row_field(way, row, "credential"), offered)

    def all_rows(self) -> Iterator[tuple[Way, int]]:
        return ((way, row) for way in Way for row in self.rows[way])

    def locked_fields(self) -> Collection[str]:
        return ()

    def transfer_fields(self) -> list[Shown]:
        locked = self.locked_fields()
        return [
            Shown(
                str(way.label),
                self.hints[way],
                row_field(way, 0, "url") in locked,
                [[self[row_field(way, row, part)] for part in self.parts] for row in self.rows[way]],
            )
            for way in Way
        ]

    def filled(self, way: Way) -> dict[int, dict[str, str]]:
        """By row."""
        found = {
            row: {part: self.cleaned_data.get(row_field(way, row, part), "") for part in self.parts}
            for row in self.rows[way]
        }
        return {row: each for row, each in found.items() if any(each.values())}

    def transfers(self) -> dict[str, list[dict[str, str]]]:
        """As a service takes them."""
        return {f"{way}puts": list(self.filled(way).values()) for way in Way}

    def field_of(self, name: str) -> str:
        """Of what a service calls `inputs.0.url`."""
        head, _, rest = name.partition(".")
        at, _, part = rest.partition(".")
        way = next((way for way in Way if f"{way}puts" == head), None)
        return row_field(way, list(self.filled(way))[int(at)], part) if way is not None and part else name


def row_field(way: Way, row: int, part: str) -> str:
    return f"{way}puts_{row}_{part}"


def filled_of(order: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, str]:
    """What a form begins with that has these FILES."""
    return {
        row_field(way, at, part): each.get(part, "")
        for way in Way
        for at, each in enumerate(order[f"{way}puts"])
        for part in FIELDS
    }


def rows_in(given: Mapping[str, Any]) -> dict[Way, int]:
    """How many rows of files were sent, or are to be shown first."""
    return {
        way: max([ROWS, *(row + 1 for row in range(TRANSFERS_MOST) if row_field(way, row, "url") in given)])
        for way in Way
    }


def _fields(label: str) -> dict[str, forms.Field]:
    attrs = {"spellcheck": "false", "autocomplete": "off"}

    def text(what: str, most: int) -> forms.CharField:
        widget = forms.TextInput(attrs=attrs)
        return forms.CharField(label=f"{label}, {what}", max_length=most, required=False, widget=widget)

    return {
        "url": text("address", URL_MOST),
        "credential": forms.ChoiceField(label=f"{label}, credential", required=False),
        "volume": text("volume", 253),
        "folder": text("folder", FOLDER_MOST),
    }

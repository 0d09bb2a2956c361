"""What a chart is drawn from; the same numbers make its table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from frontend.components import Number
from frontend.formats import suffix


@dataclass(frozen=True)
class Series:
    """One color of a chart. `expected` says from which index on values are an estimate (hatched)."""

    name: str
    values: tuple[Number | None, ...]  # None, in lines only: nothing is known there


@dataclass(frozen=True)
class Chart:
    """A chart and its table, drawn from the same numbers. Order series by size: colors follow the rank."""

    id: str
    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    kind: str = "stack"
    unit: str = ""
    prefix: str = ""
    places: int | None = None  # decimals of every amount; None: two, where they are needed
    expected_from: int | None = None
    limit: Number | None = None
    limit_label: str = ""
    label_head: str = "Day"
    note: str = ""

    @property
    def rows(self) -> tuple[tuple[str, tuple[Number | None, ...], Number], ...]:
        found = []
        for place, label in enumerate(self.labels):
            values = tuple(series.values[place] for series in self.series)
            known = [value for value in values if value is not None]
            found.append((label, values, sum(known[1:], known[0]) if known else 0))
        return tuple(found)

    @property
    def suffix(self) -> str:
        return suffix(self.unit)

    @property
    def json(self) -> str:
        """For an attribute: the content of a script element would be lost when a live part of the page is fetched again."""
        return json.dumps(self.data)

    @property
    def data(self) -> dict[str, object]:
        """The JSON the script draws from; Decimals become floats only for pixels."""
        return {
            "kind": self.kind,
            "labels": self.labels,
            "suffix": self.suffix,
            "prefix": self.prefix,
            "places": self.places,
            "expectedFrom": self.expected_from,
            "limit": None if self.limit is None else float(self.limit),
            "limitLabel": self.limit_label,
            "series": [
                {"name": s.name, "values": [None if v is None else float(v) for v in s.values]}
                for s in self.series
            ],
        }

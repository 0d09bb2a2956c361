"""Conditions: named facts with status, reason, message and since, as in Kubernetes' API conventions.

Stored as one JSON object per row, keyed by type. `since` moves only when `status` changes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Condition:
    """`remedy` says what a person can do about it; empty if there is nothing to do."""

    type: str
    status: Status
    reason: str
    message: str
    since: datetime
    remedy: str = ""


Stored = dict[str, dict[str, Any]]


def conditions_read(stored: Stored) -> list[Condition]:
    return [
        Condition(
            type=kind,
            status=Status(row["status"]),
            reason=row["reason"],
            message=row["message"],
            since=datetime.fromisoformat(row["since"]),
            remedy=row.get("remedy", ""),
        )
        for kind, row in sorted(stored.items())
    ]


def condition_set(
    stored: Mapping[str, dict[str, Any]],
    *,
    type: str,
    status: Status,
    reason: str,
    message: str,
    now: datetime,
    remedy: str = "",
) -> Stored:
    """A new mapping with this condition; `since` does not change while the status stays the same."""
    old = stored.get(type)
    since = datetime.fromisoformat(old["since"]) if old and old["status"] == status else now
    row = asdict(Condition(type, status, reason, message, since, remedy))
    row["since"] = since.isoformat()
    row["status"] = str(status)
    del row["type"]
    return {**stored, type: row}

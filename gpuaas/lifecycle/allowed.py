"""Which verb is allowed in which state: one table per kind, used by its services and by the pages that show buttons."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Why = Callable[[Any], str]  # of a row that has failed: why it may not be asked; "" = it may


class Verb(StrEnum):
    """MANAGE: members, service accounts, policies. ENTER: credentials. COMPARE: with its site, field by field. ORDER, RUN
    and HALT: what is in it, such as a machine, is made, does something, is stopped or deleted."""

    RETRY = "retry"
    RESIZE = "resize"
    UPGRADE = "upgrade"
    SUSPEND = "suspend"
    RESUME = "resume"
    EXTEND = "extend"
    DELETE = "delete"
    MANAGE = "manage"
    ENTER = "enter"
    COMPARE = "compare"
    ORDER = "order"
    RUN = "run"
    HALT = "halt"


@dataclass(frozen=True)
class Allowed:
    """Allowed in any of `states`; in the state failed, if `failed` returns no objection. None: never there."""

    states: frozenset[Any]
    failed: Why | None = None


def always(_row: Any) -> str:
    return ""


def once_ready(row: Any) -> str:
    return "" if row.ready_at is not None else "it was never ready: retry or delete it"


def while_awake(row: Any) -> str:
    return once_ready(row) or ("it is suspended: resume it first" if row.suspended_at is not None else "")


def while_asleep(row: Any) -> str:
    return "" if row.suspended_at is not None else "it is not suspended: retry the failed operation"

"""Admission in the database: functions of PostgreSQL (migration `admission`) that lock counters in the global order, see what
others committed meanwhile, and change everything or nothing.

One statement, so that no lock of a counter waits for this process (decision 0075).
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.core.ids import uuid7
from quotas.checks import Scope
from quotas.holds import hold_refusal
from quotas.models import Hold
from tenants.models import Project

CounterKey = tuple[
    Scope, uuid.UUID, str
]  # of which scope, whose (the site's in the scope site), of which resource
Part = tuple[uuid.UUID, str, int]  # of which site, of which resource, how much

_RESERVE = """SELECT quotas_reserve(
    %s, %s, %s, %s, %s, %s::uuid[], %s::uuid[], %s::text[], %s::bigint[], %s::int[], %s::uuid[], %s::text[], %s::bigint[]
)"""
_MOVE = "SELECT quotas_counters_move(%s, %s, %s::int[], %s::uuid[], %s::text[], %s::bigint[])"


@dataclass(frozen=True)
class Refused:
    """The first counter that has no room, as it was under the lock. `kept`: its pool is reserved for another organization,
    `until` then or for good."""

    scope: Scope
    owner: uuid.UUID
    resource: str
    hard: int | None
    used: int
    kept: bool
    until: datetime | None


def parts_reserve(
    *,
    holder_kind: str,
    holder_id: uuid.UUID,
    project: Project,
    parts: Sequence[Part],
    counters: Mapping[CounterKey, int],
) -> Refused | None:
    """Reserves the parts for the holder and raises the counters, or changes nothing and returns what has no room. Raises
    OnHold, and Conflict if the holder already holds one of the parts."""
    answer = _asked(
        _RESERVE,
        (
            holder_kind,
            holder_id,
            project.pk,
            project.organization_id,
            clock.now(),
            [uuid7() for _ in parts],
            [site for site, _, _ in parts],
            [resource for _, resource, _ in parts],
            [amount for _, _, amount in parts],
            *_columns(counters),
        ),
    )
    if "held" in answer:
        raise Conflict(f"this {holder_kind} already holds a reservation")
    if "hold" in answer:
        raise hold_refusal(Hold(**answer["hold"]))
    return _refused(answer)


def counters_move(
    amounts: Mapping[CounterKey, int], *, organization_id: uuid.UUID | None = None
) -> Refused | None:
    """Adds the amounts, which may be negative or 0 (then only the lock is taken), or changes nothing and returns what has no
    room. With `organization_id`, which then gets something, its pools are asked for, too."""
    return _refused(_asked(_MOVE, (organization_id, clock.now(), *_columns(amounts))))


def _columns(amounts: Mapping[CounterKey, int]) -> tuple[list[int], list[uuid.UUID], list[str], list[int]]:
    return (
        [int(scope) for scope, _, _ in amounts],
        [owner for _, owner, _ in amounts],
        [resource for _, _, resource in amounts],
        list(amounts.values()),
    )


def _asked(statement: str, arguments: Sequence[Any]) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        (answer,) = cursor.fetchone() or (None,)
    return json.loads(answer) if answer else {}


def _refused(answer: dict[str, Any]) -> Refused | None:
    if not answer:
        return None
    until = answer["until"]
    return Refused(
        Scope(answer["scope"]),
        uuid.UUID(answer["owner"]),
        answer["resource"],
        answer["hard"],
        answer["used"],
        answer["kept"],
        datetime.fromisoformat(until) if until else None,
    )

"""The counters of one scope, moved by one statement: rows are locked in the order of their resources, then raised
where there is room. What another transaction has changed meanwhile is read under the lock."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import connection

from quotas.checks import Scope

_WHERE = {
    Scope.PROJECT: ("quotas_limit", "project_id"),
    Scope.ORGANIZATION: ("quotas_limit", "organization_id"),
    Scope.SITE: ("quotas_sitecapacity", "site_id"),
}
_MOVE = """
WITH asked AS (
    SELECT * FROM unnest(%(resources)s::text[], %(amounts)s::bigint[]) AS asked(resource, amount)
), locked AS (
    SELECT counter.id, counter.resource, counter.hard, counter.used
    FROM {table} counter
    WHERE counter.{column} = %(owner)s AND counter.resource = ANY(%(resources)s::text[])
    ORDER BY counter.resource
    FOR NO KEY UPDATE
)
UPDATE {table} counter SET used = counter.used {sign} asked.amount
FROM locked JOIN asked USING (resource)
WHERE counter.id = locked.id {room}
RETURNING counter.resource
"""
_ROOM = "AND (locked.hard IS NULL OR locked.hard >= locked.used + asked.amount)"


def counters_raise(scope: Scope, owner: uuid.UUID, amounts: Mapping[str, int]) -> set[str]:
    """Which of them had room and were raised; the caller undoes them where one had none."""
    return _move(scope, owner, amounts, sign="+", room=_ROOM)


def counters_lower(scope: Scope, owner: uuid.UUID, amounts: Mapping[str, int]) -> None:
    _move(scope, owner, amounts, sign="-", room="")


def _move(scope: Scope, owner: uuid.UUID, amounts: Mapping[str, int], *, sign: str, room: str) -> set[str]:
    table, column = _WHERE[scope]
    parameters: dict[str, Any] = {
        "resources": list(amounts),
        "amounts": list(amounts.values()),
        "owner": owner,
    }
    with connection.cursor() as cursor:
        cursor.execute(_MOVE.format(table=table, column=column, sign=sign, room=room), parameters)
        return {row[0] for row in cursor.fetchall()}

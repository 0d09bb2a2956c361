"""Sealing again, with the newest key, what older keys sealed.

A room names what it seals in `sealed` of its AppConfig: `app.Model.field`, or `app.Model.field:key` for a text inside a
JSON object. One row at a time is compared and swapped, so it may run beside everything, be killed, and run again.
"""

from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left, StrIndex

from gpuaas.core.crypto import SEALED, decrypt_json, encrypt_json, is_sealed, needs_rotation
from gpuaas.core.errors import Permanent


@dataclass
class Rotated:
    """sealed: rows sealed again. left: those that an older key sealed meanwhile. lost: those that no key opens."""

    sealed: int = 0
    left: int = 0
    lost: list[str] = field(default_factory=list)


def columns() -> list[str]:
    return [name for config in apps.get_app_configs() for name in getattr(config, "sealed", ())]


def keys_used() -> list[str]:
    """Ids of the keys with which something is sealed."""
    found: set[str] = set()
    for name in columns():
        rows, column, key = _parts(name)
        text = KeyTextTransform(key, column) if key else models.F(column)
        sealed = rows.order_by().annotate(text=text).filter(text__regex=SEALED.pattern)
        ids = sealed.annotate(key_id=Left("text", StrIndex("text", models.Value(":")) - 1))
        found |= set(ids.values_list("key_id", flat=True).distinct())
    return sorted(found)


def everything_rotate() -> dict[str, Rotated]:
    return {name: column_rotate(name) for name in columns()}


def column_rotate(name: str) -> Rotated:
    """`name`: see above."""
    rows, column, key = _parts(name)
    done = Rotated()
    for pk, stored in list(rows.values_list("pk", column)):
        if not needs_rotation(_text(stored, key)):
            continue
        try:
            done.sealed += _swap(rows, pk, column, stored, key)
        except Permanent:
            done.lost.append(str(pk))
    old = sum(needs_rotation(_text(stored, key)) for stored in rows.values_list(column, flat=True))
    done.left = old - len(done.lost)
    return done


def _parts(name: str) -> tuple["models.QuerySet[Any]", str, str]:
    path, _, key = name.partition(":")
    label, model, column = path.split(".")
    return apps.get_model(label, model)._default_manager.order_by("pk"), column, key


def _text(stored: Any, key: str) -> str:
    return str(stored.get(key) or "") if key else str(stored)


def _swap(rows: "models.QuerySet[Any]", pk: Any, column: str, stored: Any, key: str) -> int:
    """0 where somebody else has written the row meanwhile. Raises Permanent if no key opens it."""
    text = _text(stored, key)
    plain = {"text": text} if key and not is_sealed(text) else decrypt_json(text)  # from before it was sealed
    again = encrypt_json(plain)
    return rows.filter(pk=pk, **{column: stored}).update(**{column: {**stored, key: again} if key else again})

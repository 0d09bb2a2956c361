"""A job's order as a YAML document: what a job was given as people keep it, and what they send."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from gpuaas.core.plain_yaml import plain_yaml
from gpuaas.jobs.models import Job
from gpuaas.jobs.order import USUAL

# of an order as REST and documents give it, in the order in which they are written
FIELDS: Final = ("workspace", "name", "image", "command", "arguments", "variables", "gpu", *list(USUAL)[3:])

NEEDED: Final = ("workspace", "name", "image")  # of every order; all others may be left out
USUALLY: Final[dict[str, Any]] = {"gpu": "", **USUAL}


def order_of(row: Job) -> dict[str, Any]:
    """What makes the same job when it is sent again; what is as usual is left out."""
    found = {name: getattr(row, name) for name in FIELDS if name not in {"workspace", "gpu"}}
    found |= {
        "workspace": str(row.workspace_id),
        "gpu": row.pool.gpu_type.slug if row.pool is not None else "",
        "at_once": row.at_once if row.tasks > 1 and not row.together else None,
    }
    return order_plain(found)


def order_plain(order: Mapping[str, Any]) -> dict[str, Any]:
    """The same order as JSON has it, without what is as usual."""
    found = {name: plain(order[name]) for name in FIELDS if name in order}
    return {name: each for name, each in found.items() if each != plain(USUALLY.get(name))}


def plain(value: Any) -> Any:
    """The value of a field as JSON has it; two that mean the same are equal then."""
    if isinstance(value, list | tuple):
        return [
            {part: text for part, text in each.items() if text} if isinstance(each, Mapping) else each
            for each in value
        ]
    return str(value) if isinstance(value, UUID) else value


def document_of(row: Job) -> str:
    """Sent as it is, it makes the same job again."""
    return plain_yaml(order_of(row))

"""A job's order as a YAML document: what a job was given as people keep it, and what they send."""

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.core.errors import Conflict
from gpuaas.core.plain_yaml import plain_yaml, unusual
from gpuaas.core.retention import EMPTIED
from gpuaas.jobs.models import Job
from gpuaas.jobs.order import USUAL

# of an order as REST and documents give it, in the order in which they are written
FIELDS: Final = ("workspace", "name", "image", "command", "arguments", "variables", "gpu", *list(USUAL)[3:])

NEEDED: Final = ("workspace", "name", "image")  # of every order; all others may be left out
USUALLY: Final[dict[str, Any]] = {"gpu": "", **USUAL}


def order_of(row: Job) -> dict[str, Any]:
    """What makes the same job when it is sent again; what is as usual is left out. Raises Conflict once that is not kept any more."""
    if row.emptied_at is not None:
        raise Conflict(EMPTIED)
    found = {name: getattr(row, name) for name in FIELDS if name not in {"workspace", "gpu"}}
    found |= {
        "workspace": str(row.workspace_id),
        "gpu": row.pool.gpu_type.slug if row.pool is not None else "",
        "at_once": row.at_once if row.tasks > 1 and not row.together else None,
    }
    return order_plain(found)


def order_plain(order: Mapping[str, Any]) -> dict[str, Any]:
    return unusual(order, FIELDS, USUALLY)


def document_of(row: Job) -> str:
    """Sent as it is, it makes the same job again."""
    return plain_yaml(order_of(row))

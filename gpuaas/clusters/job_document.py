"""The order of a job on a Slurm cluster as a YAML document, with the fields of the API."""

from typing import Any, Final

from gpuaas.clusters.job_order import USUAL
from gpuaas.clusters.models import ClusterJob
from gpuaas.core.errors import Conflict
from gpuaas.core.plain_yaml import plain_yaml, unusual
from gpuaas.core.retention import EMPTIED

FIELDS: Final = ("name", "script", *USUAL)


def order_of(row: ClusterJob) -> dict[str, Any]:
    """What makes the same job when it is sent again, to this cluster or another one with such a partition. Raises Conflict once that is not
    kept any more."""
    if row.emptied_at is not None:
        raise Conflict(EMPTIED)
    return unusual({name: getattr(row, name) for name in FIELDS}, FIELDS, USUAL)


def document_of(row: ClusterJob) -> str:
    return plain_yaml(order_of(row))

"""Everything that changes a template, and the plan of an order."""

from gpuaas.clusters.services.planning import Plan, cluster_plan
from gpuaas.clusters.services.templates import (
    template_create,
    template_grant,
    template_update,
    template_version_add,
    template_version_deprecate,
)

__all__ = [
    "Plan",
    "cluster_plan",
    "template_create",
    "template_grant",
    "template_update",
    "template_version_add",
    "template_version_deprecate",
]

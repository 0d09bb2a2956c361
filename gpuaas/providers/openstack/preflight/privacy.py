"""Checks whether a tenant can list other projects' limits, which Keystone's default policy allows."""

from gpuaas.providers.base import Check
from gpuaas.providers.openstack.client import Cloud
from gpuaas.providers.verdicts import Kind

PRIVATE = Kind("LimitsPrivate")
REMEDY = (
    'Set "identity:list_limits" to "role:admin or role:service" in Keystone\'s policy.yaml, and give members no role that '
    "implies one of these."
)


def listed(own: Cloud, project: str, neighbor: str) -> Check:
    """`own`: signed in as a member of `project`; `neighbor`: another project, which has a limit of its own."""
    seen = own.items("identity", "/limits", "limits")
    seen += own.items("identity", "/limits", "limits", project_id=neighbor)
    others = {row["project_id"] for row in seen if row.get("project_id")} - {project}
    if others:
        return PRIVATE.bad(
            "Listed",
            "A member of one project can list the limits of others, and so see what they bought.",
            REMEDY,
        )
    return PRIVATE.good("Own", "Members can list only their own project's limits.")

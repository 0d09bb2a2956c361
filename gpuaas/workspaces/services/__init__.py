"""Writes of workspaces: each is one transaction that also writes the audit entry and starts the reconciler."""

from gpuaas.workspaces.services.access import access_revoke, credential_issue, sign_in_kubeconfig
from gpuaas.workspaces.services.adoption import (
    adoption_confirm,
    adoption_discard,
    adoption_plan_request,
    adoption_scan_request,
)
from gpuaas.workspaces.services.changes import (
    workspace_delete,
    workspace_extend,
    workspace_resize,
    workspace_retry,
)
from gpuaas.workspaces.services.drift import (
    drift_check_request,
    drift_repair,
    site_drift_check_request,
)
from gpuaas.workspaces.services.evictions import (
    eviction_done,
    eviction_record,
    within_quota_note,
)
from gpuaas.workspaces.services.lend import workspace_lend
from gpuaas.workspaces.services.look import workspace_look
from gpuaas.workspaces.services.members import member_remove, member_set
from gpuaas.workspaces.services.request import workspace_request
from gpuaas.workspaces.services.robots import robot_access_issue, robot_create, robot_delete
from gpuaas.workspaces.services.suspend import resume_preview, workspace_resume, workspace_suspend

__all__ = [
    "access_revoke",
    "adoption_confirm",
    "adoption_discard",
    "adoption_plan_request",
    "adoption_scan_request",
    "credential_issue",
    "drift_check_request",
    "drift_repair",
    "eviction_done",
    "eviction_record",
    "member_remove",
    "member_set",
    "resume_preview",
    "robot_access_issue",
    "robot_create",
    "robot_delete",
    "sign_in_kubeconfig",
    "site_drift_check_request",
    "within_quota_note",
    "workspace_delete",
    "workspace_extend",
    "workspace_lend",
    "workspace_look",
    "workspace_request",
    "workspace_resize",
    "workspace_resume",
    "workspace_retry",
    "workspace_suspend",
]

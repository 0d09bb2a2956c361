"""Everything that changes a template or a cluster."""

from gpuaas.clusters.services.access import (
    cluster_can_revoke,
    cluster_credential,
    credentials_revoke,
    login_ask,
    revocations_carry_out,
    revocations_due,
)
from gpuaas.clusters.services.changes import (
    cluster_delete,
    cluster_extend,
    cluster_retry,
    cluster_scale,
    cluster_upgrade,
    resume_preview,
    scale_preview,
    scale_warnings,
)
from gpuaas.clusters.services.imports import (
    parameters_are_told,
    parameters_import_drop,
    parameters_import_publish,
    parameters_import_request,
    template_parameters_import,
)
from gpuaas.clusters.services.job_reports import jobs_carry_out, jobs_due
from gpuaas.clusters.services.job_retention import cluster_jobs_empty
from gpuaas.clusters.services.jobs import (
    cluster_job_cancel,
    cluster_job_retry,
    cluster_job_submit,
    cluster_job_wrong,
    jobs_why_not,
    partitions_of,
)
from gpuaas.clusters.services.order import cluster_order
from gpuaas.clusters.services.planning import Draft, Plan, cluster_plan
from gpuaas.clusters.services.policies import (
    PolicyTerms,
    policy_create,
    policy_delete,
    policy_switch,
    policy_update,
)
from gpuaas.clusters.services.reports import node_report, queue_report, seeds_rotate
from gpuaas.clusters.services.suspend import cluster_resume, cluster_suspend
from gpuaas.clusters.services.templates import (
    template_create,
    template_grant,
    template_update,
    template_version_add,
    template_version_deprecate,
)
from gpuaas.clusters.services.use import Used
from gpuaas.clusters.services.warm import (
    warm_pool_create,
    warm_pool_draft,
    warm_pool_end,
    warm_pool_update,
)

__all__ = [
    "Draft",
    "Plan",
    "PolicyTerms",
    "Used",
    "cluster_can_revoke",
    "cluster_credential",
    "cluster_delete",
    "cluster_extend",
    "cluster_job_cancel",
    "cluster_job_retry",
    "cluster_job_submit",
    "cluster_job_wrong",
    "cluster_jobs_empty",
    "cluster_order",
    "cluster_plan",
    "cluster_resume",
    "cluster_retry",
    "cluster_scale",
    "cluster_suspend",
    "cluster_upgrade",
    "credentials_revoke",
    "jobs_carry_out",
    "jobs_due",
    "jobs_why_not",
    "login_ask",
    "node_report",
    "parameters_are_told",
    "parameters_import_drop",
    "parameters_import_publish",
    "parameters_import_request",
    "partitions_of",
    "policy_create",
    "policy_delete",
    "policy_switch",
    "policy_update",
    "queue_report",
    "resume_preview",
    "revocations_carry_out",
    "revocations_due",
    "scale_preview",
    "scale_warnings",
    "seeds_rotate",
    "template_create",
    "template_grant",
    "template_parameters_import",
    "template_update",
    "template_version_add",
    "template_version_deprecate",
    "warm_pool_create",
    "warm_pool_draft",
    "warm_pool_end",
    "warm_pool_update",
]

"""Addresses of clusters on demand."""

from gpuaas.api.v1.clusters import (
    hosts,
    imports,
    jobs,
    node_reports,
    platform,
    policies,
    queue_reports,
    templates,
    usage,
    views,
    warm_pools,
)
from gpuaas.api.v1.paths import PROJECT, tagged

HOSTS = "platform/sites/<name_slug:site>/hosts"
TEMPLATE = "platform/cluster-templates/<name_slug:template>"
OFFERED = f"{PROJECT}/cluster-templates"
CLUSTER = f"{PROJECT}/clusters/<uuid:cluster>"
GRANTED = f"{TEMPLATE}/organizations/<name_slug:organization>"

cluster_urls = [
    *tagged(
        "clusters",
        ("node-reports", node_reports.NodeReportsView, "node-reports"),
        ("queue-reports", queue_reports.QueueReportsView, "queue-reports"),
        (OFFERED, templates.ClusterTemplatesView, "cluster-templates"),
        (f"{OFFERED}/<name_slug:template>", templates.ClusterTemplateView, "cluster-template"),
        (f"{PROJECT}/clusters", views.ClustersView, "clusters"),
        (f"{PROJECT}/clusters/plan", templates.ClusterPlanView, "cluster-plan"),
        (CLUSTER, views.ClusterDetailView, "cluster"),
        (f"{CLUSTER}/plan", templates.ClusterScalePlanView, "cluster-scale-plan"),
        (f"{CLUSTER}/upgrade", views.ClusterUpgradeView, "cluster-upgrade"),
        (f"{CLUSTER}/retry", views.ClusterRetryView, "cluster-retry"),
        (f"{CLUSTER}/suspend", views.ClusterSuspendView, "cluster-suspend"),
        (f"{CLUSTER}/resume", views.ClusterResumeView, "cluster-resume"),
        (f"{CLUSTER}/operations", views.ClusterOperationsView, "cluster-operations"),
        (f"{CLUSTER}/ledger", views.ClusterLedgerView, "cluster-ledger"),
        (f"{CLUSTER}/usage", usage.ClusterUsageView, "cluster-usage"),
        (f"{CLUSTER}/credential", views.ClusterCredentialView, "cluster-credential"),
        (f"{CLUSTER}/grants", views.ClusterGrantsView, "cluster-grants"),
        (f"{CLUSTER}/grants/revoke", views.ClusterRevocationView, "cluster-grants-revoke"),
    ),
    *tagged(
        "cluster jobs",
        (f"{CLUSTER}/jobs", jobs.ClusterJobsView, "cluster-jobs"),
        (f"{CLUSTER}/jobs/<uuid:cluster_job>", jobs.ClusterJobView, "cluster-job"),
        (f"{CLUSTER}/jobs/<uuid:cluster_job>/file", jobs.ClusterJobFileView, "cluster-job-file"),
        (f"{CLUSTER}/jobs/<uuid:cluster_job>/cancel", jobs.ClusterJobCancelView, "cluster-job-cancel"),
        (f"{CLUSTER}/jobs/<uuid:cluster_job>/retry", jobs.ClusterJobRetryView, "cluster-job-retry"),
        (f"{CLUSTER}/jobs/<uuid:cluster_job>/log", jobs.ClusterJobLogView, "cluster-job-log"),
    ),
    *tagged(
        "cluster policies",
        (f"{CLUSTER}/policy-kinds", policies.KindsView, "cluster-policy-kinds"),
        (f"{CLUSTER}/policies", policies.PoliciesView, "cluster-policies"),
        (f"{CLUSTER}/policies/dry-run", policies.DryRunView, "cluster-policy-dry-run"),
        (f"{CLUSTER}/policies/decisions", policies.DecisionsView, "cluster-policy-decisions"),
        (f"{CLUSTER}/policies/<uuid:policy>", policies.PolicyView, "cluster-policy"),
    ),
]

platform_cluster_urls = tagged(
    "platform",
    (HOSTS, hosts.HostsView, "platform-hosts"),
    (f"{HOSTS}/<name:host>", hosts.HostView, "platform-host"),
    (f"{HOSTS}/<name:host>/actions", hosts.HostActionView, "platform-host-actions"),
    ("platform/clusters", platform.PlatformClustersView, "platform-clusters"),
    ("platform/cluster-orphans", platform.PlatformOrphansView, "platform-cluster-orphans"),
    ("platform/cluster-templates", platform.PlatformTemplatesView, "platform-cluster-templates"),
    (TEMPLATE, platform.PlatformTemplateView, "platform-cluster-template"),
    (f"{TEMPLATE}/versions", platform.PlatformVersionsView, "platform-cluster-template-versions"),
    (
        f"{TEMPLATE}/versions/<int:version>",
        platform.PlatformVersionView,
        "platform-cluster-template-version",
    ),
    (f"{TEMPLATE}/import", imports.ImportView, "platform-cluster-template-import"),
    (f"{TEMPLATE}/import/publish", imports.ImportPublishView, "platform-cluster-template-import-publish"),
    (f"{TEMPLATE}/warm-pools", warm_pools.WarmPoolsView, "platform-warm-pools"),
    (f"{TEMPLATE}/warm-pools/<uuid:warm_pool>", warm_pools.WarmPoolView, "platform-warm-pool"),
    (GRANTED, platform.PlatformTemplateGrantView, "platform-cluster-template-organization"),
)

"""Addresses of clusters on demand."""

from django.urls import path

from gpuaas.api import converters as _registered  # noqa: F401  the converters of the routes below
from gpuaas.api.v1 import (
    cluster_imports,
    cluster_platform,
    cluster_policies,
    cluster_templates,
    cluster_warm,
    clusters,
    hosts,
    node_reports,
)

PROJECT = "projects/<name_slug:project>"
HOSTS = "platform/sites/<name_slug:site>/hosts"
TEMPLATE = "platform/cluster-templates/<name_slug:template>"
CLUSTER = f"{PROJECT}/clusters/<uuid:cluster>"
cluster_urls = [
    path("node-reports", node_reports.NodeReportsView.as_view(), name="node-reports"),
    path(
        f"{PROJECT}/cluster-templates",
        cluster_templates.ClusterTemplatesView.as_view(),
        name="cluster-templates",
    ),
    path(
        f"{PROJECT}/cluster-templates/<name_slug:template>",
        cluster_templates.ClusterTemplateView.as_view(),
        name="cluster-template",
    ),
    path(f"{PROJECT}/clusters", clusters.ClustersView.as_view(), name="clusters"),
    path(f"{PROJECT}/clusters/plan", cluster_templates.ClusterPlanView.as_view(), name="cluster-plan"),
    path(CLUSTER, clusters.ClusterDetailView.as_view(), name="cluster"),
    path(f"{CLUSTER}/plan", cluster_templates.ClusterScalePlanView.as_view(), name="cluster-scale-plan"),
    path(f"{CLUSTER}/upgrade", clusters.ClusterUpgradeView.as_view(), name="cluster-upgrade"),
    path(f"{CLUSTER}/retry", clusters.ClusterRetryView.as_view(), name="cluster-retry"),
    path(f"{CLUSTER}/suspend", clusters.ClusterSuspendView.as_view(), name="cluster-suspend"),
    path(f"{CLUSTER}/resume", clusters.ClusterResumeView.as_view(), name="cluster-resume"),
    path(f"{CLUSTER}/operations", clusters.ClusterOperationsView.as_view(), name="cluster-operations"),
    path(f"{CLUSTER}/ledger", clusters.ClusterLedgerView.as_view(), name="cluster-ledger"),
    path(f"{CLUSTER}/credential", clusters.ClusterCredentialView.as_view(), name="cluster-credential"),
    path(f"{CLUSTER}/grants", clusters.ClusterGrantsView.as_view(), name="cluster-grants"),
    path(f"{CLUSTER}/grants/revoke", clusters.ClusterRevocationView.as_view(), name="cluster-grants-revoke"),
    path(f"{CLUSTER}/policy-kinds", cluster_policies.KindsView.as_view(), name="cluster-policy-kinds"),
    path(f"{CLUSTER}/policies", cluster_policies.PoliciesView.as_view(), name="cluster-policies"),
    path(f"{CLUSTER}/policies/dry-run", cluster_policies.DryRunView.as_view(), name="cluster-policy-dry-run"),
    path(
        f"{CLUSTER}/policies/decisions",
        cluster_policies.DecisionsView.as_view(),
        name="cluster-policy-decisions",
    ),
    path(f"{CLUSTER}/policies/<uuid:policy>", cluster_policies.PolicyView.as_view(), name="cluster-policy"),
]

platform_cluster_urls = [
    path(HOSTS, hosts.HostsView.as_view(), name="platform-hosts"),
    path(f"{HOSTS}/<name:host>", hosts.HostView.as_view(), name="platform-host"),
    path(f"{HOSTS}/<name:host>/actions", hosts.HostActionView.as_view(), name="platform-host-actions"),
    path("platform/clusters", cluster_platform.PlatformClustersView.as_view(), name="platform-clusters"),
    path(
        "platform/cluster-orphans",
        cluster_platform.PlatformOrphansView.as_view(),
        name="platform-cluster-orphans",
    ),
    path(
        "platform/cluster-templates",
        cluster_platform.PlatformTemplatesView.as_view(),
        name="platform-cluster-templates",
    ),
    path(TEMPLATE, cluster_platform.PlatformTemplateView.as_view(), name="platform-cluster-template"),
    path(
        f"{TEMPLATE}/versions",
        cluster_platform.PlatformVersionsView.as_view(),
        name="platform-cluster-template-versions",
    ),
    path(
        f"{TEMPLATE}/versions/<int:version>",
        cluster_platform.PlatformVersionView.as_view(),
        name="platform-cluster-template-version",
    ),
    path(f"{TEMPLATE}/import", cluster_imports.ImportView.as_view(), name="platform-cluster-template-import"),
    path(
        f"{TEMPLATE}/import/publish",
        cluster_imports.ImportPublishView.as_view(),
        name="platform-cluster-template-import-publish",
    ),
    path(f"{TEMPLATE}/warm-pools", cluster_warm.WarmPoolsView.as_view(), name="platform-warm-pools"),
    path(
        f"{TEMPLATE}/warm-pools/<uuid:warm_pool>",
        cluster_warm.WarmPoolView.as_view(),
        name="platform-warm-pool",
    ),
    path(
        f"{TEMPLATE}/organizations/<name_slug:organization>",
        cluster_platform.PlatformTemplateGrantView.as_view(),
        name="platform-cluster-template-organization",
    ),
]

"""Every address of version 1."""

from django.urls import path

from gpuaas.api import converters as _registered  # noqa: F401  the converters of the routes below
from gpuaas.api.v1 import (
    adoptions,
    audit,
    billing,
    catalog,
    drifts,
    exports,
    fitness,
    keys,
    limits,
    machines,
    me,
    members,
    meters,
    offers,
    organizations,
    projects,
    quotes,
    sites,
    tokens,
    workspace_access,
    workspaces,
)
from gpuaas.api.v1.cluster_urls import cluster_urls, platform_cluster_urls
from gpuaas.api.v1.money_urls import card_urls, invoice_urls, money_urls, pool_urls

PROJECT = "projects/<name_slug:project>"
ORGANIZATION = "organizations/<name_slug:organization>"
SITE = "platform/sites/<name_slug:site>"
WORKSPACE = f"{PROJECT}/workspaces/<uuid:workspace>"

tenant_urls = [
    path("organizations", organizations.OrganizationsView.as_view(), name="organizations"),
    path(ORGANIZATION, organizations.OrganizationDetailView.as_view(), name="organization"),
    path(
        f"{ORGANIZATION}/projects", projects.OrganizationProjectsView.as_view(), name="organization-projects"
    ),
    path(f"{ORGANIZATION}/members", members.OrganizationMembersView.as_view(), name="organization-members"),
    path(
        f"{ORGANIZATION}/members/<username:username>",
        members.OrganizationMemberView.as_view(),
        name="organization-member",
    ),
    path("projects", projects.ProjectsView.as_view(), name="projects"),
    path(PROJECT, projects.ProjectDetailView.as_view(), name="project"),
    path(f"{PROJECT}/members", members.ProjectMembersView.as_view(), name="project-members"),
    path(
        f"{PROJECT}/members/<username:username>", members.ProjectMemberView.as_view(), name="project-member"
    ),
    path(f"{PROJECT}/tokens", tokens.TokensView.as_view(), name="tokens"),
    path(f"{PROJECT}/tokens/<uuid:token>", tokens.TokenView.as_view(), name="token"),
    path(f"{PROJECT}/limits", limits.ProjectLimitsView.as_view(), name="project-limits"),
    path(f"{PROJECT}/audit", audit.ProjectAuditView.as_view(), name="project-audit"),
]

workspace_urls = [
    path(f"{PROJECT}/workspaces", workspaces.WorkspacesView.as_view(), name="workspaces"),
    path(
        f"{PROJECT}/workspaces/preview", workspaces.WorkspacePreviewView.as_view(), name="workspace-preview"
    ),
    path(WORKSPACE, workspaces.WorkspaceDetailView.as_view(), name="workspace"),
    path(f"{WORKSPACE}/quote", quotes.WorkspaceQuoteView.as_view(), name="workspace-quote"),
    path(f"{WORKSPACE}/drifts", drifts.WorkspaceDriftsView.as_view(), name="workspace-drifts"),
    path(f"{WORKSPACE}/drift-check", drifts.WorkspaceDriftCheckView.as_view(), name="workspace-drift-check"),
    path(f"{WORKSPACE}/retry", workspaces.WorkspaceRetryView.as_view(), name="workspace-retry"),
    path(f"{WORKSPACE}/suspend", workspaces.WorkspaceSuspendView.as_view(), name="workspace-suspend"),
    path(f"{WORKSPACE}/resume", workspaces.WorkspaceResumeView.as_view(), name="workspace-resume"),
    path(
        f"{WORKSPACE}/operations", workspaces.WorkspaceOperationsView.as_view(), name="workspace-operations"
    ),
    path(
        f"{WORKSPACE}/kubeconfig",
        workspace_access.WorkspaceKubeconfigView.as_view(),
        name="workspace-kubeconfig",
    ),
    path(
        f"{WORKSPACE}/credential",
        workspace_access.WorkspaceCredentialView.as_view(),
        name="workspace-credential",
    ),
    path(f"{WORKSPACE}/members", workspaces.WorkspaceMembersView.as_view(), name="workspace-members"),
    path(
        f"{WORKSPACE}/members/<username:username>",
        workspaces.WorkspaceMemberView.as_view(),
        name="workspace-member",
    ),
]

MACHINES = f"{WORKSPACE}/machines"
machine_urls = [
    path("me/keys", keys.KeysView.as_view(), name="keys"),
    path("me/keys/<name_slug:key>", keys.KeyView.as_view(), name="key"),
    path(MACHINES, machines.MachinesView.as_view(), name="machines"),
    path(f"{MACHINES}/flavors", machines.MachineFlavorsView.as_view(), name="machine-flavors"),
    path(f"{MACHINES}/images", machines.MachineImagesView.as_view(), name="machine-images"),
    path(f"{MACHINES}/belongings", machines.BelongingsView.as_view(), name="machine-belongings"),
    path(f"{MACHINES}/<uuid:machine>", machines.MachineView.as_view(), name="machine"),
    path(f"{MACHINES}/<uuid:machine>/actions", machines.MachineActionsView.as_view(), name="machine-actions"),
    path(f"{MACHINES}/<uuid:machine>/console", machines.MachineConsoleView.as_view(), name="machine-console"),
]

access_urls = [
    path(
        f"{WORKSPACE}/sign-in-kubeconfig",
        workspace_access.SignInKubeconfigView.as_view(),
        name="workspace-sign-in-kubeconfig",
    ),
    path(f"{WORKSPACE}/grants", workspace_access.GrantsView.as_view(), name="workspace-grants"),
    path(
        f"{WORKSPACE}/grants/revoke",
        workspace_access.RevocationView.as_view(),
        name="workspace-grants-revoke",
    ),
    path(f"{WORKSPACE}/service-accounts", workspace_access.RobotsView.as_view(), name="workspace-robots"),
    path(
        f"{WORKSPACE}/service-accounts/<name_slug:robot>",
        workspace_access.RobotView.as_view(),
        name="workspace-robot",
    ),
    path(
        f"{WORKSPACE}/service-accounts/<name_slug:robot>/kubeconfig",
        workspace_access.RobotKubeconfigView.as_view(),
        name="workspace-robot-kubeconfig",
    ),
    path(
        f"{WORKSPACE}/service-accounts/<name_slug:robot>/credential",
        workspace_access.RobotCredentialView.as_view(),
        name="workspace-robot-credential",
    ),
]

catalog_urls = [
    path("flavors", catalog.FlavorsView.as_view(), name="flavors"),
    path("gpu-types", catalog.GpuTypesView.as_view(), name="gpu-types"),
    path("sites", catalog.SitesView.as_view(), name="sites"),
]

platform_urls = [
    path(f"{SITE}/drifts", drifts.SiteDriftsView.as_view(), name="platform-site-drifts"),
    path(f"{SITE}/drift-check", drifts.SiteDriftCheckView.as_view(), name="platform-site-drift-check"),
    path(
        "platform/drifts/<uuid:drift>/repair", drifts.DriftRepairView.as_view(), name="platform-drift-repair"
    ),
    path("platform/sites", sites.PlatformSitesView.as_view(), name="platform-sites"),
    path("platform/sites/<name_slug:site>", sites.PlatformSiteView.as_view(), name="platform-site"),
    path(f"{SITE}/meter", meters.SiteMeterView.as_view(), name="platform-site-meter"),
    path(f"{SITE}/meter/cross-checks", meters.CrossChecksView.as_view(), name="platform-cross-checks"),
    path(f"{SITE}/meter/gaps", meters.MeterGapsView.as_view(), name="platform-meter-gaps"),
    path(f"{SITE}/adoption-scan", adoptions.AdoptionScanView.as_view(), name="platform-adoption-scan"),
    path(f"{SITE}/adoptions", adoptions.AdoptionsView.as_view(), name="platform-adoptions"),
    path(f"{SITE}/adoptions/<uuid:adoption>", adoptions.AdoptionView.as_view(), name="platform-adoption"),
    path(
        f"{SITE}/adoptions/<uuid:adoption>/confirm",
        adoptions.AdoptionConfirmView.as_view(),
        name="platform-adoption-confirm",
    ),
    path(f"{SITE}/checks", fitness.SiteChecksView.as_view(), name="platform-site-checks"),
    path(f"{SITE}/preflight", fitness.SitePreflightView.as_view(), name="platform-site-preflight"),
    path(f"{SITE}/node-checks", fitness.NodeChecksView.as_view(), name="platform-node-checks"),
    path(f"{SITE}/node-checks/<uuid:check>", fitness.NodeCheckView.as_view(), name="platform-node-check"),
    path("platform/capacity", sites.PlatformCapacityView.as_view(), name="platform-capacity"),
    path("platform/flavors", offers.PlatformFlavorsView.as_view(), name="platform-flavors"),
    path("platform/flavors/<name:flavor>", offers.PlatformFlavorView.as_view(), name="platform-flavor"),
    path(
        "platform/gpu-types/<name:gpu_type>", offers.PlatformGpuTypeView.as_view(), name="platform-gpu-type"
    ),
    path(
        "platform/organizations",
        organizations.PlatformOrganizationsView.as_view(),
        name="platform-organizations",
    ),
    path("platform/workspaces", workspaces.PlatformWorkspacesView.as_view(), name="platform-workspaces"),
    path("platform/limits", limits.PlatformLimitsView.as_view(), name="platform-limits"),
    path(
        f"platform/{PROJECT}/limits/<resource:resource>",
        limits.PlatformProjectLimitView.as_view(),
        name="platform-project-limit",
    ),
    path(
        f"platform/{ORGANIZATION}/limits/<resource:resource>",
        limits.PlatformOrganizationLimitView.as_view(),
        name="platform-organization-limit",
    ),
    path(
        "platform/focus/<month:month>.csv", exports.PlatformFocusCsvView.as_view(), name="platform-focus-csv"
    ),
    path(
        "platform/focus/<month:month>.parquet",
        exports.PlatformFocusParquetView.as_view(),
        name="platform-focus-parquet",
    ),
    path("platform/rates", billing.RatesView.as_view(), name="platform-rates"),
]

urlpatterns = [
    path("me", me.MeView.as_view(), name="me"),
    *tenant_urls,
    *catalog_urls,
    *workspace_urls,
    *cluster_urls,
    *access_urls,
    *machine_urls,
    *money_urls,
    *invoice_urls,
    *card_urls,
    *pool_urls,
    *platform_urls,
    *platform_cluster_urls,
]

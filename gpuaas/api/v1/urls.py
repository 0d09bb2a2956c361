"""Every address of version 1."""

from gpuaas.api.v1.billing import exports, quotes
from gpuaas.api.v1.billing import views as billing
from gpuaas.api.v1.billing.urls import card_urls, invoice_urls, money_urls, pool_urls
from gpuaas.api.v1.catalog import drivers, fitness, offers, sites, storage
from gpuaas.api.v1.catalog import views as catalog
from gpuaas.api.v1.clusters.urls import cluster_urls, platform_cluster_urls
from gpuaas.api.v1.environments.urls import environment_urls, platform_environment_urls
from gpuaas.api.v1.jobs.urls import job_urls
from gpuaas.api.v1.metering import meters
from gpuaas.api.v1.paths import ORGANIZATION, PROJECT, tagged
from gpuaas.api.v1.quotas import limits
from gpuaas.api.v1.system import state
from gpuaas.api.v1.tenants import audit, me, members, organizations, projects, tokens
from gpuaas.api.v1.workspaces import access, adoptions, drifts, keys, machines, volumes
from gpuaas.api.v1.workspaces import views as workspaces

SITE = "platform/sites/<name_slug:site>"
WORKSPACE = f"{PROJECT}/workspaces/<uuid:workspace>"
MACHINES = f"{WORKSPACE}/machines"
ROBOT = f"{WORKSPACE}/service-accounts/<name_slug:robot>"
LIMIT = "limits/<resource:resource>"

tenant_urls = [
    *tagged("me", ("me", me.MeView, "me")),
    *tagged(
        "organizations",
        ("organizations", organizations.OrganizationsView, "organizations"),
        (ORGANIZATION, organizations.OrganizationDetailView, "organization"),
    ),
    *tagged(
        "members",
        (f"{ORGANIZATION}/members", members.OrganizationMembersView, "organization-members"),
        (
            f"{ORGANIZATION}/members/<username:username>",
            members.OrganizationMemberView,
            "organization-member",
        ),
        (f"{PROJECT}/members", members.ProjectMembersView, "project-members"),
        (f"{PROJECT}/members/<username:username>", members.ProjectMemberView, "project-member"),
    ),
    *tagged(
        "projects",
        (f"{ORGANIZATION}/projects", projects.OrganizationProjectsView, "organization-projects"),
        ("projects", projects.ProjectsView, "projects"),
        (PROJECT, projects.ProjectDetailView, "project"),
    ),
    *tagged(
        "tokens",
        (f"{PROJECT}/tokens", tokens.TokensView, "tokens"),
        (f"{PROJECT}/tokens/<uuid:token>", tokens.TokenView, "token"),
    ),
    *tagged("limits", (f"{PROJECT}/limits", limits.ProjectLimitsView, "project-limits")),
    *tagged("audit", (f"{PROJECT}/audit", audit.ProjectAuditView, "project-audit")),
]

catalog_urls = tagged(
    "catalog",
    ("flavors", catalog.FlavorsView, "flavors"),
    ("gpu-types", catalog.GpuTypesView, "gpu-types"),
    ("sites", catalog.SitesView, "sites"),
    ("storage-classes", catalog.StorageClassesView, "storage-classes"),
)

workspace_urls = [
    *tagged(
        "workspaces",
        (f"{PROJECT}/workspaces", workspaces.WorkspacesView, "workspaces"),
        (f"{PROJECT}/workspaces/preview", workspaces.WorkspacePreviewView, "workspace-preview"),
        (WORKSPACE, workspaces.WorkspaceDetailView, "workspace"),
        (f"{WORKSPACE}/quote", quotes.WorkspaceQuoteView, "workspace-quote"),
        (f"{WORKSPACE}/retry", workspaces.WorkspaceRetryView, "workspace-retry"),
        (f"{WORKSPACE}/suspend", workspaces.WorkspaceSuspendView, "workspace-suspend"),
        (f"{WORKSPACE}/resume", workspaces.WorkspaceResumeView, "workspace-resume"),
        (f"{WORKSPACE}/operations", workspaces.WorkspaceOperationsView, "workspace-operations"),
        (f"{PROJECT}/volumes", volumes.ProjectVolumesView, "project-volumes"),
        (f"{WORKSPACE}/members", workspaces.WorkspaceMembersView, "workspace-members"),
        (f"{WORKSPACE}/members/<username:username>", workspaces.WorkspaceMemberView, "workspace-member"),
    ),
    *tagged(
        "workspace access",
        (f"{WORKSPACE}/kubeconfig", access.WorkspaceKubeconfigView, "workspace-kubeconfig"),
        (f"{WORKSPACE}/credential", access.WorkspaceCredentialView, "workspace-credential"),
        (f"{WORKSPACE}/sign-in-kubeconfig", access.SignInKubeconfigView, "workspace-sign-in-kubeconfig"),
        (f"{WORKSPACE}/grants", access.GrantsView, "workspace-grants"),
        (f"{WORKSPACE}/grants/revoke", access.RevocationView, "workspace-grants-revoke"),
        (f"{WORKSPACE}/service-accounts", access.RobotsView, "workspace-robots"),
        (ROBOT, access.RobotView, "workspace-robot"),
        (f"{ROBOT}/kubeconfig", access.RobotKubeconfigView, "workspace-robot-kubeconfig"),
        (f"{ROBOT}/credential", access.RobotCredentialView, "workspace-robot-credential"),
    ),
    *tagged(
        "drift",
        (f"{WORKSPACE}/drifts", drifts.WorkspaceDriftsView, "workspace-drifts"),
        (f"{WORKSPACE}/drift-check", drifts.WorkspaceDriftCheckView, "workspace-drift-check"),
        (f"{SITE}/drifts", drifts.SiteDriftsView, "platform-site-drifts"),
        (f"{SITE}/drift-check", drifts.SiteDriftCheckView, "platform-site-drift-check"),
        ("platform/drifts/<uuid:drift>/repair", drifts.DriftRepairView, "platform-drift-repair"),
    ),
]

machine_urls = [
    *tagged("keys", ("me/keys", keys.KeysView, "keys"), ("me/keys/<name_slug:key>", keys.KeyView, "key")),
    *tagged(
        "machines",
        (MACHINES, machines.MachinesView, "machines"),
        (f"{MACHINES}/flavors", machines.MachineFlavorsView, "machine-flavors"),
        (f"{MACHINES}/images", machines.MachineImagesView, "machine-images"),
        (f"{MACHINES}/belongings", machines.BelongingsView, "machine-belongings"),
        (f"{MACHINES}/<uuid:machine>", machines.MachineView, "machine"),
        (f"{MACHINES}/<uuid:machine>/actions", machines.MachineActionsView, "machine-actions"),
        (f"{MACHINES}/<uuid:machine>/console", machines.MachineConsoleView, "machine-console"),
    ),
]

platform_urls = tagged(
    "platform",
    ("platform/system", state.PlatformSystemView, "platform-system"),
    ("platform/drivers", drivers.PlatformDriversView, "platform-drivers"),
    ("platform/sites", sites.PlatformSitesView, "platform-sites"),
    (SITE, sites.PlatformSiteView, "platform-site"),
    (f"{SITE}/storage-classes", storage.SiteStorageClassesView, "platform-storage-classes"),
    (
        f"{SITE}/storage-classes/<uuid:storage_class>",
        storage.SiteStorageClassView,
        "platform-storage-class",
    ),
    (f"{SITE}/meter", meters.SiteMeterView, "platform-site-meter"),
    (f"{SITE}/meter/cross-checks", meters.CrossChecksView, "platform-cross-checks"),
    (f"{SITE}/meter/gaps", meters.MeterGapsView, "platform-meter-gaps"),
    (f"{SITE}/adoption-scan", adoptions.AdoptionScanView, "platform-adoption-scan"),
    (f"{SITE}/adoptions", adoptions.AdoptionsView, "platform-adoptions"),
    (f"{SITE}/adoptions/<uuid:adoption>", adoptions.AdoptionView, "platform-adoption"),
    (f"{SITE}/adoptions/<uuid:adoption>/confirm", adoptions.AdoptionConfirmView, "platform-adoption-confirm"),
    (f"{SITE}/checks", fitness.SiteChecksView, "platform-site-checks"),
    (f"{SITE}/preflight", fitness.SitePreflightView, "platform-site-preflight"),
    (f"{SITE}/node-checks", fitness.NodeChecksView, "platform-node-checks"),
    (f"{SITE}/node-checks/<uuid:check>", fitness.NodeCheckView, "platform-node-check"),
    ("platform/capacity", sites.PlatformCapacityView, "platform-capacity"),
    ("platform/flavors", offers.PlatformFlavorsView, "platform-flavors"),
    ("platform/flavors/<name:flavor>", offers.PlatformFlavorView, "platform-flavor"),
    ("platform/gpu-types/<name:gpu_type>", offers.PlatformGpuTypeView, "platform-gpu-type"),
    ("platform/organizations", organizations.PlatformOrganizationsView, "platform-organizations"),
    ("platform/workspaces", workspaces.PlatformWorkspacesView, "platform-workspaces"),
    ("platform/limits", limits.PlatformLimitsView, "platform-limits"),
    (f"platform/{PROJECT}/{LIMIT}", limits.PlatformProjectLimitView, "platform-project-limit"),
    (f"platform/{ORGANIZATION}/{LIMIT}", limits.PlatformOrganizationLimitView, "platform-organization-limit"),
    ("platform/focus/<month:month>.csv", exports.PlatformFocusCsvView, "platform-focus-csv"),
    ("platform/focus/<month:month>.parquet", exports.PlatformFocusParquetView, "platform-focus-parquet"),
    ("platform/rates", billing.RatesView, "platform-rates"),
)

urlpatterns = [
    *tenant_urls,
    *catalog_urls,
    *workspace_urls,
    *cluster_urls,
    *environment_urls,
    *job_urls,
    *machine_urls,
    *money_urls,
    *invoice_urls,
    *card_urls,
    *pool_urls,
    *platform_urls,
    *platform_cluster_urls,
    *platform_environment_urls,
]

"""Every address of version 1."""

from django.urls import path

from gpuaas.api import converters as _registered  # noqa: F401  the converters of the routes below
from gpuaas.api.v1 import (
    adoptions,
    audit,
    billing,
    billing_accounts,
    breakdown,
    budgets,
    catalog,
    drifts,
    exports,
    fitness,
    invoices,
    keys,
    limits,
    machines,
    me,
    members,
    meters,
    offers,
    organizations,
    pool_reservations,
    projects,
    quotes,
    rate_cards,
    sites,
    tokens,
    usage,
    workspace_access,
    workspaces,
)
from gpuaas.api.v1.cluster_urls import cluster_urls, platform_cluster_urls

PROJECT = "projects/<name_slug:project>"
ORGANIZATION = "organizations/<name_slug:organization>"
SITE = "platform/sites/<name_slug:site>"
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

money_urls = [
    path(f"{PROJECT}/usage", usage.UsageView.as_view(), name="usage"),
    path(f"{PROJECT}/usage/totals", usage.UsageTotalsView.as_view(), name="usage-totals"),
    path(f"{PROJECT}/costs", billing.ProjectCostsView.as_view(), name="project-costs"),
    path(f"{PROJECT}/costs/breakdown", breakdown.ProjectBreakdownView.as_view(), name="project-costs-by"),
    path(
        f"{PROJECT}/statements/<month:month>",
        billing.ProjectStatementView.as_view(),
        name="project-statement",
    ),
    path(
        f"{PROJECT}/statements/<month:month>.csv",
        billing.ProjectStatementCsvView.as_view(),
        name="project-statement-csv",
    ),
    path(f"{PROJECT}/budgets", budgets.ProjectBudgetsView.as_view(), name="project-budgets"),
    path(f"{PROJECT}/budgets/<uuid:budget>", budgets.ProjectBudgetView.as_view(), name="project-budget"),
    path(f"{ORGANIZATION}/budgets", budgets.OrganizationBudgetsView.as_view(), name="organization-budgets"),
    path(
        f"{ORGANIZATION}/budgets/<uuid:budget>",
        budgets.OrganizationBudgetView.as_view(),
        name="organization-budget",
    ),
    path(
        f"{ORGANIZATION}/focus/<month:month>.csv",
        exports.OrganizationFocusCsvView.as_view(),
        name="organization-focus-csv",
    ),
    path(
        f"{ORGANIZATION}/focus/<month:month>.parquet",
        exports.OrganizationFocusParquetView.as_view(),
        name="organization-focus-parquet",
    ),
    path(f"{ORGANIZATION}/costs", billing.OrganizationCostsView.as_view(), name="organization-costs"),
    path(
        f"{ORGANIZATION}/costs/breakdown",
        breakdown.OrganizationBreakdownView.as_view(),
        name="organization-costs-by",
    ),
    path(
        f"{ORGANIZATION}/statements/<month:month>",
        billing.OrganizationStatementView.as_view(),
        name="organization-statement",
    ),
    path(
        f"{ORGANIZATION}/statements/<month:month>.csv",
        billing.OrganizationStatementCsvView.as_view(),
        name="organization-statement-csv",
    ),
]

catalog_urls = [
    path("flavors", catalog.FlavorsView.as_view(), name="flavors"),
    path("gpu-types", catalog.GpuTypesView.as_view(), name="gpu-types"),
    path("sites", catalog.SitesView.as_view(), name="sites"),
]

INVOICE = f"{ORGANIZATION}/invoices/<name:number>"

invoice_urls = [
    path(
        f"{ORGANIZATION}/invoices", invoices.OrganizationInvoicesView.as_view(), name="organization-invoices"
    ),
    path(INVOICE, invoices.OrganizationInvoiceView.as_view(), name="organization-invoice"),
    path(
        f"{INVOICE}/lines", invoices.OrganizationInvoiceLinesView.as_view(), name="organization-invoice-lines"
    ),
    path(f"{INVOICE}/csv", invoices.OrganizationInvoiceCsvView.as_view(), name="organization-invoice-csv"),
    path(f"{INVOICE}/pdf", invoices.OrganizationInvoicePdfView.as_view(), name="organization-invoice-pdf"),
    path(f"{ORGANIZATION}/balance", invoices.OrganizationBalanceView.as_view(), name="organization-balance"),
    path(f"{ORGANIZATION}/grants", invoices.OrganizationGrantsView.as_view(), name="organization-grants"),
    path("platform/invoices", invoices.InvoicesView.as_view(), name="platform-invoices"),
    path(
        "platform/invoices/<name:number>/notes",
        invoices.InvoiceNotesView.as_view(),
        name="platform-invoice-notes",
    ),
    path(
        "platform/invoices/<name:number>/write-off",
        invoices.InvoiceWriteOffView.as_view(),
        name="platform-invoice-write-off",
    ),
    path(
        "platform/organizations/<name_slug:organization>/grants",
        invoices.OrganizationGrantsGiveView.as_view(),
        name="platform-organization-grants",
    ),
    path(
        "platform/organizations/<name_slug:organization>/payments",
        invoices.OrganizationPaymentsView.as_view(),
        name="platform-organization-payments",
    ),
    path(
        f"{ORGANIZATION}/billing-account",
        billing_accounts.OrganizationAccountView.as_view(),
        name="organization-billing-account",
    ),
    path(
        f"{ORGANIZATION}/discounts",
        billing_accounts.OrganizationDiscountsView.as_view(),
        name="organization-discounts",
    ),
    path(
        f"{ORGANIZATION}/prices",
        billing_accounts.OrganizationPricesView.as_view(),
        name="organization-prices",
    ),
    path(
        f"{ORGANIZATION}/pool-reservations",
        pool_reservations.OrganizationPoolReservationsView.as_view(),
        name="organization-pool-reservations",
    ),
    path("platform/closes", invoices.ClosesView.as_view(), name="platform-closes"),
    path("platform/closes/<month:month>", invoices.CloseView.as_view(), name="platform-close"),
]

CARD = "platform/rate-cards/<name:card>"
DRAFT = "platform/rate-drafts/<uuid:draft>"
card_urls = [
    path("platform/rate-cards", rate_cards.RateCardsView.as_view(), name="platform-rate-cards"),
    path(CARD, rate_cards.RateCardView.as_view(), name="platform-rate-card"),
    path(f"{CARD}/versions", rate_cards.VersionsView.as_view(), name="platform-rate-versions"),
    path(f"{CARD}/versions/<int:version>", rate_cards.VersionView.as_view(), name="platform-rate-version"),
    path(
        f"{CARD}/versions/<int:version>/prices",
        rate_cards.VersionPricesView.as_view(),
        name="platform-rate-version-prices",
    ),
    path(f"{CARD}/drafts", rate_cards.CardDraftsView.as_view(), name="platform-rate-card-drafts"),
    path(DRAFT, rate_cards.DraftView.as_view(), name="platform-rate-draft"),
    path(f"{DRAFT}/lines", rate_cards.DraftLinesView.as_view(), name="platform-rate-draft-lines"),
    path(f"{DRAFT}/lines/<uuid:line>", rate_cards.DraftLineView.as_view(), name="platform-rate-draft-line"),
    path(f"{DRAFT}/preview", rate_cards.DraftPreviewView.as_view(), name="platform-rate-draft-preview"),
    path(f"{DRAFT}/publish", rate_cards.DraftPublishView.as_view(), name="platform-rate-draft-publish"),
    path(
        f"platform/{ORGANIZATION}/billing-account",
        billing_accounts.PlatformAccountView.as_view(),
        name="platform-billing-account",
    ),
    path(
        f"platform/{PROJECT}/cost-center",
        billing_accounts.PlatformCostCenterView.as_view(),
        name="platform-cost-center",
    ),
    path(
        f"platform/{ORGANIZATION}/discounts",
        billing_accounts.PlatformDiscountsView.as_view(),
        name="platform-discounts",
    ),
    path(
        f"platform/{ORGANIZATION}/discounts/<uuid:discount>",
        billing_accounts.PlatformDiscountView.as_view(),
        name="platform-discount",
    ),
]

POOL = "platform/pool-reservations/<uuid:reservation>"
pool_urls = [
    path(
        "platform/pool-reservations",
        pool_reservations.PlatformPoolReservationsView.as_view(),
        name="platform-pool-reservations",
    ),
    path(POOL, pool_reservations.PlatformPoolReservationView.as_view(), name="platform-pool-reservation"),
    path(
        f"{POOL}/end",
        pool_reservations.PlatformPoolReservationEndView.as_view(),
        name="platform-pool-reservation-end",
    ),
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

"""Addresses of usage, costs, documents, rate cards and reserved pools."""

from gpuaas.api.v1.billing import (
    accounts,
    breakdown,
    budgets,
    exports,
    inside,
    intervals,
    invoices,
    payments,
    rate_cards,
    usage_imports,
    usage_write_offs,
    views,
)
from gpuaas.api.v1.metering import gpus, usage
from gpuaas.api.v1.paths import ORGANIZATION, PROJECT, tagged
from gpuaas.api.v1.quotas import pool_reservations as pools

INVOICE = f"{ORGANIZATION}/invoices/<name:number>"
FOCUS = f"{ORGANIZATION}/focus/<month:month>"
STATEMENT = "statements/<month:month>"
PARTY = f"platform/{ORGANIZATION}"
DOCUMENT = "platform/invoices/<name:number>"
CARD = "platform/rate-cards/<name:card>"
DRAFT = "platform/rate-drafts/<uuid:draft>"
IMPORT = "platform/usage-imports/<uuid:usage_import>"
POOL = "platform/pool-reservations/<uuid:reservation>"

money_urls = [
    *tagged(
        "usage",
        (f"{PROJECT}/usage", usage.UsageView, "usage"),
        (f"{PROJECT}/usage/totals", usage.UsageTotalsView, "usage-totals"),
        (f"{PROJECT}/gpu-metrics", gpus.ProjectGpuMetricsView, "project-gpu-metrics"),
        (
            f"{PROJECT}/workspaces/<uuid:workspace>/gpu-metrics",
            gpus.WorkspaceGpuMetricsView,
            "workspace-gpu-metrics",
        ),
        (
            f"{PROJECT}/environments/<uuid:environment>/gpu-metrics",
            gpus.EnvironmentGpuMetricsView,
            "environment-gpu-metrics",
        ),
        (f"{PROJECT}/jobs/<uuid:job>/gpu-metrics", gpus.JobGpuMetricsView, "job-gpu-metrics"),
    ),
    *tagged(
        "billing",
        (f"{PROJECT}/costs", views.ProjectCostsView, "project-costs"),
        (f"{PROJECT}/environments/<uuid:environment>/cost", inside.EnvironmentCostView, "environment-cost"),
        (f"{PROJECT}/jobs/<uuid:job>/cost", inside.JobCostView, "job-cost"),
        (f"{PROJECT}/costs/breakdown", breakdown.ProjectBreakdownView, "project-costs-by"),
        (f"{PROJECT}/costs/intervals", intervals.ProjectIntervalsView, "project-cost-intervals"),
        (f"{PROJECT}/costs/intervals.csv", intervals.ProjectIntervalsCsvView, "project-cost-intervals-csv"),
        (f"{PROJECT}/{STATEMENT}", views.ProjectStatementView, "project-statement"),
        (f"{PROJECT}/{STATEMENT}.csv", views.ProjectStatementCsvView, "project-statement-csv"),
        (f"{FOCUS}.csv", exports.OrganizationFocusCsvView, "organization-focus-csv"),
        (f"{FOCUS}.parquet", exports.OrganizationFocusParquetView, "organization-focus-parquet"),
        (f"{ORGANIZATION}/costs", views.OrganizationCostsView, "organization-costs"),
        (f"{ORGANIZATION}/costs/breakdown", breakdown.OrganizationBreakdownView, "organization-costs-by"),
        (
            f"{ORGANIZATION}/costs/intervals",
            intervals.OrganizationIntervalsView,
            "organization-cost-intervals",
        ),
        (
            f"{ORGANIZATION}/costs/intervals.csv",
            intervals.OrganizationIntervalsCsvView,
            "organization-cost-intervals-csv",
        ),
        (f"{ORGANIZATION}/{STATEMENT}", views.OrganizationStatementView, "organization-statement"),
        (f"{ORGANIZATION}/{STATEMENT}.csv", views.OrganizationStatementCsvView, "organization-statement-csv"),
        (f"{ORGANIZATION}/billing-account", accounts.OrganizationAccountView, "organization-billing-account"),
        (f"{ORGANIZATION}/discounts", accounts.OrganizationDiscountsView, "organization-discounts"),
        (f"{ORGANIZATION}/prices", accounts.OrganizationPricesView, "organization-prices"),
    ),
    *tagged(
        "budgets",
        (f"{PROJECT}/budgets", budgets.ProjectBudgetsView, "project-budgets"),
        (f"{PROJECT}/budgets/<uuid:budget>", budgets.ProjectBudgetView, "project-budget"),
        (f"{ORGANIZATION}/budgets", budgets.OrganizationBudgetsView, "organization-budgets"),
        (f"{ORGANIZATION}/budgets/<uuid:budget>", budgets.OrganizationBudgetView, "organization-budget"),
    ),
]

invoice_urls = [
    *tagged(
        "invoices",
        (f"{ORGANIZATION}/invoices", invoices.OrganizationInvoicesView, "organization-invoices"),
        (INVOICE, invoices.OrganizationInvoiceView, "organization-invoice"),
        (f"{INVOICE}/lines", invoices.OrganizationInvoiceLinesView, "organization-invoice-lines"),
        (f"{INVOICE}/csv", invoices.OrganizationInvoiceCsvView, "organization-invoice-csv"),
        (f"{INVOICE}/pdf", invoices.OrganizationInvoicePdfView, "organization-invoice-pdf"),
        (f"{ORGANIZATION}/balance", invoices.OrganizationBalanceView, "organization-balance"),
        (f"{ORGANIZATION}/grants", invoices.OrganizationGrantsView, "organization-grants"),
    ),
    *tagged(
        "platform",
        ("platform/invoices", invoices.InvoicesView, "platform-invoices"),
        (f"{DOCUMENT}/notes", invoices.InvoiceNotesView, "platform-invoice-notes"),
        (f"{DOCUMENT}/write-off", payments.InvoiceWriteOffView, "platform-invoice-write-off"),
        (
            f"{DOCUMENT}/write-off/<uuid:written>/reverse",
            payments.WriteOffReverseView,
            "platform-write-off-reverse",
        ),
        (f"{PARTY}/grants", invoices.OrganizationGrantsGiveView, "platform-organization-grants"),
        (f"{PARTY}/grants/<uuid:grant>/reverse", payments.GrantReverseView, "platform-grant-reverse"),
        (f"{PARTY}/payments", invoices.OrganizationPaymentsView, "platform-organization-payments"),
        (f"{PARTY}/payments/<uuid:payment>/reverse", payments.PaymentReverseView, "platform-payment-reverse"),
        (f"{PARTY}/payouts", payments.OrganizationPayoutsView, "platform-organization-payouts"),
        (f"{PARTY}/payouts/<uuid:payout>/reverse", payments.PayoutReverseView, "platform-payout-reverse"),
        (f"{PARTY}/billing-account", accounts.PlatformAccountView, "platform-billing-account"),
        (f"platform/{PROJECT}/cost-center", accounts.PlatformCostCenterView, "platform-cost-center"),
        (f"{PARTY}/discounts", accounts.PlatformDiscountsView, "platform-discounts"),
        (f"{PARTY}/discounts/<uuid:discount>", accounts.PlatformDiscountView, "platform-discount"),
        ("platform/usage-write-offs", usage_write_offs.UsageWriteOffsView, "platform-usage-write-offs"),
        (
            "platform/usage-write-offs/<uuid:unpriced>",
            usage_write_offs.UsageWriteOffView,
            "platform-usage-write-off",
        ),
        ("platform/closes", invoices.ClosesView, "platform-closes"),
        ("platform/closes/<month:month>", invoices.CloseView, "platform-close"),
        ("platform/usage-imports", usage_imports.UsageImportsView, "platform-usage-imports"),
        (
            "platform/usage-imports/preview",
            usage_imports.UsageImportPreviewView,
            "platform-usage-import-preview",
        ),
        (IMPORT, usage_imports.UsageImportView, "platform-usage-import"),
        (f"{IMPORT}/sums", usage_imports.UsageImportSumsView, "platform-usage-import-sums"),
        (f"{IMPORT}/take-back", usage_imports.UsageImportTakeBackView, "platform-usage-import-take-back"),
    ),
]

card_urls = tagged(
    "platform",
    ("platform/rate-cards", rate_cards.RateCardsView, "platform-rate-cards"),
    (CARD, rate_cards.RateCardView, "platform-rate-card"),
    (f"{CARD}/versions", rate_cards.VersionsView, "platform-rate-versions"),
    (f"{CARD}/versions/<int:version>", rate_cards.VersionView, "platform-rate-version"),
    (f"{CARD}/versions/<int:version>/prices", rate_cards.VersionPricesView, "platform-rate-version-prices"),
    (f"{CARD}/drafts", rate_cards.CardDraftsView, "platform-rate-card-drafts"),
    (DRAFT, rate_cards.DraftView, "platform-rate-draft"),
    (f"{DRAFT}/lines", rate_cards.DraftLinesView, "platform-rate-draft-lines"),
    (f"{DRAFT}/lines/<uuid:line>", rate_cards.DraftLineView, "platform-rate-draft-line"),
    (f"{DRAFT}/preview", rate_cards.DraftPreviewView, "platform-rate-draft-preview"),
    (f"{DRAFT}/publish", rate_cards.DraftPublishView, "platform-rate-draft-publish"),
)

pool_urls = [
    *tagged(
        "organizations",
        (
            f"{ORGANIZATION}/pool-reservations",
            pools.OrganizationPoolReservationsView,
            "organization-pool-reservations",
        ),
    ),
    *tagged(
        "platform",
        ("platform/pool-reservations", pools.PlatformPoolReservationsView, "platform-pool-reservations"),
        (POOL, pools.PlatformPoolReservationView, "platform-pool-reservation"),
        (f"{POOL}/end", pools.PlatformPoolReservationEndView, "platform-pool-reservation-end"),
    ),
]

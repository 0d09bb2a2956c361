"""Addresses of usage, costs, documents, rate cards and reserved pools."""

from django.urls import path

from gpuaas.api import converters as _registered  # noqa: F401  the converters of the routes below
from gpuaas.api.v1 import (
    billing,
    billing_accounts,
    breakdown,
    budgets,
    cost_intervals,
    exports,
    invoices,
    pool_reservations,
    rate_cards,
    usage,
)

PROJECT = "projects/<name_slug:project>"
ORGANIZATION = "organizations/<name_slug:organization>"

money_urls = [
    path(f"{PROJECT}/usage", usage.UsageView.as_view(), name="usage"),
    path(f"{PROJECT}/usage/totals", usage.UsageTotalsView.as_view(), name="usage-totals"),
    path(f"{PROJECT}/costs", billing.ProjectCostsView.as_view(), name="project-costs"),
    path(f"{PROJECT}/costs/breakdown", breakdown.ProjectBreakdownView.as_view(), name="project-costs-by"),
    path(
        f"{PROJECT}/costs/intervals",
        cost_intervals.ProjectIntervalsView.as_view(),
        name="project-cost-intervals",
    ),
    path(
        f"{PROJECT}/costs/intervals.csv",
        cost_intervals.ProjectIntervalsCsvView.as_view(),
        name="project-cost-intervals-csv",
    ),
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
        f"{ORGANIZATION}/costs/intervals",
        cost_intervals.OrganizationIntervalsView.as_view(),
        name="organization-cost-intervals",
    ),
    path(
        f"{ORGANIZATION}/costs/intervals.csv",
        cost_intervals.OrganizationIntervalsCsvView.as_view(),
        name="organization-cost-intervals-csv",
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

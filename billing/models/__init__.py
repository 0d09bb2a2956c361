"""Money: prices (`rates`, `drafts`), who pays and how (`accounts`), documents (`invoices`), `months` and the `ledger`."""

from billing.models.accounts import BillingAccount, Discount, ProjectCostCenter
from billing.models.budgets import (
    Budget,
    BudgetAction,
    BudgetAlert,
    BudgetThreshold,
    Level,
    Measure,
    Period,
)
from billing.models.drafts import RateDraft, RateDraftLine
from billing.models.invoices import Invoice, InvoiceDocument, InvoiceLine, InvoiceSeries, InvoiceShare
from billing.models.ledger import Grant, LedgerEntry, LedgerPosting
from billing.models.months import CloseProgress, MonthClose, RatedUsage
from billing.models.rates import Rate, RateCard, RateCardVersion, RateTier, TierMode

__all__ = [
    "BillingAccount",
    "Budget",
    "BudgetAction",
    "BudgetAlert",
    "BudgetThreshold",
    "CloseProgress",
    "Discount",
    "Grant",
    "Invoice",
    "InvoiceDocument",
    "InvoiceLine",
    "InvoiceSeries",
    "InvoiceShare",
    "LedgerEntry",
    "LedgerPosting",
    "Level",
    "Measure",
    "MonthClose",
    "Period",
    "ProjectCostCenter",
    "Rate",
    "RateCard",
    "RateCardVersion",
    "RateDraft",
    "RateDraftLine",
    "RateTier",
    "RatedUsage",
    "TierMode",
]

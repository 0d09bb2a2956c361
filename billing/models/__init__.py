"""Prices (`rates`, `drafts`), payers (`accounts`), documents (`invoices`), closes (`months`) and the `ledger`."""

from billing.models.accounts import BillingAccount, Discount, ProjectCostCenter
from billing.models.budgets import (
    BLOCKING,
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
from billing.models.kept import KeptDay, KeptHolder, KeptMonth
from billing.models.ledger import Grant, LedgerEntry, LedgerPosting
from billing.models.months import CloseProgress, MonthClose, MovedUsage, RatedUsage
from billing.models.rates import Rate, RateCard, RateCardVersion, RateTier, TierMode, UsageWriteOff

__all__ = [
    "BLOCKING",
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
    "KeptDay",
    "KeptHolder",
    "KeptMonth",
    "LedgerEntry",
    "LedgerPosting",
    "Level",
    "Measure",
    "MonthClose",
    "MovedUsage",
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
    "UsageWriteOff",
]

"""Money: prices (`rates`, `drafts`), who pays and how (`accounts`)."""

from billing.models.accounts import BillingAccount, Discount, PoolReservation, ProjectCostCenter
from billing.models.drafts import RateDraft, RateDraftLine
from billing.models.rates import Rate, RateCard, RateCardVersion, RateTier, TierMode

__all__ = [
    "BillingAccount",
    "Discount",
    "PoolReservation",
    "ProjectCostCenter",
    "Rate",
    "RateCard",
    "RateCardVersion",
    "RateDraft",
    "RateDraftLine",
    "RateTier",
    "TierMode",
]

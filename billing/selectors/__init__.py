"""Reads of money: costs (`costs`), and what a draft of prices would have made of a month (`previews`)."""

from billing.selectors.costs import (
    DayCost,
    HolderCost,
    Price,
    ProjectRevenue,
    Statement,
    burn_per_hour,
    cost_by_day,
    cost_by_holder,
    cost_by_holder_page,
    gpu_price,
    holder_cost,
    prices_at,
    rate_card_default,
    rates_for,
    revenue_by_project,
    statement,
)
from billing.selectors.previews import Preview, draft_preview

__all__ = [
    "DayCost",
    "HolderCost",
    "Preview",
    "Price",
    "ProjectRevenue",
    "Statement",
    "burn_per_hour",
    "cost_by_day",
    "cost_by_holder",
    "cost_by_holder_page",
    "draft_preview",
    "gpu_price",
    "holder_cost",
    "price_for",
    "prices_at",
    "rate_card_default",
    "rates_for",
    "revenue_by_project",
    "statement",
]

"""Reads of money: prices (`prices`), costs (`costs`), and what a draft of prices would have made of a month (`previews`)."""

from billing.selectors.costs import (
    DayCost,
    HolderCost,
    ProjectRevenue,
    Statement,
    burn_per_hour,
    cost_by_day,
    cost_by_holder,
    cost_by_holder_page,
    holder_cost,
    month_costs,
    revenue_by_project,
    statement,
)
from billing.selectors.previews import Preview, draft_preview
from billing.selectors.prices import Price, gpu_price, prices_at, rate_card_default, rates_for

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
    "month_costs",
    "price_for",
    "prices_at",
    "rate_card_default",
    "rates_for",
    "revenue_by_project",
    "statement",
]

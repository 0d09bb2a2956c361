"""Reads of money: what things cost (`costs`), and what a draft of prices would have made of a month (`previews`)."""

from billing.selectors.costs import (
    DayCost,
    Price,
    ProjectRevenue,
    Statement,
    WorkspaceCost,
    burn_per_hour,
    cost_by_day,
    cost_by_workspace,
    month_to_date,
    price_for,
    prices_at,
    rate_card_default,
    rates_for,
    revenue_by_project,
    statement,
    workspace_cost,
)
from billing.selectors.previews import Preview, draft_preview

__all__ = [
    "DayCost",
    "Preview",
    "Price",
    "ProjectRevenue",
    "Statement",
    "WorkspaceCost",
    "burn_per_hour",
    "cost_by_day",
    "cost_by_workspace",
    "draft_preview",
    "month_to_date",
    "price_for",
    "prices_at",
    "rate_card_default",
    "rates_for",
    "revenue_by_project",
    "statement",
    "workspace_cost",
]

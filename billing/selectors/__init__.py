"""Reads of money: what things cost (`costs`)."""

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

__all__ = [
    "DayCost",
    "Price",
    "ProjectRevenue",
    "Statement",
    "WorkspaceCost",
    "burn_per_hour",
    "cost_by_day",
    "cost_by_workspace",
    "month_to_date",
    "price_for",
    "prices_at",
    "rate_card_default",
    "rates_for",
    "revenue_by_project",
    "statement",
    "workspace_cost",
]

"""Prices, costs, budgets and documents."""

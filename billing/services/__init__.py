"""Writes of money, by what they write: `rates`, `accounts`."""

from billing.services.accounts import AccountTerms, account_ensure, account_update, cost_center_set
from billing.services.rates import rate_card_ensure, rate_set

__all__ = [
    "AccountTerms",
    "account_ensure",
    "account_update",
    "cost_center_set",
    "rate_card_ensure",
    "rate_set",
]

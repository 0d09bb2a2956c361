"""Writes of money, by what they write: `rates`, `drafts`, `discounts`, `accounts`."""

from billing.services.accounts import (
    AccountTerms,
    account_ensure,
    account_update,
    cost_center_set,
    tax_rate_parse,
)
from billing.services.discounts import discount_end, discount_give
from billing.services.drafts import (
    LineTerms,
    rate_card_make,
    rate_draft_discard,
    rate_draft_line_remove,
    rate_draft_line_set,
    rate_draft_open,
    rate_draft_publish,
    rate_version_withdraw,
)
from billing.services.rates import rate_card_ensure, rate_set

__all__ = [
    "AccountTerms",
    "LineTerms",
    "account_ensure",
    "account_update",
    "cost_center_set",
    "discount_end",
    "discount_give",
    "rate_card_ensure",
    "rate_card_make",
    "rate_draft_discard",
    "rate_draft_line_remove",
    "rate_draft_line_set",
    "rate_draft_open",
    "rate_draft_publish",
    "rate_set",
    "rate_version_withdraw",
    "tax_rate_parse",
]

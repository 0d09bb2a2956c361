"""The rule that no site is called inside a transaction."""

from django.db import transaction


def outside_transaction() -> None:
    """Raises RuntimeError inside a transaction (that of a test case does not count): a slow site must hold no lock."""
    with transaction.atomic(durable=True):
        pass

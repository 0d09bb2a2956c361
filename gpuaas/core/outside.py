"""The rule that no site is called inside a transaction."""

from django.db import transaction


def outside_transaction() -> None:
    """Raises RuntimeError inside a transaction (except that of a test case): no lock may wait for a slow site."""
    with transaction.atomic(durable=True, savepoint=False):  # which asks the database for nothing
        pass

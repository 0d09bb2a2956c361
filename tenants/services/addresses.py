"""A name or an e-mail address opens one account."""

from django.db import connection
from django.db.models import QuerySet

from gpuaas.core.errors import Invalid
from tenants.addresses import with_address
from tenants.models import User

LOCK = 8192  # the class of the advisory lock


def accounts_lock() -> None:
    """Whoever gives an account a name or an address waits for others who do, until the end of the transaction.

    Unique indexes would hold the same, and are for the next release: the one that still runs during an upgrade may write
    what they forbid (decision 0072).
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK])


def address_free_require(address: str, *, but: User | None = None) -> None:
    """Raises Invalid on `email` where an account (another one) has it, in any spelling. It stays free until the end of the transaction."""
    if not address:
        return
    accounts_lock()
    if with_address(_others(but), address) is not None:
        raise Invalid.field("email", "an account with this address already exists")


def name_free_require(name: str, *, but: User | None = None) -> None:
    """Raises Invalid on `username` where an account (another one) has it, in any spelling: either signs in. It stays free until the
    end of the transaction."""
    accounts_lock()
    if _others(but).filter(username__iexact=name).exists():
        raise Invalid.field("username", "an account with this name already exists")


def _others(but: User | None) -> QuerySet[User]:
    return User.objects.all() if but is None else User.objects.exclude(pk=but.pk)

"""An e-mail address opens one account."""

from django.db import connection

from gpuaas.core.errors import Invalid
from tenants.addresses import with_address
from tenants.models import User

LOCK = 8192  # the class of the advisory locks; the other number is that of the address


def address_lock(address: str) -> None:
    """Whoever makes an account with this address waits for others who do, until the end of the transaction.

    A unique index would hold the same, and is for the next release: the one that still runs during an upgrade may write
    what the index forbids (decision 0072).
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, address.lower()])


def address_free_require(address: str, *, but: User | None = None) -> None:
    """Raises Invalid on `email` where an account (another one) has it, in any spelling. It stays free until the end of the transaction."""
    if not address:
        return
    address_lock(address)
    others = User.objects.all() if but is None else User.objects.exclude(pk=but.pk)
    if with_address(others, address) is not None:
        raise Invalid.field("email", "an account with this address already exists")

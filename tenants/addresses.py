"""When two e-mail addresses are one."""

from django.db.models import QuerySet

from tenants.models import User


def folded(address: str) -> str:
    """In lower case, but for letters that only then would be ones of ASCII, such as the sign of the kelvin."""
    return "".join(one.lower() if one.lower().isascii() == one.isascii() else one for one in address)


def with_address(rows: QuerySet[User], address: str) -> User | None:
    """Whose address it is, in either case. The database also takes a dotless i for an i, so that a domain which looks like
    another one, and belongs to somebody else, would open accounts there."""
    found = rows.filter(email__iexact=address).order_by("pk") if address else ()
    return next((row for row in found if folded(row.email) == folded(address)), None)

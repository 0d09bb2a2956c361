"""How long something is lent: the end of a lease, the same for workspaces and clusters."""

from datetime import datetime, timedelta

from gpuaas.core.errors import Invalid

LEASE_DEFAULT = timedelta(days=28)
LEASE_MAX = timedelta(days=365)


def lease_validate(ends_at: datetime | None, *, now: datetime) -> datetime:
    """28 days where nothing is said; between now and 365 days ahead."""
    if ends_at is None:
        return now + LEASE_DEFAULT
    if type(ends_at) is not datetime or ends_at.tzinfo is None:
        raise Invalid.field("lease_ends_at", "the end of the lease is a date and time with a time zone")
    if not now < ends_at <= now + LEASE_MAX:
        raise Invalid.field(
            "lease_ends_at", f"a lease ends in the future and within {LEASE_MAX.days} days from now"
        )
    return ends_at

"""Builds the results of checks: every result has a reason and a sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check


@dataclass(frozen=True)
class Kind:
    """A type of check. blocking: while it fails, nothing new is sold at the site."""

    type: str
    blocking: bool = False

    def good(self, reason: str, message: str) -> Check:
        return Check(self.type, Status.TRUE, reason, message, blocking=self.blocking)

    def bad(self, reason: str, message: str, remedy: str) -> Check:
        return Check(self.type, Status.FALSE, reason, message, remedy, blocking=self.blocking)

    def unknown(self, reason: str, message: str, remedy: str = "") -> Check:
        return Check(self.type, Status.UNKNOWN, reason, message, remedy, blocking=self.blocking)


def some(names: list[str], most: int = 5) -> str:
    """A list for a sentence, shortened to `most` entries."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# checks of every driver with a preflight
CREDENTIALS, PERMISSIONS, CLOCK = Kind("Credentials"), Kind("Permissions", blocking=True), Kind("Clock")
MOST_SKEW = timedelta(seconds=30)
EXPIRES_SOON = timedelta(days=14)


def clock_check(read: Callable[[], datetime | None], *, whose: str, server: str) -> Check:
    """`read`: the clock of `server`, to the second, or None if it does not report it."""
    before = clock.now()
    theirs = read()
    after = clock.now()
    if theirs is None:
        return CLOCK.unknown("NotTold", f"{server} does not report its time.")
    off = max(before - theirs - timedelta(seconds=1), theirs - after, timedelta(0))
    if off > MOST_SKEW:
        return CLOCK.bad(
            "Apart",
            f"The {whose}'s clock and the portal's are {off.total_seconds():.0f} s apart.",
            "Let both follow a time server (chrony, systemd-timesyncd): usage is metered and credentials expire by these clocks.",
        )
    return CLOCK.good("InStep", f"The {whose}'s clock and the portal's are in step.")


def expiry_check(ends: datetime | None) -> Check:
    """`ends`: when the portal's credentials expire, None if that is unknown."""
    if ends is None:
        return CREDENTIALS.good("NoEnd", "The portal's credentials have no known expiry date.")
    until = f"{ends:%Y-%m-%d %H:%M} UTC"
    left = ends - clock.now()
    if left < EXPIRES_SOON:
        return CREDENTIALS.bad(
            "ExpireSoon",
            f"The portal's credentials expire at {until}, in {max(left.days, 0)} days.",
            "Create new ones at the site and enter them here (New credentials); whatever runs is not affected.",
        )
    return CREDENTIALS.good("Valid", f"The portal's credentials are valid until {until}.")

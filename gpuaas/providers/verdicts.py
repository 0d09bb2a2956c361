"""How a check says what it found: the same three ways for each, so that no reason comes without its sentence."""

from dataclasses import dataclass

from gpuaas.core.conditions import Status
from gpuaas.providers.base import Check


@dataclass(frozen=True)
class Kind:
    """A type of check. blocking: where it fails, nothing new is sold at the site."""

    type: str
    blocking: bool = False

    def good(self, reason: str, message: str) -> Check:
        return Check(self.type, Status.TRUE, reason, message, blocking=self.blocking)

    def bad(self, reason: str, message: str, remedy: str) -> Check:
        return Check(self.type, Status.FALSE, reason, message, remedy, blocking=self.blocking)

    def unknown(self, reason: str, message: str, remedy: str = "") -> Check:
        return Check(self.type, Status.UNKNOWN, reason, message, remedy, blocking=self.blocking)


def some(names: list[str], most: int = 5) -> str:
    """A list for a sentence, cut to what a person reads."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

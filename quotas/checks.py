"""Compares a requested amount with one limit or capacity, and makes the refusal."""

from dataclasses import dataclass
from enum import IntEnum

from gpuaas.core.errors import Conflict, NoCapacity, QuotaRefused
from quotas.resources import resource_unit


class Scope(IntEnum):
    """Also the global order in which counters are locked: the most contended last, so that their locks are the
    shortest."""

    PROJECT = 1
    ORGANIZATION = 2
    SITE = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Check:
    """`limit` None = unlimited (or not counted at the site); `left` is then None, too.

    reserved_because: why the pool is reserved for another organization; then nothing is left, whatever is free.
    Otherwise ''.
    """

    scope: Scope
    scope_name: str
    resource: str
    limit: int | None
    used: int
    asked: int
    reserved_because: str = ""

    @property
    def left(self) -> int | None:
        if self.reserved_because:
            return 0
        return None if self.limit is None else max(self.limit - self.used, 0)

    @property
    def fits(self) -> bool:
        return not self.reserved_because and (self.limit is None or self.used + self.asked <= self.limit)

    @property
    def message(self) -> str:
        """The refusal as a sentence; '' if the amount fits."""
        return "" if self.fits else self._sentence()

    def _sentence(self) -> str:
        if self.reserved_because:
            return self.reserved_because
        if self.scope is Scope.SITE:
            advice = " Request fewer, try again later, or choose another site or GPU type."
        else:
            advice = " Request fewer, free some, or ask an operator to raise the limit." if self.limit else ""
        return f"{self.title()}. {self.numbers}{advice}"

    def title(self, unit: str = "") -> str:
        """What is there, in the words that pages and the API share. `unit`: by a better name than the resource's."""
        unit = unit or resource_unit(self.resource)
        of = f"{self.scope.word.capitalize()} {self.scope_name}"
        if self.scope is Scope.SITE:
            return f"{of} has {self.left or 0:,} {unit} left"
        return (
            f"{of} may hold at most {self.limit:,} {unit}"
            if self.limit
            else f"{of} has no limit set for {unit}"
        )

    @property
    def numbers(self) -> str:
        if self.scope is Scope.SITE:
            return f"Requested: {self.asked:,}. The site can sell {self.limit or 0:,} in total."
        if not self.limit:
            return "Without a limit, none can be used. Ask an operator to set one."
        return f"Held: {self.used:,}. Requested: {self.asked:,}. Available: {self.left:,}."

    def refusal(self) -> Conflict:
        detail = {
            "scope": self.scope.word,
            "scope_name": self.scope_name,
            "resource": self.resource,
            "limit": self.limit,
            "used": self.used,
            "asked": self.asked,
            "left": self.left,
        }
        if self.scope is Scope.SITE:
            return NoCapacity(self._sentence(), detail={**detail, "site": self.scope_name})
        return QuotaRefused(self._sentence(), detail=detail)

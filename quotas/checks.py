"""One comparison of an asked amount with one limit or capacity, and the refusal that it may turn into."""

from dataclasses import dataclass
from enum import IntEnum

from gpuaas.core.errors import Conflict, NoCapacity, QuotaRefused
from quotas.resources import resource_unit


class Scope(IntEnum):
    """Also the global order in which counters are locked: the most contended ones last, so held the shortest."""

    PROJECT = 1
    ORGANIZATION = 2
    SITE = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Check:
    """`limit` None = unlimited (or not counted at the site), then `left` is None too.

    kept: the sentence that the pool is another organization's, and nothing is left of it whatever is free; else ''.
    """

    scope: Scope
    scope_name: str
    resource: str
    limit: int | None
    used: int
    asked: int
    kept: str = ""

    @property
    def left(self) -> int | None:
        if self.kept:
            return 0
        return None if self.limit is None else max(self.limit - self.used, 0)

    @property
    def fits(self) -> bool:
        return not self.kept and (self.limit is None or self.used + self.asked <= self.limit)

    @property
    def message(self) -> str:
        """The refusal in words; '' where it fits."""
        return "" if self.fits else self._sentence()

    def _sentence(self) -> str:
        if self.kept:
            return self.kept
        unit = resource_unit(self.resource)
        if self.scope is Scope.SITE:
            return (
                f"The site {self.scope_name} cannot hold {self.asked} more {unit} now: {self.left} of {self.limit} are free. "
                "Ask for fewer, try again later, or choose another site or GPU type."
            )
        return (
            f"The limit of {self.scope.word} {self.scope_name} for {unit} is {self.limit}: {self.used} are used, "
            f"{self.asked} more were asked, {self.left} are left. Ask for fewer, free some, or ask an operator "
            "to raise the limit."
        )

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

"""How often one caller may ask: so many times at once, and so many a minute from then on.

Each web process counts for itself, in memory: a count that all processes share would cost every request a write to the database,
for a limit that is there to leave each process time for the other callers.
"""

import math

from django.conf import settings
from rest_framework.exceptions import Throttled

from gpuaas.core.rate import Rate


class TooOften(Throttled):
    """`wait` seconds, which the answer has as Retry-After; the base class would add a sentence of its own."""

    def __init__(self, most: int, wait: int) -> None:
        super().__init__(detail=f"more than {most} requests in a minute; ask again after Retry-After")
        self.wait = wait


_rate = Rate()


def admit(caller: str) -> None:
    """Counts a request. Raises Throttled beyond GPUAAS_API_PER_MINUTE."""
    most = settings.API_PER_MINUTE
    if most and (wait := _rate.seconds_to_wait(caller, most=most)):
        raise TooOften(most, math.ceil(wait))

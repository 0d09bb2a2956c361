"""Places of what may be under way at once in this process."""

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from types import TracebackType
from typing import NamedTuple

from gpuaas.core.errors import GpuaasError


class Limit(NamedTuple):
    """whose: what places are counted by. words: of the refusal."""

    whose: Hashable
    most: int
    words: str


class Place:
    """Held until it is left or forgotten: by a server whose client has left before the first byte."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self.leave = weakref.finalize(self, leave)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Places:
    def __init__(self, refusal: Callable[[str], GpuaasError]) -> None:
        self._taken: Counter[Hashable] = Counter()
        self._refusal = refusal
        # a forgotten place is left whenever Python finds it, also while another is taken
        self._lock = threading.RLock()

    def take(self, *limits: Limit) -> Place:
        """It counts in each of them. Raises the refusal of the first that is reached."""
        whose = [limit.whose for limit in limits]
        with self._lock:
            for limit in limits:
                if self._taken[limit.whose] >= limit.most:
                    raise self._refusal(limit.words)
            self._taken.update(whose)
        return Place(partial(self._leave, whose))

    def _leave(self, whose: list[Hashable]) -> None:
        with self._lock:
            self._taken.subtract(whose)
            self._taken += Counter()  # forgets who has none

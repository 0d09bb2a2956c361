"""How long to wait before the next try: doubles from 1 s to a cap, with jitter against synchronized retries."""

import random

BASE_SECONDS = 1.0
CAP_SECONDS = 60.0


def delay(attempt: int, *, rng: random.Random | None = None) -> float:
    """Seconds before try `attempt` + 1 (attempt counts from 1): between half and all of min(cap, 2^(attempt-1))."""
    full: float = min(CAP_SECONDS, BASE_SECONDS * 2 ** min(attempt - 1, 16))
    return full * (0.5 + 0.5 * (rng or random).random())

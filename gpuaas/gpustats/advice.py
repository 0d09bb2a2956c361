"""What the use of a workspace's GPUs suggests, in words. Pure."""

ENOUGH = 0.8  # of the time, below which nothing is said
BUSY_PERCENT = 5  # from there on a GPU counts as used


def advice_of(*, bought: int, at_once: int | None, minutes_share: float, seconds_share: float) -> str:
    """`Used 1 of 4 GPUs …`; "" where all were used, or too little was seen to say so.

    at_once: GPUs that were busy at the same time, for 95% of the minutes at most so many. minutes_share: of the last
    24 hours, that were seen; seconds_share: of the GPU-seconds that pods had.
    """
    if at_once is None or min(minutes_share, seconds_share) < ENOUGH or at_once >= bought:
        return ""
    return (
        f"Used {at_once:,} of {bought:,} GPUs in the last 24 hours: for 95% of the time no more were busy at once "
        f"(at {BUSY_PERCENT}% or more). A resize gives the others back."
    )

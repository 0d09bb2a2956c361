"""What movers of files do at a simulated site: each `rclone` in their script copies 24 files for four seconds, and says how far it
is as rclone does. An address with `missing` in it cannot be read.
"""

import json
import re
from collections.abc import Sequence

from gpuaas.providers.base import JobSpec
from gpuaas.providers.sandbox.commands import MISSING

SECONDS, FILES, BYTES = 4, 24, 3 * 2**30  # of each
COPY = re.compile(r"^rclone .*$", re.MULTILINE)


def moves_of(spec: JobSpec) -> list[str]:
    """The commands of its script; none of a job that moves nothing."""
    return [found for text in spec.files.values() for found in moves_in(text)]


def moves_in(script: str) -> list[str]:
    return COPY.findall(script)


def moves_seconds(moves: Sequence[str]) -> int:
    return SECONDS * len(_done(moves))


def moves_result(moves: Sequence[str]) -> tuple[int, str, str]:
    """As `commands.result_of`."""
    return (
        (0, "", "") if len(_done(moves)) == len(moves) else (3, "Error", "its command ended with exit code 3")
    )


def moves_log(moves: Sequence[str], passed: int, *, done: bool) -> list[str]:
    """passed: the seconds for which it has run."""
    good, lines = _done(moves), list[dict[str, object]]()
    for at in range(len(good)):
        copied = SECONDS if done else min(passed - at * SECONDS, SECONDS)
        if copied < 0:
            break
        counts = {"bytes": BYTES * copied // SECONDS, "totalBytes": BYTES, "checks": 0}
        counts |= {"transfers": FILES * copied // SECONDS, "totalTransfers": FILES}
        lines += [{"transfer": at}, {"level": "notice", "msg": "copying", "stats": counts}]
    if done and len(good) < len(moves):
        lines += [{"transfer": len(good)}, {"level": "error", "msg": "directory not found"}]
    return [json.dumps(line) for line in lines]


def _done(moves: Sequence[str]) -> Sequence[str]:
    """Those before the first that fails."""
    bad = next((at for at, each in enumerate(moves) if MISSING in each), len(moves))
    return moves[:bad]

"""Blocks of loopback ports for labs that stand beside each other."""

import socket
from collections.abc import Iterable

from deploy.lab.errors import LabError

TRIES = 20


def free_base(offsets: Iterable[int], *, given: int | None, before: int, first: int) -> int:
    """The first base of which all ports are free: the one that is given, else the one before, else the next."""
    wanted = list(offsets)
    others = [first + 100 * number for number in range(TRIES)]
    for base in [given] if given is not None else [before, *others]:
        if all(_free(base + offset) for offset in wanted):
            return base
    tried = f"{given}" if given is not None else f"{others[0]}, {others[1]} … {others[-1]}"
    raise LabError(
        f"the {len(wanted)} ports from the base on are taken; tried {tried}; choose with --port-base"
    )


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # not held up by connections that linger
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

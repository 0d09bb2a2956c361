"""Which process a number means: numbers are given out again, the tick of a boot at which a process was started is not."""

import os
from pathlib import Path


def identity(pid: int) -> str | None:
    """The boot and the tick at which the process was started; None for one that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX" and _ended(pid, threads=int(fields[17])):
        return None
    return f"{_boot()}:{fields[19]}"


def is_of_this_boot(identity: str) -> bool:
    return identity.startswith(_boot())


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _ended(pid: int, *, threads: int) -> bool:
    """Of a zombie. While other threads of it are ending, it still holds its ports."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid  # our own child leaves no zombie
    except ChildProcessError:
        return threads <= 1

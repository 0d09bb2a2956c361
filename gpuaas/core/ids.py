"""Identifiers: time-ordered UUIDs (RFC 9562, version 7), so that the newest row has the greatest key."""

import os
import re
import time
import uuid
from datetime import UTC, datetime

BEGIN = re.compile(r"[0-9a-f]{6,32}")
LAST_SECOND = 253_402_300_799  # of the year 9999, after which Python has no time


def uuid7() -> uuid.UUID:
    """48 bits of Unix milliseconds, then 74 random bits: unguessable, index friendly, and sortable by creation."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def moment_of(value: uuid.UUID) -> datetime:
    """When it was created, if it is from `uuid7`; of any other whatever it says, up to the end of the year 9999."""
    return datetime.fromtimestamp(min((value.int >> 80) / 1000, LAST_SECOND), UTC)


def short(value: uuid.UUID) -> str:
    """8 hex digits from the random end, for names at a site; the time-ordered start would be similar for neighbors."""
    return value.hex[-8:]


def uuids_from(start: str) -> tuple[uuid.UUID, uuid.UUID] | None:
    """The first and the last UUID that begin with it, with or without hyphens; None for fewer than 6 hex digits, or for anything
    else."""
    digits = start.replace("-", "").lower()
    if not BEGIN.fullmatch(digits):
        return None
    return uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))


def uuid_read(text: object) -> uuid.UUID | None:
    """None for anything that is not a UUID."""
    try:
        return uuid.UUID(str(text))
    except ValueError:
        return None

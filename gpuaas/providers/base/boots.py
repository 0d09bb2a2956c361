"""How the machines of a cluster report to the portal while they boot, and the tokens that allow it.

A token names a cluster, a machine and one boot of it, and is sealed with the cluster's own seed: nothing has to be stored before it is
issued, a lost answer leaves none behind, and a recreated machine gets a new one. Every other secret of the cluster is also
derived from the seed, each for its own purpose, so that only the seed is stored.
"""

import hashlib
import hmac
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from gpuaas.core.ids import moment_of

TOKEN_LIVES = timedelta(hours=6)
EARLY = timedelta(minutes=5)  # how far the clocks of two of the portal's processes may be apart
QUEUE_TOKEN = re.compile(r"gpq1\.([0-9a-f]{32})\.([0-9a-f]{64})")
TOKEN = re.compile(r"gpn1\.([0-9a-f]{32})\.([a-z0-9-]{1,100})\.([0-9a-f]{32})\.([0-9a-f]{64})")


class Stage(StrEnum):
    """In the order in which a machine passes them; a machine may skip some."""

    BOOTED = "booted"
    PACKAGES = "packages"
    GPU_DRIVER = "gpu-driver"
    JOINED = "joined"
    READY = "ready"
    FAILED = "failed"

    @property
    def is_last(self) -> bool:
        return self in {Stage.READY, Stage.FAILED}

    def follows(self, other: "Stage") -> bool:
        order = list(Stage)
        return order.index(self) > order.index(other)


STAGE_WORDS: Mapping[Stage, str] = {
    Stage.BOOTED: "it has booted and is installing its packages",
    Stage.PACKAGES: "its packages are installed",
    Stage.GPU_DRIVER: "its GPUs are available",
    Stage.JOINED: "it has joined",
    Stage.READY: "it is ready",
    Stage.FAILED: "it could not be set up",
}


@dataclass(frozen=True)
class NodeReport:
    """How far one boot got. `passed`: the last stage before `stage`, "" if none. message: the machine's own text."""

    stage: Stage
    message: str = ""
    passed: str = ""


@dataclass(frozen=True)
class Boots:
    """Where machines report; the cluster's seed; the last report of each boot, by its id; where a head reports its queue; the time zone
    of the days by which use is counted."""

    url: str = ""
    seed: str = field(default="", repr=False)
    reports: Mapping[str, NodeReport] = field(default_factory=dict)
    queue_url: str = ""
    zone: str = "UTC"

    def derive(self, purpose: str) -> bytes:
        """32 bytes that follow from the seed for this purpose alone."""
        return derived(self.seed, purpose)


@dataclass(frozen=True)
class BootClaim:
    """The claims of a token; valid only if `is_sealed`."""

    cluster: uuid.UUID
    node: str
    boot: str
    seal: str = field(repr=False)

    @property
    def begun_at(self) -> datetime:
        return moment_of(uuid.UUID(self.boot))

    def is_timely(self, now: datetime) -> bool:
        return now - TOKEN_LIVES < self.begun_at <= now + EARLY

    def is_sealed(self, seed: str) -> bool:
        return bool(seed) and hmac.compare_digest(self.seal, _seal(seed, self.cluster, self.node, self.boot))


@dataclass(frozen=True)
class QueueClaim:
    """The claims of a head's queue token; valid only if `is_sealed`, and for as long as the cluster keeps its seed."""

    cluster: uuid.UUID
    seal: str = field(repr=False)

    def is_sealed(self, seed: str) -> bool:
        return bool(seed) and hmac.compare_digest(self.seal, _queue_seal(seed, self.cluster))


def queue_token(seed: str, *, cluster: uuid.UUID) -> str:
    """It does not allow boot reports, and reads nothing but what the head is to do: logins, and scripts of jobs."""
    return f"gpq1.{cluster.hex}.{_queue_seal(seed, cluster)}"


def queue_claim(token: str) -> QueueClaim | None:
    """None for text that is not a token."""
    found = QUEUE_TOKEN.fullmatch(token)
    return QueueClaim(uuid.UUID(found[1]), found[2]) if found else None


def derived(seed: str, purpose: str) -> bytes:
    return hmac.new(seed.encode(), purpose.encode(), hashlib.sha256).digest()


def boot_token(seed: str, *, cluster: uuid.UUID, node: str, boot: uuid.UUID) -> str:
    """For one machine and one boot of it, for TOKEN_LIVES."""
    return f"gpn1.{cluster.hex}.{node}.{boot.hex}.{_seal(seed, cluster, node, boot.hex)}"


def boot_claim(token: str) -> BootClaim | None:
    """None for text that is not a token."""
    found = TOKEN.fullmatch(token)
    if found is None:
        return None
    cluster, node, boot, seal = found.groups()
    return BootClaim(uuid.UUID(cluster), node, boot, seal)


def _seal(seed: str, cluster: uuid.UUID, node: str, boot: str) -> str:
    return derived(seed, f"report/{cluster.hex}/{node}/{boot}").hex()


def _queue_seal(seed: str, cluster: uuid.UUID) -> str:
    return derived(seed, f"queue/{cluster.hex}").hex()

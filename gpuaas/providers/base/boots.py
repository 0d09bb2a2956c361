"""What the machines of a cluster tell the portal while they boot, and by which right.

A token names a cluster, a machine and one boot of it, and is sealed with the cluster's own seed: nothing has to be stored before it is
given out, a lost answer leaves none behind, and whoever makes a machine anew gives it another. The seed is also what every
other secret of the cluster is worked out of, each for its purpose, so that there is one to keep.
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
TOKEN = re.compile(r"gpn1\.([0-9a-f]{32})\.([a-z0-9-]{1,100})\.([0-9a-f]{32})\.([0-9a-f]{64})")


class Stage(StrEnum):
    """In the order in which a machine passes them; not every machine passes all."""

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
    Stage.BOOTED: "it has booted and installs its packages",
    Stage.PACKAGES: "its packages are installed",
    Stage.GPU_DRIVER: "its GPUs are there",
    Stage.JOINED: "it has joined",
    Stage.READY: "it is ready",
    Stage.FAILED: "it could not be set up",
}


@dataclass(frozen=True)
class NodeReport:
    """How far one boot came. `passed`: the last stage before `stage`, "" where there is none. message: what the machine said."""

    stage: Stage
    message: str = ""
    passed: str = ""


@dataclass(frozen=True)
class Boots:
    """Where machines report; the cluster's seed; and how far each boot came, by its id."""

    url: str = ""
    seed: str = field(default="", repr=False)
    told: Mapping[str, NodeReport] = field(default_factory=dict)

    def derive(self, purpose: str) -> bytes:
        """32 bytes that follow from the seed for this purpose alone."""
        return derived(self.seed, purpose)


@dataclass(frozen=True)
class BootClaim:
    """What a token says of itself; true only where `is_sealed`."""

    cluster: uuid.UUID
    node: str
    boot: str
    seal: str = field(repr=False)

    @property
    def begun_at(self) -> datetime:
        return moment_of(uuid.UUID(self.boot))

    def is_timely(self, now: datetime) -> bool:
        return self.begun_at - EARLY <= now < self.begun_at + TOKEN_LIVES

    def is_sealed(self, seed: str) -> bool:
        return bool(seed) and hmac.compare_digest(self.seal, _seal(seed, self.cluster, self.node, self.boot))


def derived(seed: str, purpose: str) -> bytes:
    return hmac.new(seed.encode(), purpose.encode(), hashlib.sha256).digest()


def boot_token(seed: str, *, cluster: uuid.UUID, node: str, boot: uuid.UUID) -> str:
    """For one machine and one boot of it, for TOKEN_LIVES."""
    return f"gpn1.{cluster.hex}.{node}.{boot.hex}.{_seal(seed, cluster, node, boot.hex)}"


def boot_claim(token: str) -> BootClaim | None:
    """None for what is no token at all."""
    found = TOKEN.fullmatch(token)
    if found is None:
        return None
    cluster, node, boot, seal = found.groups()
    return BootClaim(uuid.UUID(cluster), node, boot, seal)


def _seal(seed: str, cluster: uuid.UUID, node: str, boot: str) -> str:
    return derived(seed, f"report/{cluster.hex}/{node}/{boot}").hex()

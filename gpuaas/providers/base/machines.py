"""Machines at sites that sell them whole: what is ordered, what is there, and what can be done to one."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuaas.providers.base.workspace import FlavorAmount, WorkspaceRef


class MachineStatus(StrEnum):
    """What every kind of site can say of a machine; the site's own word is in `ObservedMachine.said`."""

    BUILDING = "building"
    RUNNING = "running"
    CHANGING = "changing"
    STOPPED = "stopped"
    SHELVED = "shelved"
    FAILED = "failed"
    DELETING = "deleting"


class MachineVerb(StrEnum):
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    REBUILD = "rebuild"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"
    DELETE = "delete"


@dataclass(frozen=True)
class MachineImage:
    """What a machine can be made of; the least disk and memory that it needs, 0 where the site does not say."""

    id: str
    name: str
    disk_gib: int = 0
    memory_gib: int = 0


@dataclass(frozen=True)
class MachineOrder:
    """`id` is ours and marks the machine at the site; public_key and cloud_init "" for none, volume_gib 0 for none."""

    id: uuid.UUID
    name: str
    flavor: FlavorAmount
    image: str
    public_key: str = ""
    cloud_init: str = field(default="", repr=False)
    volume_gib: int = 0


@dataclass(frozen=True)
class ObservedMachine:
    """One machine of a workspace, whoever made it.

    order: the mark of ours that it carries; None for one made with the tenant's own client. flavor: the slug of what is
    sold, or the site's own name of anything else. said: the site's own words ("SHUTOFF", "ACTIVE, powering-off"). fault:
    why it failed, in words.
    """

    uid: str
    order: uuid.UUID | None
    name: str
    status: MachineStatus
    said: str
    power: str
    addresses: tuple[str, ...]
    flavor: str
    gpus: Mapping[str, int]
    image: str
    key: str
    volumes: tuple[str, ...]
    fault: str
    created_at: datetime
    launched_at: datetime | None


@dataclass(frozen=True)
class Console:
    """A link that opens the machine's screen for whoever has it."""

    url: str = field(repr=False)
    expires_at: datetime = field(kw_only=True)


@dataclass(frozen=True)
class Belonging:
    """`kind` in words: "volume", "network", "floating IP", "security group", "key pair", …"""

    kind: str
    uid: str
    name: str
    detail: str = ""


@dataclass(frozen=True)
class Belongings:
    """What a workspace has beside machines. volumes_sold: whether the site has any to give."""

    items: tuple[Belonging, ...]
    volumes_sold: bool


class MachineCapability(ABC):
    """Drivers whose workspaces hold machines. Everything is done with a tenant's rights inside the workspace, so what the
    tenant may not do is refused here as well. Raises NotFound where the workspace or the machine is not there."""

    @abstractmethod
    def images(self, ref: WorkspaceRef) -> tuple[MachineImage, ...]:
        """Those that a machine of the workspace can be made of, by name."""

    @abstractmethod
    def launch(self, ref: WorkspaceRef, order: MachineOrder) -> ObservedMachine:
        """Ask for it; a machine with the order's mark that is there already is the answer. Raises QuotaRefused, and
        Permanent for an order that can never be. No room is told later, by a machine that has failed."""

    @abstractmethod
    def machines(self, ref: WorkspaceRef) -> tuple[ObservedMachine, ...]:
        """All of them, in a number of calls that does not grow with theirs; () where the workspace is gone."""

    @abstractmethod
    def act(
        self, ref: WorkspaceRef, uid: str, verb: MachineVerb, *, action: uuid.UUID, image: str = ""
    ) -> None:
        """Ask for it and return; done or under way already changes nothing. `action` tells a repetition from a second
        wish; image: what a rebuild makes it of, "" for the one that it has."""

    @abstractmethod
    def console(self, ref: WorkspaceRef, uid: str) -> Console:
        """Raises Conflict where the site has none."""

    @abstractmethod
    def belongings(self, ref: WorkspaceRef) -> Belongings:
        """In the order of kinds; nothing where the workspace is gone."""

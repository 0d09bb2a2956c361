"""Machines of workspaces: orders, observed machines, and the verbs that act on them."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuaas.core.errors import Conflict
from gpuaas.providers.base.workspace import FlavorAmount, WorkspaceRef


class MachineStatus(StrEnum):
    """A machine's status in terms that every site has; the site's own term is `ObservedMachine.site_status`."""

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
    """An image for machines, with the minimum disk and memory that it needs, 0 if the site does not say."""

    id: str
    name: str
    disk_gib: int = 0
    memory_gib: int = 0
    # the account to which an SSH key gives access; "" if the site does not say
    user: str = ""


@dataclass(frozen=True)
class MachineOrder:
    """`id` is the portal's and marks the machine at the site; public_key and cloud_init "" = none, volume_gib 0 = none."""

    id: uuid.UUID
    name: str
    flavor: FlavorAmount
    image: str
    public_key: str = ""
    cloud_init: str = field(default="", repr=False)
    volume_gib: int = 0


@dataclass(frozen=True)
class ObservedMachine:
    """One machine of a workspace, made by the portal or by the tenant.

    order: the portal's mark on it; None for one made with the tenant's own client. flavor: the slug of a sold flavor, or
    the site's own name of any other. site_status: as the site calls it ("SHUTOFF", "ACTIVE, powering-off"). fault: why
    it failed, in words. lost: others were faster when it was placed, and there is room for it: `launch` replaces it.
    """

    uid: str
    order: uuid.UUID | None
    name: str
    status: MachineStatus
    site_status: str
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
    # its address that is reachable from outside; "" if none is
    outside: str = ""
    lost: bool = False


class NoScreens(Conflict):
    """The site has no consoles at all, so retrying is pointless."""


@dataclass(frozen=True)
class Console:
    """A link that opens the machine's console for anyone who has it."""

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
    """A workspace's resources other than machines. volumes_sold: whether the site has block storage."""

    items: tuple[Belonging, ...]
    volumes_sold: bool


class MachineCapability(ABC):
    """Drivers whose workspaces hold machines. Everything is done with a tenant's rights inside the workspace, so what the
    tenant may not do is refused here as well. Raises NotFound if the workspace or the machine does not exist."""

    @abstractmethod
    def images(self, ref: WorkspaceRef) -> tuple[MachineImage, ...]:
        """The images available to machines of the workspace, sorted by name."""

    @abstractmethod
    def launch(self, ref: WorkspaceRef, order: MachineOrder) -> ObservedMachine:
        """Request the machine; one that already has the order's mark is returned, unless it is lost: that one is replaced. Raises
        QuotaRefused, and Permanent for an order that can never succeed. Lack of capacity shows later, as a machine that has
        failed."""

    @abstractmethod
    def machines(self, ref: WorkspaceRef) -> tuple[ObservedMachine, ...]:
        """All machines, in a constant number of calls; () if the workspace is gone."""

    @abstractmethod
    def act(
        self, ref: WorkspaceRef, uid: str, verb: MachineVerb, *, action: uuid.UUID, image: str = ""
    ) -> None:
        """Request the verb and return; if it is done or under way this changes nothing. `action` distinguishes a retry from
        a second request; image: for a rebuild, "" = its current one."""

    @abstractmethod
    def console(self, ref: WorkspaceRef, uid: str) -> Console:
        """Raises NoScreens if the site has no consoles."""

    @abstractmethod
    def belongings(self, ref: WorkspaceRef) -> Belongings:
        """Sorted by kind; empty if the workspace is gone."""

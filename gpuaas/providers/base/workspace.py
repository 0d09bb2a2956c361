"""The desired and the observed state of one workspace at a site."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpuaas.providers.base.words import FromSite


@dataclass(frozen=True)
class GpuAmount:
    """`count` devices by the name that the site counts; selector = labels of the pool's nodes.

    exclusive: no other pool of the site has this name, so the name alone brings pods to it. device_class: the DRA
    class that was sold by this name; claims of any other are refused. also: further names to which the site charges them.
    """

    resource_name: str
    count: int
    selector: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False
    device_class: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlavorAmount:
    """`count` of one flavor, each with its GPUs, vCPUs, memory and disk; resource_name and selector are its pool's."""

    slug: str
    count: int
    gpus: int
    vcpus: int
    memory_gib: int
    disk_gib: int
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)
    device_class: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Member:
    """`subject` is stable at the site (derived from an id of ours); role is admin, edit or view.

    robot: a service account for automation. identity: the person's name in the site's own OIDC; "" = unknown. login: the
    person's account on the machines of a cluster; "" = all people share one.
    """

    subject: str
    name: str
    role: str
    robot: bool = False
    identity: str = ""
    login: str = ""


@dataclass(frozen=True)
class Tuning:
    """What the flavors require of their nodes: hugepages (page size to GiB in all), whole cores, sysctls that pods may
    set, a node profile."""

    hugepages: Mapping[str, int] = field(default_factory=dict)
    exclusive_cpus: bool = False
    sysctls: tuple[str, ...] = ()
    profile: str = ""


class Placement(StrEnum):
    """How close together the pods of a workspace are placed, as far as there is room: a preset of their affinity."""

    ANYWHERE = ""
    NODE = "node"
    RACK = "rack"
    NVLINK_DOMAIN = "nvlink-domain"


@dataclass(frozen=True)
class WorkspaceSpec:
    """The desired state of a workspace at a site. `closed` = GPU names of the site that were not bought;
    memory_gib is what pods may have besides the hugepages of `tuning`. storage_gib is all of its storage; storage_classes: GiB of it
    by the site's classes, and closed_classes those that were not bought. Both are empty where the site has no classes.

    A suspended workspace has no GPUs, vCPUs or memory here; its storage and members stay. groups: role to the group of
    the site's own OIDC that has it; empty if the site uses none. labels and annotations: further ones for its namespace,
    where it belongs to something other than a workspace.

    notice_seconds: of one that borrows its GPUs, for how long what runs in it may go on once somebody who bought them waits for them;
    0: they were bought.
    """

    id: uuid.UUID
    external_name: str
    project_slug: str
    organization_slug: str
    gpus: tuple[GpuAmount, ...]
    vcpus: int
    memory_gib: int
    storage_gib: int
    members: tuple[Member, ...]
    closed: tuple[str, ...] = ()
    tuning: Tuning = field(default_factory=Tuning)
    placement: Placement = Placement.ANYWHERE
    suspended: bool = False
    flavors: tuple[FlavorAmount, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    storage_classes: Mapping[str, int] = field(default_factory=dict)
    closed_classes: tuple[str, ...] = ()
    notice_seconds: int = 0

    @property
    def storage_limits(self) -> dict[str, int]:
        """GiB by class, 0 for what was not bought."""
        return {**dict.fromkeys(self.closed_classes, 0), **self.storage_classes}

    @property
    def ref(self) -> "WorkspaceRef":
        return WorkspaceRef(self.id, self.external_name)


@dataclass(frozen=True)
class WorkspaceRef:
    id: uuid.UUID
    external_name: str


class UseState(StrEnum):
    """What a consumer does with its devices; each state is metered separately."""

    RUNNING = "running"
    STOPPED = "stopped"  # stopped, paused or suspended: it keeps its devices
    SHELVED = "shelved"  # it holds none, `gpus` are those that it will request again


@dataclass(frozen=True)
class ObservedConsumer:
    """A pod (or machine) of a workspace, for its page and for metering.

    started_at: from when it holds devices (PodScheduled); ended_at: last container's finish. None = not yet.
    `waiting_for`: why it does not run, in words; `owner` is what made it ("Job/train"), "" if the tenant did directly.
    uncharged_at: for one that is being deleted, from when the site's quota no longer counts it, ended or not; deadline_at:
    by when it was to have ended, after which nobody is charged for it.

    A machine that can be stopped, shelved or resized is one consumer for each stretch in one state with the same devices:
    with its own uid, `<uid of the first>:<what began it>`, which is the same however often it is reported.
    gpus_like: set if the site no longer says what a past stretch held: the uid of the first stretch with the same devices
    (possibly itself). What was reported of that one holds; else `gpus` is the best guess, empty for none.
    """

    uid: str
    name: str
    phase: str
    node: str
    gpus: Mapping[str, int]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    waiting_for: str = ""
    owner: str = ""
    uncharged_at: datetime | None = None
    deadline_at: datetime | None = None
    state: UseState = UseState.RUNNING
    gpus_like: str = ""


def storage_key(storage_class: str) -> str:
    """The key of a class among those of `ObservedWorkspace.hard`."""
    return f"storage:{storage_class}"


@dataclass(frozen=True)
class ObjectBound:
    """How many objects of a kind a workspace may have. label: of several, for people; remedy: what to do when it is full."""

    name: str
    label: str
    used: int
    most: int
    remedy: str


@dataclass(frozen=True)
class ObservedVolume(FromSite):
    """A volume in a workspace, or a claim of one. storage_class: by the site's name, "" where it has none; bound: it is there;
    uid: where names are not unique."""

    name: str
    gib: int
    storage_class: str
    bound: bool
    created_at: datetime
    uid: str = ""


@dataclass(frozen=True)
class ObservedWorkspace:
    """exists=False: nothing of it is left at the site. hard/used are what the site enforces and counts now, by GPU name, `cpu`,
    `memory`, `storage` and (`storage_key`) storage class; bounds: those of objects, where it has any. all_classes: a storage class
    that is not in `hard` is not at the site, so there is nothing to enforce."""

    exists: bool
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    consumers: tuple[ObservedConsumer, ...] = ()
    bounds: tuple[ObjectBound, ...] = ()
    volumes: tuple[ObservedVolume, ...] = ()
    all_classes: bool = False


class AccessKind(StrEnum):
    """The format of a credential, named after the file that the site's own tools read."""

    KUBECONFIG = "kubeconfig"
    CLOUDS_YAML = "clouds.yaml"
    SSH = "ssh"


@dataclass(frozen=True)
class Access:
    """Shown once, never stored. `document` is YAML; of the kind ssh it is a script that opens a shell."""

    document: str = field(repr=False)
    expires_at: datetime
    kind: AccessKind

"""What is wanted of a site for one workspace, and what it has of it."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True)
class GpuAmount:
    """`count` devices by the name that the site counts; selector = labels of the pool's nodes.

    exclusive: no other pool of the site goes by this name, so the name alone brings pods to it.
    """

    resource_name: str
    count: int
    selector: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False


@dataclass(frozen=True)
class FlavorAmount:
    """`count` of what is sold, each with its GPUs, vCPUs, memory and disk; resource_name and selector are its pool's."""

    slug: str
    count: int
    gpus: int
    vcpus: int
    memory_gib: int
    disk_gib: int
    resource_name: str
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """`subject` is stable at the site (derived from an id of ours); role is admin, edit or view.

    robot: a service account for automation, no person. identity: the name by which the site's own OIDC knows a person; "" = unknown.
    """

    subject: str
    name: str
    role: str
    robot: bool = False
    identity: str = ""


@dataclass(frozen=True)
class Tuning:
    """What the flavors require of their nodes: hugepages (page size to GiB in all), whole cores, sysctls that pods may
    set, a node profile."""

    hugepages: Mapping[str, int] = field(default_factory=dict)
    exclusive_cpus: bool = False
    sysctls: tuple[str, ...] = ()
    profile: str = ""


class Placement(StrEnum):
    """How near to each other the pods of a workspace are put, as far as there is room: a preset of their affinity."""

    ANYWHERE = ""
    NODE = "node"
    RACK = "rack"
    NVLINK_DOMAIN = "nvlink-domain"


@dataclass(frozen=True)
class WorkspaceSpec:
    """Everything about a workspace that a site must hold. `closed` = GPU names of the site that were not bought;
    memory_gib is what pods may have beside the hugepages of `tuning`.

    A suspended workspace has no GPUs, vCPUs or memory here; its storage and members stay. groups: role to the group of
    the site's own OIDC that has it; empty where the site's operator wants none. labels and annotations: further ones of its
    namespace, where something else than a workspace lives in it.
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


@dataclass(frozen=True)
class WorkspaceRef:
    id: uuid.UUID
    external_name: str


@dataclass(frozen=True)
class StepSpec:
    """A step of `ensure`, in order; the label is what the tenant reads in the timeline.

    safety: it keeps the hard limits, so it is set right even where other drift is only observed.
    """

    key: str
    label: str
    safety: bool = False


@dataclass(frozen=True)
class StepOutcome:
    """done=False: the site works on it, ask again; `detail` says in words what was seen or is waited for."""

    done: bool
    detail: str = ""


class UseState(StrEnum):
    """What a consumer does with its devices; each state is metered apart."""

    RUNNING = "running"
    STOPPED = "stopped"  # stopped, paused or suspended: the devices are still its own
    SHELVED = "shelved"  # put away: it holds none, `gpus` are those that it will ask for again


@dataclass(frozen=True)
class ObservedConsumer:
    """A pod (or machine) of a workspace, for its page and for metering.

    started_at: from when it holds devices (PodScheduled); ended_at: last container's finish. None = not yet.
    `waiting_for` says in words why it does not run; `owner` is what made it ("Job/train"), "" for the tenant's hand.
    uncharged_at: of one that is being deleted, from when the site's quota no longer counts it, ended or not.

    What can be stopped, put away or made larger and lives on is one consumer for each stretch in one state with the same
    devices: a uid of its own, `<uid of the first>:<what began it>`, that is the same whenever and however often it is told.
    gpus_like: set where the site no longer says what a past stretch held: the uid of the first stretch with the same devices
    (it may be itself). What was told of that holds; `gpus` is the best guess where nothing was, empty for "then nothing".
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
    state: UseState = UseState.RUNNING
    gpus_like: str = ""


@dataclass(frozen=True)
class ObservedWorkspace:
    """exists=False: nothing of it is left at the site. hard/used are what the site enforces and counts by now."""

    exists: bool
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    consumers: tuple[ObservedConsumer, ...] = ()


class AccessKind(StrEnum):
    """What the document of a credential is, by the name of the file that the site's own tools read."""

    KUBECONFIG = "kubeconfig"
    CLOUDS_YAML = "clouds.yaml"
    SSH = "ssh"


@dataclass(frozen=True)
class Access:
    """Shown once, never stored. `document` is YAML; of the kind ssh it is a script that opens a shell."""

    document: str = field(repr=False)
    expires_at: datetime
    kind: AccessKind

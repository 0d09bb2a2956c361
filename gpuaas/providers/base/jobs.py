"""Jobs: a program that runs to its end, once or until it succeeds, inside the namespace of a workspace; alone or in tasks."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from gpuaas.providers.base.steps import Provisioner
from gpuaas.providers.base.words import FromSite
from gpuaas.providers.base.workspace import WorkspaceRef


@dataclass(frozen=True)
class JobSpec:
    """name: of every object of it at the site. retries: how often it is started anew after it failed. deadline_seconds: after
    which the site ends it, all its attempts together; None = never. volumes: by the name of a claim in the namespace, where it is
    mounted. resource_name: by which the site counts its GPUs, "" without any.

    files: contents by name, such as credentials; the site mounts them at FILES_AT in this job alone, and keeps them for no longer
    than the job. To end it needs their names alone.

    The site puts the values of `variables` in place of `$(NAME)` in command and arguments.

    tasks: how many run, by their numbers from 0; all sizes are of one. at_once: how many of them at the same time; each has
    retries of its own, and one that fails ends no other. together: they start together instead, find one another by name, and
    one that fails ends all. launcher: of these, task 0 alone runs the command, which starts its processes in the others; they end
    with it. runtime: the name of a training runtime of the site, which makes the tasks that run together; without a command they run
    its own. Then `attempt` is the number of the attempt, which the portal asks for; since: when the first
    one ran; made: as it was first observed of this attempt, "" before that.

    priority: high, normal or low, where the site orders what waits in the workspace.

    notice_seconds: of its workspace, where that borrows its GPUs. What the site ends for a buyer then starts again by itself, and is
    no attempt. grace_seconds: how long it may take to end after SIGTERM; 0: as long as the site's own way.
    """

    id: uuid.UUID
    name: str
    workspace: WorkspaceRef
    image: str
    vcpus: int
    memory_gib: int
    user: int
    retries: int = 0
    deadline_seconds: int | None = None
    gpus: int = 0
    resource_name: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    tasks: int = 1
    at_once: int = 1
    together: bool = False
    launcher: str = ""
    runtime: str = ""
    attempt: int = 1
    since: datetime | None = None
    made: str = ""
    priority: str = "normal"
    notice_seconds: int = 0
    grace_seconds: int = 0


MPI = "mpi"  # a launcher: it reaches the other tasks by SSH, and finds their names in a file
DEADLINE = "DeadlineExceeded"  # the reason of what was ended at its deadline
FILES_AT = "/run/gpuaas"
TASKS_SEEN = 50  # details of tasks in one observation
_FIRST = ("failed", "running", "waiting", "succeeded")


class JobPhase(StrEnum):
    """GONE: nothing of it is at the site. WAITING: it is there, and no attempt of it runs."""

    GONE = "gone"
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class ObservedTask(FromSite):
    """One of several, in its newest attempt."""

    number: int
    phase: JobPhase
    node: str = ""
    exit_code: int | None = None
    reason: str = ""
    attempt: int = 1


def tasks_cut(tasks: Iterable[ObservedTask]) -> tuple[ObservedTask, ...]:
    """Those that fit in an observation, the most telling ones first."""
    return tuple(sorted(tasks, key=lambda each: (_FIRST.index(each.phase), each.number))[:TASKS_SEEN])


@dataclass(frozen=True)
class ObservedJob(FromSite):
    """detail: what it waits for or why it failed, in words; reason: the same in one, such as OOMKilled. hopeless: it waits, and
    waiting does not help. attempt: the number of the newest one, from 1; exit_code: of the last container that ended.

    made: of a runtime, what the site has made of this attempt, by a name that it never has again. Once that is not there any more,
    by somebody's hand, it is GONE, whatever the site makes anew.

    preempted: what the site ended last of it because a buyer needed its GPUs, by a name that nothing else of it ever has.

    Of several tasks: which run, succeeded and failed for good, as `gpuaas/core/ranges.py` has it; the others wait. tasks: what
    is known of some, TASKS_SEEN at most, those that failed first.
    """

    phase: JobPhase
    detail: str = ""
    reason: str = ""
    hopeless: bool = False
    attempt: int = 0
    exit_code: int | None = None
    node: str = ""
    running: str = ""
    succeeded: str = ""
    failed: str = ""
    tasks: tuple[ObservedTask, ...] = ()
    made: str = ""
    preempted: str = ""


class Jobs(Provisioner[JobSpec]):
    """Jobs of one site. Its changes are CREATE, SUSPEND, which ends one at any moment, and DELETE; after either of these nothing
    of it exists, and that has been seen.

    Everything counts against the quota of the workspace, and is under the same guards as what its members make. Nothing of the
    portal's secrets is in it but the files of its spec. Where members use what it asks for, it waits, and says so.
    """

    @abstractmethod
    def observe(self, spec: JobSpec) -> ObservedJob:
        """GONE (not NotFound) also if the workspace is gone."""

    @abstractmethod
    def log(self, spec: JobSpec, *, lines: int, task: int = 0) -> str:
        """The last lines that the newest attempt of the task wrote. Raises NotFound if there is none that could have."""

    def tidy(self, spec: JobSpec) -> None:
        """Removes what has ended of many tasks and counts against what a workspace may have at the site."""


class JobCapability(ABC):
    """Drivers at whose sites jobs can run in workspaces. launchers: which kinds of these a job may ask for."""

    launchers: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def jobs(self) -> Jobs:
        """Bound to the same site."""

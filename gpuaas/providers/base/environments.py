"""Environments: what somebody works in, such as a notebook, inside the namespace of a workspace."""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from gpuaas.core.errors import NotFound
from gpuaas.providers.base.steps import Provisioner
from gpuaas.providers.base.words import FromSite
from gpuaas.providers.base.workspace import WorkspaceRef


def worker_name(name: str, number: int) -> str:
    """Of a worker's pod, by the name of its environment."""
    return f"{name}-w{number}"


def workers_words(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


@dataclass(frozen=True)
class WorkerSpec:
    """Of an environment whose main pod others work for: how many there are, and one of them. host: the name by which they reach
    the main pod at any port, and it itself."""

    count: int
    host: str
    image: str
    vcpus: int
    memory_gib: int
    gpus: int = 0
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnvironmentSpec:
    """name: of every object of it at the site. port: where it answers; None = nowhere, so that it can be used once it runs.
    readiness: the path that answers there by HTTP once it can be used. home: where
    its volume of `home_gib` is mounted. storage_class: of that volume, by the site's name, "" for the site's default. user:
    the numeric account as which it runs. resource_name: by which the site counts its GPUs, "" without any.

    The site puts the values of `variables` in place of `$(NAME)` in command and arguments. notice_seconds: of its workspace, where
    that borrows its GPUs.
    """

    id: uuid.UUID
    name: str
    workspace: WorkspaceRef
    image: str
    port: int | None
    readiness: str
    home: str
    home_gib: int
    vcpus: int
    memory_gib: int
    user: int
    gpus: int = 0
    resource_name: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""
    notice_seconds: int = 0
    workers: WorkerSpec | None = None

    def of_workers(self) -> "dict[int, EnvironmentSpec]":
        """What each of them is, by its number: one without a home, which nothing leads to."""
        found = self.workers
        numbers = range(1, found.count + 1) if found is not None else ()
        return {number: self.of_worker(number) for number in numbers}

    def of_worker(self, number: int) -> "EnvironmentSpec":
        found = self.workers
        if found is None or not 1 <= number <= found.count:
            raise NotFound(f"it has no worker {number}")
        return replace(
            self,
            name=worker_name(self.name, number),
            image=found.image,
            command=found.command,
            arguments=found.arguments,
            variables={**self.variables, "WORKER": str(number)},
            port=None,
            gpus=found.gpus,
            vcpus=found.vcpus,
            memory_gib=found.memory_gib,
        )


@dataclass(frozen=True)
class ObservedEnvironment(FromSite):
    """exists: its main pod runs, or is about to. ready: it answers. detail: why it does not, in words; of one that does, why not
    all of its workers run. workers: how many do. whole: False where a pod of it is missing. preempted_at: when the site last ended
    it because a buyer needed its GPUs."""

    exists: bool
    ready: bool = False
    detail: str = ""
    node: str = ""
    restarts: int = 0
    workers: int = 0
    whole: bool = True
    preempted_at: datetime | None = None


@dataclass(frozen=True)
class Address:
    """Where connections are made to; host: an IP address."""

    host: str
    port: int


# Carries one connection to the environment and back, until one side ends it. Raises the errors of core.
Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Size:
    """Of a terminal, in characters."""

    columns: int
    rows: int


class Streams(Protocol):
    """Of somebody who runs a program in an environment."""

    async def read(self) -> bytes | Size:
        """The next part of the program's input, b"" at its end; a Size when the terminal has another one."""

    async def write(self, content: bytes, *, is_error: bool) -> None:
        """A part of its output, or of its error output, which a terminal does not have."""


# Carries the streams of a program until it ends. Returns its exit code, and raises the errors of core.
Run = Callable[[Streams], Awaitable[int]]


class Environments(Provisioner[EnvironmentSpec]):
    """Environments of one site. Its changes are CREATE, which also starts one, SUSPEND, which keeps the home, RESUME, which
    ends what runs before it starts it anew, and DELETE, after which neither it nor its home exists.

    Everything counts against the quota of the workspace, and is under the same guards as what its members make. Nothing of
    the portal's secrets is in it. Raises QuotaRefused where members use what its main pod asks for; a worker that does not fit is
    left out, which the outcome says.
    """

    @abstractmethod
    def observe(self, spec: EnvironmentSpec) -> ObservedEnvironment:
        """exists=False (not NotFound) if nothing runs, or the workspace is gone."""

    @abstractmethod
    def reach(self, spec: EnvironmentSpec) -> Address | Carry:
        """How one connection of the portal's door to its port is made, now: to an address that leads there from the portal's
        network, or by the site's API. Asked again for the next one. Raises NotFound if it does not run or has no port."""

    @abstractmethod
    def reach_inside(self, spec: EnvironmentSpec, port: int) -> Carry:
        """How one connection to any port of it is made, as if it came from inside it: also to what listens there alone."""

    @abstractmethod
    def run(self, spec: EnvironmentSpec, command: Sequence[str], *, terminal: bool) -> Run:
        """How a program is started in its container, beside what runs there and with the same rights. terminal: with one, so
        that it has no error output of its own."""

    @abstractmethod
    def log(self, spec: EnvironmentSpec, *, lines: int, worker: int = 0) -> str:
        """The last lines that it wrote, or one of its workers. Raises NotFound if that does not run."""


class EnvironmentCapability(ABC):
    """Drivers at whose sites environments can run in workspaces."""

    @property
    @abstractmethod
    def environments(self) -> Environments:
        """Bound to the same site."""

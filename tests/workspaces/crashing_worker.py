"""A worker that dies by SIGKILL at the n-th boundary: before and after each call to the site and each guarded write.

It is forked from the test, so it costs milliseconds; it has database connections of its own and is really killed.
"""

import multiprocessing
import os
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connections

from gpuaas.core import claims
from gpuaas.core.clock import now
from gpuaas.providers.base import Driver
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run, timeline
from tests.workspaces.stage import RESTING

SURVIVED = 0
VERBS = ("perform", "observe")
WRITES = ("claim", "apply")


@dataclass(frozen=True)
class Life:
    """Of one worker: the boundaries it crossed, in order ("before create quota", …). A killed one died at its last."""

    killed: bool
    crossed: tuple[str, ...]


class Boundaries:
    """Counts down to the kill, and tells each boundary to whoever holds the other end of the pipe."""

    def __init__(self, after: int, told: int) -> None:
        self.left, self.told = after, told

    def cross(self, name: str) -> None:
        os.write(self.told, f"{name}\n".encode())
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            named = args[1::2] if verb == "perform" else args[-1:]  # a change and its step, a machine's verb
            words = named if verb == "perform" else (verb, *named)
            name = " ".join(str(word) for word in words if isinstance(word, str))
            self.cross(f"before {name}")
            answer = call(*args, **kwargs)
            self.cross(f"after {name}")
            return answer

        return bounded


def bound(driver: type[Driver], boundaries: Boundaries) -> None:
    """For the forked process alone, which never returns to the test: nothing is put back.

    What is done at once is written together, however slow the machine is: so every worker meets the same boundaries.
    """
    for place, names in ((driver, VERBS), (claims, WRITES)):
        for name in names:
            setattr(place, name, boundaries.around(name, getattr(place, name)))
    timeline.FLUSH_SECONDS = float("inf")


def work(driver: type[Driver], workspace_id: uuid.UUID, after: int, told: int) -> None:
    """Run until it rests, or until killed."""
    bound(driver, Boundaries(after, told))
    for _ in range(30):
        Workspace.objects.filter(pk=workspace_id).update(due_at=now())
        run(workspace_id)
        if Workspace.objects.get(pk=workspace_id).state in RESTING:
            break
    connections.close_all()
    os._exit(SURVIVED)


def life_of(driver: type[Driver], workspace: Workspace, after: int) -> Life:
    """Of a worker that is killed at its n-th boundary, or comes to rest before. Its claim is over, as time would do."""
    connections.close_all()
    heard, told = os.pipe()
    worker = multiprocessing.get_context("fork").Process(
        target=work, args=(driver, workspace.pk, after, told)
    )
    worker.start()
    os.close(told)
    with os.fdopen(heard) as lines:
        crossed = tuple(lines.read().splitlines())
    worker.join(60)
    if worker.exitcode == SURVIVED:
        return Life(killed=False, crossed=crossed)
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode
    Workspace.objects.filter(pk=workspace.pk, claim_until__isnull=False).update(
        claim_until=now(), due_at=now()
    )
    return Life(killed=True, crossed=crossed)

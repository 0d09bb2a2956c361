"""A worker that dies by SIGKILL at the n-th boundary: before and after each call to the site and each guarded write.

It is forked from the test, so it costs milliseconds; it has database connections of its own and is really killed.
"""

import multiprocessing
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from gpuaas.core import leases
from gpuaas.core.clock import now
from gpuaas.providers.base import Driver
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from tests.workspaces.stage import RESTING

SURVIVED = 0


class Boundaries:
    """Counts down to the kill."""

    def __init__(self, after: int) -> None:
        self.left = after

    def cross(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self.cross()
            answer = call(*args, **kwargs)
            self.cross()
            return answer

        return bounded


@contextmanager
def bounded(driver: type[Driver], after: int) -> Iterator[None]:
    """For the forked process alone, which never returns to the test: nothing is put back."""
    boundaries = Boundaries(after)
    for verb in ("ensure", "release", "suspend", "resume", "observe"):
        setattr(driver, verb, boundaries.around(getattr(driver, verb)))
    for name in ("claim", "apply"):
        setattr(leases, name, boundaries.around(getattr(leases, name)))
    yield


def work(driver: type[Driver], workspace_id: uuid.UUID, after: int) -> None:
    """Run until it rests, or until killed."""
    with bounded(driver, after):
        for _ in range(30):
            Workspace.objects.filter(pk=workspace_id).update(due_at=now())
            run(workspace_id)
            if Workspace.objects.get(pk=workspace_id).state in RESTING:
                break
    connections.close_all()
    os._exit(SURVIVED)


def killed_at(driver: type[Driver], workspace: Workspace, after: int) -> bool:
    """False when the worker came to rest before its n-th boundary. Afterwards its lease is over, as time would do."""
    connections.close_all()
    worker = multiprocessing.get_context("fork").Process(target=work, args=(driver, workspace.pk, after))
    worker.start()
    worker.join(60)
    if worker.exitcode == SURVIVED:
        return False
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode
    Workspace.objects.filter(pk=workspace.pk, claim_until__isnull=False).update(
        claim_until=now(), due_at=now()
    )
    return True

"""What is made inside a workspace, such as an environment or a job: its place, under the lock of the workspace."""

from collections.abc import Callable

from gpuaas.core import clock
from gpuaas.core.errors import Invalid, Mistakes
from gpuaas.core.ids import uuid7
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.inside import RowT
from gpuaas.lifecycle.models import Inside
from gpuaas.workspaces.machines.services import run_require
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.room import Room, room_of
from gpuaas.workspaces.services.request import requester_of
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
from gpuaas.workspaces.services.validation import name_validate
from tenants.actors import Actor


def workspace_awake(workspace: Workspace) -> Workspace:
    """Its row, locked before anything in it. Raises Conflict unless things may be started in it."""
    row = workspace_lock(workspace.pk)
    WORKSPACE.require(row, Verb.RUN)
    return row


def place_judge(
    row: Inside, workspace: Workspace | None, wrong: Mistakes, *, name: str, gpu: str
) -> Room | None:
    """Names a new row and its GPUs, and returns the room of the workspace; `wrong` gets what cannot be.

    workspace: None before one is chosen. gpu: the slug of the GPU type, "" where there is one alone.
    """
    with wrong:
        row.name = name_validate(name)
    if workspace is None:
        return None
    room = room_of(workspace=workspace)
    with wrong:
        row.pool = room.pool_of(gpu) if row.has_gpus else None
        if workspace.is_spot and not row.gpus:  # of what is lent only GPUs are counted and charged
            raise Invalid.field("gpus", "this workspace borrows its GPUs: ask for at least one")
    return room


def place_take(
    actor: Actor, workspace: Workspace, judge: Callable[[Workspace], tuple[RowT, Mistakes]], what: str
) -> RowT:
    """A new row, with what it has of its workspace. The workspace's row is locked before it is judged, so that of two orders
    for the last GPU only one is accepted.

    what: it is to do, in words. Raises all that was found wrong; Conflict for a workspace that is not ready.
    """
    run_require(actor, workspace, what)
    place = workspace_awake(workspace)
    row, wrong = judge(place)
    wrong.refuse()
    row.id, row.created_at = uuid7(), clock.now()
    row.project, row.site, row.workspace = place.project, place.site, place
    row.created_by = requester_of(actor)
    return row

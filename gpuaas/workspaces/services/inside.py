"""What is made inside a workspace, such as an environment or a job: its place, under the lock of the workspace."""

from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from gpuaas.lifecycle.allowed import Verb
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


def place_take(actor: Actor, workspace: Workspace, row: Inside, *, name: str, gpu: str, what: str) -> Room:
    """Fills in what a new row has of its workspace, and returns the room there. The workspace's row is locked, so that of two
    orders for the last GPU only one is accepted.

    gpu: the slug of the GPU type, "" where there is one alone. what: it is to do, in words. Raises Invalid at the field.
    """
    run_require(actor, workspace, what)
    place = workspace_awake(workspace)
    room = room_of(workspace=place)
    row.id, row.name, row.created_at = uuid7(), name_validate(name), clock.now()
    row.project, row.site, row.workspace = place.project, place.site, place
    row.created_by = requester_of(actor)
    row.pool = room.pool_of(gpu) if row.gpus else None
    return room

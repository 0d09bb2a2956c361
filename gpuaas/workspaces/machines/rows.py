"""What every write of machines does: schedule the visit and notify pages."""

import uuid
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from gpuaas.core import clock, events
from gpuaas.core.queue import poke
from gpuaas.workspaces.machines.models import Machine, MachineLook, MachineTransition
from gpuaas.workspaces.machines.states import LIFE, MachineState
from gpuaas.workspaces.models import Workspace

TASK = "workspaces.machines"


def look_wake(workspace: Workspace) -> None:
    """Makes a visit to the site due now, even if there never was one."""
    moment = clock.now()
    MachineLook.objects.get_or_create(workspace=workspace, defaults={"due_at": moment})
    MachineLook.objects.filter(workspace=workspace).update(due_at=moment)
    poke(TASK, str(workspace.pk))


def look_lock(workspace: Workspace) -> None:
    """Locked before any row of its machines: a visit uses this order, too, so that two orders cannot deadlock."""
    MachineLook.objects.get_or_create(workspace=workspace)
    MachineLook.objects.select_for_update().get(workspace=workspace)


@transaction.atomic
def screens_refused(site_id: uuid.UUID) -> None:
    """The site shows no screens: none is offered at it for a day. Rows in one order, since visits of others do the same."""
    looks = MachineLook.objects.filter(workspace__site=site_id).order_by("pk").select_for_update(of=("self",))
    pks = list(looks.values_list("pk", flat=True))
    MachineLook.objects.filter(pk__in=pks).update(no_screens_at=clock.now())


def machines_announce(workspace: Workspace) -> None:
    """Notifies the pages of the project and of operators, on commit."""
    events.publish(
        kind="machines",
        id=workspace.pk,
        groups=(events.project_group(workspace.project_id), events.OPERATORS_GROUP),
    )


def machine_move(row: Machine, to: MachineState, *, actor: str, reason: str = "", **changes: Any) -> None:
    """If the state stays, only the columns and the version change."""
    if row.state != to:
        LIFE.transition(row, to=to, history=MachineTransition, actor=actor, reason=reason, **changes)
        return
    Machine.objects.filter(pk=row.pk).update(version=F("version") + 1, **changes)
    row.refresh_from_db()


def machine_end(row: Machine, *, actor: str, reason: str, at: datetime) -> None:
    machine_move(
        row,
        MachineState.DELETED,
        actor=actor,
        reason=reason,
        deleted_at=at,
        cloud_init="",
        verb="",
        verb_id=None,
        told_at=None,
    )

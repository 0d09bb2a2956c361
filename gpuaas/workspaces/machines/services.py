"""Wishes about machines: written down here, brought to the site by `visit.py`. Only a console's link is asked for at once."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, Forbidden, NotFound, StaleVersion
from gpuaas.providers.base import Console, MachineCapability, MachineVerb
from gpuaas.workspaces.machines.checks import Order, order_check, rebuild_image_check
from gpuaas.workspaces.machines.keys import fingerprint_of
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.rows import look_lock, look_wake, machine_move, machines_announce
from gpuaas.workspaces.machines.selectors import machines_sold
from gpuaas.workspaces.machines.states import ALLOWED, ALWAYS, AWAKE, LIFE, MachineState
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.access import ENTERED
from gpuaas.workspaces.services.rows import state_require, workspace_lock
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import members_of, ref_of, subject_of
from gpuaas.workspaces.states import AccessRole, WorkspaceState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission

ASLEEP = (WorkspaceState.FAILED, WorkspaceState.RESUMING, WorkspaceState.SUSPENDED, WorkspaceState.SUSPENDING)


@dataclass(frozen=True)
class Wish:
    """An order as a person gives it; image by id or name; key = one of their own by name, or public_key = the line itself."""

    name: str
    flavor: str
    image: str
    key: str = ""
    public_key: str = ""
    cloud_init: str = ""
    volume_gib: int = 0


@transaction.atomic
def machine_order(*, actor: Actor, workspace: Workspace, wish: Wish) -> Machine:
    """Refused at once where what was bought is taken, or the site's image or volumes do not allow it; made within seconds.

    Raises Invalid and QuotaRefused beside the field, Conflict for a name that is taken.
    """
    run_require(actor, workspace)
    row = workspace_lock(workspace_id=workspace.pk)
    state_require(row, WorkspaceState.READY)
    sold_require(row)
    order: Order = order_check(actor, row, wish)
    machine = Machine.objects.create(
        workspace=row,
        name=order.name,
        flavor_slug=order.flavor.slug,
        image=order.image["id"],
        image_name=order.image["name"],
        key_name=order.key_name,
        public_key=order.public_key,
        cloud_init=encrypt_json({"text": order.cloud_init}) if order.cloud_init else "",
        volume_gib=order.volume_gib,
        ordered_by=actor.name,
        created_at=clock.now(),
    )
    after = {"name": machine.name, "flavor": machine.flavor_slug, "image": machine.image_name}
    if machine.public_key:
        after["key"] = fingerprint_of(machine.public_key)
    _changed(actor, machine, "machine.order", after)
    return machine


@transaction.atomic
def machine_act(
    *,
    actor: Actor,
    machine: Machine,
    verb: MachineVerb,
    image: str = "",
    expected_version: int | None = None,
) -> Machine:
    """Ask the site for it, one thing at a time. image: of what to rebuild it, "" for what it is made of."""
    workspace = machine.workspace
    run_require(actor, workspace)
    row = workspace_lock(workspace_id=workspace.pk)
    state_require(row, *ENTERED, *(ASLEEP if verb in ALWAYS else ()))
    if verb not in ALWAYS:
        state_require(row, *AWAKE)
    held = _lock(machine, expected_version)
    if held.state not in ALLOWED[verb]:
        label = LIFE.looks[MachineState(held.state)].label.lower()
        raise Conflict(f"a machine that is {label} cannot {words_of(verb)}", detail={"state": held.state})
    if verb is not MachineVerb.DELETE and held.verb:
        raise Conflict(f"one thing at a time: {held.name} is to {words_of(MachineVerb(held.verb))}")
    made_of = rebuild_image_check(row, held, image) if verb is MachineVerb.REBUILD and image else ""
    state = MachineState.DELETING if verb is MachineVerb.DELETE else MachineState.CHANGING
    wish = {
        "verb": verb.value,
        "verb_id": uuid.uuid4(),
        "verb_by": actor.name,
        "verb_at": clock.now(),
        "verb_image": made_of,
        "told_at": None,
        "failure": "",
    }
    machine_move(held, state, actor=actor.name, reason=words_of(verb), **wish)
    held.workspace = row
    _changed(
        actor, held, f"machine.{verb.value}", {"name": held.name, **({"image": made_of} if made_of else {})}
    )
    return held


def machine_delete(*, actor: Actor, machine: Machine, expected_version: int | None = None) -> Machine:
    """Its disk goes with it. Deleting it again changes nothing."""
    if machine.state in {MachineState.DELETING, MachineState.DELETED} and expected_version is None:
        run_require(actor, machine.workspace)
        return machine
    return machine_act(
        actor=actor, machine=machine, verb=MachineVerb.DELETE, expected_version=expected_version
    )


def console_request(*, actor: Actor, machine: Machine) -> Console:
    """A link to its screen, shown once and stored nowhere. Calls the site, so never inside a transaction."""
    workspace = machine.workspace
    run_require(actor, workspace)
    outside_transaction()
    machine.refresh_from_db()
    if machine.state != MachineState.RUNNING or not machine.uid:
        raise Conflict("only a machine that runs has a screen", detail={"state": machine.state})
    driver = driver_of(workspace.site)
    if not isinstance(driver, MachineCapability):
        raise Conflict(f"the site {workspace.site.slug} has no machines")
    try:
        console = driver.console(ref_of(workspace), machine.uid)
    except NotFound as error:
        raise Conflict("the machine is not at the site any more; the page will say so in a moment") from error
    after = {"name": machine.name, "expires_at": console.expires_at.isoformat()}
    audit_record(
        actor=actor, action="machine.console", target=machine, project=workspace.project, after=after
    )
    return console


@transaction.atomic
def machines_refresh(*, actor: Actor, workspace: Workspace) -> None:
    """Look at the site now."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_VIEW)
    sold_require(workspace)
    look_wake(workspace)


@transaction.atomic
def machines_look(*, workspace: Workspace) -> None:
    """A hint from whoever follows the site that something of its machines has changed."""
    look_wake(workspace)


def run_require(actor: Actor, workspace: Workspace) -> None:
    """As at the site: who may edit in the workspace, and admins of the project. An outsider gets NotFound."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    held = actor.on_project(workspace.project_id, workspace.project.organization_id)
    if Permission.PROJECT_MANAGE in held:
        return
    subject = subject_of(actor.user_id) if actor.user_id else ""
    role = next((member.role for member in members_of(workspace) if member.subject == subject), None)
    if role not in {AccessRole.ADMIN, AccessRole.EDIT}:
        who = "your role in this workspace is view" if role else "you are not a member of this workspace"
        raise Forbidden(f"{who}; machines are run by those who may edit in it")


def sold_require(workspace: Workspace) -> None:
    if not machines_sold(site=workspace.site):
        raise Conflict(f"the site {workspace.site.slug} has no machines: workspaces there run pods")


def words_of(verb: MachineVerb) -> str:
    return "be unshelved" if verb is MachineVerb.UNSHELVE else WORDS[verb]


WORDS: dict[MachineVerb, str] = {
    MachineVerb.START: "start",
    MachineVerb.STOP: "stop",
    MachineVerb.RESTART: "restart",
    MachineVerb.REBUILD: "be rebuilt",
    MachineVerb.SHELVE: "be shelved",
    MachineVerb.DELETE: "be deleted",
}


def _lock(machine: Machine, expected_version: int | None) -> Machine:
    look_lock(machine.workspace)
    held = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
    if expected_version is not None and held.version != expected_version:
        raise StaleVersion(
            "the machine has changed meanwhile; look at it again", detail={"version": held.version}
        )
    return held


def _changed(actor: Actor, machine: Machine, action: str, after: dict[str, Any]) -> None:
    workspace = machine.workspace
    audit_record(actor=actor, action=action, target=machine, project=workspace.project, after=after)
    look_wake(workspace)
    machines_announce(workspace)

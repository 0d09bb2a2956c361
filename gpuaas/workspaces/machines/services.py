"""Orders and actions of machines: recorded here, sent to the site by `visit.py`. Only a console link is requested
directly."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, Forbidden, NotFound
from gpuaas.core.rows import version_require
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import Console, MachineCapability, MachineVerb, NoScreens
from gpuaas.workspaces.machines.checks import Order, order_check, rebuild_image_check
from gpuaas.workspaces.machines.keys import fingerprint_of
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.rows import (
    look_lock,
    look_wake,
    machine_move,
    machines_announce,
    screens_refused,
)
from gpuaas.workspaces.machines.selectors import machines_sold
from gpuaas.workspaces.machines.states import ALLOWED, ALWAYS, ENDING, LIFE, MachineState
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_require
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import members_of, ref_of, subject_of
from gpuaas.workspaces.states import AccessRole
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission


@dataclass(frozen=True)
class MachineOrder:
    """An order as a person enters it; image by id or name; key = the name of one of their own, or public_key = the
    line."""

    name: str
    flavor: str
    image: str
    key: str = ""
    public_key: str = ""
    cloud_init: str = ""
    volume_gib: int = 0


@transaction.atomic
def machine_order(*, actor: Actor, workspace: Workspace, order: MachineOrder) -> Machine:
    """Refused at once if all that was bought is in use, or if the site's image or volumes do not allow it; created
    within seconds.

    Raises Invalid and QuotaRefused at the field, Conflict for a name in use.
    """
    run_require(actor, workspace)
    row = workspace_lock(workspace.pk)
    WORKSPACE.require(row, Verb.ORDER)
    sold_require(row)
    checked: Order = order_check(actor, row, order)
    machine = Machine.objects.create(
        workspace=row,
        name=checked.name,
        flavor_slug=checked.flavor.slug,
        image=checked.image["id"],
        image_name=checked.image["name"],
        key_name=checked.key_name,
        public_key=checked.public_key,
        cloud_init=encrypt_json({"text": checked.cloud_init}) if checked.cloud_init else "",
        volume_gib=checked.volume_gib,
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
    """Requests one action at a time. image: for a rebuild, "" for its present image."""
    workspace = machine.workspace
    run_require(actor, workspace)
    row = workspace_lock(workspace.pk)
    WORKSPACE.require(row, Verb.HALT if verb in ALWAYS else Verb.RUN)
    held = _lock(machine, expected_version)
    if held.state not in ALLOWED[verb]:
        label = LIFE.looks[MachineState(held.state)].label.lower()
        raise Conflict(f"a machine that is {label} cannot {words_of(verb)}", detail={"state": held.state})
    if verb is not MachineVerb.DELETE and not held.uid:
        raise Conflict("the site never made it: delete it, and order another one")
    if verb is not MachineVerb.DELETE and held.verb:
        raise Conflict(f"one action at a time: {held.name} is about to {words_of(MachineVerb(held.verb))}")
    made_of = rebuild_image_check(row, held, image) if verb is MachineVerb.REBUILD and image else ""
    state = MachineState.DELETING if verb is MachineVerb.DELETE else MachineState.CHANGING
    pending = {
        "verb": verb.value,
        "verb_id": uuid.uuid4(),
        "verb_by": actor.name,
        "verb_at": clock.now(),
        "verb_image": made_of,
        "told_at": None,
        "failure": "",
    }
    machine_move(held, state, actor=actor.name, reason=words_of(verb), **pending)
    held.workspace = row
    _changed(
        actor, held, f"machine.{verb.value}", {"name": held.name, **({"image": made_of} if made_of else {})}
    )
    return held


@transaction.atomic
def machine_delete(*, actor: Actor, machine: Machine, expected_version: int | None = None) -> Machine:
    """Its disk is deleted with it. Repeating it changes nothing, whatever the version."""
    run_require(actor, machine.workspace)
    workspace_lock(machine.workspace_id)
    if _lock(machine, None).state in ENDING:
        machine.refresh_from_db()
        return machine
    return machine_act(
        actor=actor, machine=machine, verb=MachineVerb.DELETE, expected_version=expected_version
    )


def console_request(*, actor: Actor, machine: Machine) -> Console:
    """A link to its screen, shown once and not stored. Calls the site, so never inside a transaction."""
    workspace = machine.workspace
    run_require(actor, workspace)
    outside_transaction()
    machine.refresh_from_db()
    if machine.state != MachineState.RUNNING or not machine.uid:
        raise Conflict("only a running machine has a screen", detail={"state": machine.state})
    driver = driver_of(workspace.site)
    if not isinstance(driver, MachineCapability):
        raise Conflict(f"the site {workspace.site.slug} does not provide machines")
    try:
        console = driver.console(ref_of(workspace), machine.uid)
    except NoScreens:
        screens_refused(workspace.site_id)
        raise
    except NotFound as error:
        raise Conflict(
            "the machine no longer exists at the site; its page will show that in a moment"
        ) from error
    after = {"name": machine.name, "expires_at": console.expires_at.isoformat()}
    audit_record(
        actor=actor, action="machine.console", target=machine, project=workspace.project, after=after
    )
    return console


@transaction.atomic
def machines_look(*, workspace: Workspace) -> None:
    """Called when the watch of the site sees a change of its machines."""
    look_wake(workspace)


def run_require(actor: Actor, workspace: Workspace, what: str = "run machines") -> None:
    """The same rule as at the site: admins and editors of the workspace, and admins of the project. An outsider gets
    NotFound. what: they can, in words."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_ACCESS)
    held = actor.on_project(workspace.project_id, workspace.project.organization_id)
    if may_run(held, None):
        return
    subject = subject_of(actor.user_id) if actor.user_id else ""
    role = next((member.role for member in members_of(workspace) if member.subject == subject), None)
    if not may_run(held, role):
        who = "your role in this workspace is view" if role else "you are not a member of this workspace"
        raise Forbidden(f"{who}; only admins and editors of the workspace can {what}")


def may_run(held: frozenset[Permission], role: str | None) -> bool:
    """held: on the project; role: in the workspace, None for who is no member of it."""
    runs = Permission.PROJECT_MANAGE in held or role in {AccessRole.ADMIN, AccessRole.EDIT}
    return runs and Permission.WORKSPACE_ACCESS in held


def sold_require(workspace: Workspace) -> None:
    if not machines_sold(site=workspace.site):
        raise Conflict(f"the site {workspace.site.slug} does not provide machines: its workspaces run pods")


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
    version_require(held.version, expected_version, "machine")
    return held


def _changed(actor: Actor, machine: Machine, action: str, after: dict[str, Any]) -> None:
    workspace = machine.workspace
    audit_record(actor=actor, action=action, target=machine, project=workspace.project, after=after)
    look_wake(workspace)
    machines_announce(workspace)

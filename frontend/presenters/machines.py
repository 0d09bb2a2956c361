"""Machines of a workspace as pages show them: live state, what they have, what can be done, and what still fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.urls import reverse

from frontend import formats
from frontend.components import Fact, Notice
from frontend.place import ProjectPlace
from frontend.presenters.pods import SURPLUS, PodRow, gpu_names, held_words
from frontend.presenters.words import MACHINES as WORDS
from gpuaas.core.looks import Tone
from gpuaas.providers.base import Belonging, MachineVerb
from gpuaas.workspaces.machines import selectors
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.states import AWAKE, LIFE, MOVING, MachineState
from gpuaas.workspaces.models import Eviction, Workspace, WorkspaceMember
from gpuaas.workspaces.states import MACHINE, AccessRole, WorkspaceState
from tenants.roles import Permission

ASLEEP = {WorkspaceState.SUSPENDED, WorkspaceState.SUSPENDING}
LOOKS = MACHINE.looks
BEHIND = "created outside the portal"


class Button(NamedTuple):
    """`asks`: what people lose by it, which is asked before."""

    verb: MachineVerb
    label: str
    icon: str
    asks: str = ""


ENDS = "Everything that runs on it ends, and what is only in memory is lost."
SHELVED = "Its disk stays. Its GPUs are released to the site, and unshelving it needs a free host."
BUTTONS = {
    each.verb: each
    for each in (
        Button(MachineVerb.START, "Start", "player-play"),
        Button(MachineVerb.STOP, "Stop", "player-pause", f"{ENDS} Its disk stays, and its GPUs stay held."),
        Button(MachineVerb.RESTART, "Restart", "refresh", f"{ENDS} It starts anew from its disk."),
        Button(MachineVerb.SHELVE, "Shelve", "folder", f"{ENDS} {SHELVED}"),
        Button(MachineVerb.UNSHELVE, "Unshelve", "player-play"),
    )
}
DOING = {
    "start": "Starting",
    "stop": "Stopping",
    "restart": "Restarting",
    "rebuild": "Rebuilding",
    "shelve": "Shelving",
    "unshelve": "Unshelving",
    "delete": "Deleting",
}


@dataclass(frozen=True)
class MachineRow:
    id: str
    name: str
    url: str
    tone: Tone
    word: str
    site_status: str
    flavor: str
    gpus: str
    addresses: tuple[str, ...]
    image: str
    behind: bool
    why: str
    surplus: bool
    age: str
    created_at: datetime


@dataclass(frozen=True)
class RoomRow:
    """What one machine of a flavor gives, and how many fit now."""

    slug: str
    name: str
    gives: str
    bought: int
    held: int
    fits: int
    unallocated: int
    block: int
    full: str


@dataclass(frozen=True)
class MachinesPage:
    rows: tuple[MachineRow, ...]
    rooms: tuple[RoomRow, ...]
    belongings: tuple[Belonging, ...]
    notice: Notice | None
    looked_at: datetime | None
    listed_at: datetime | None  # when the belongings were
    moving: bool
    ending: bool
    may_run: bool
    may_order: bool
    no_order: str

    @property
    def empty_text(self) -> str:
        """The text of the empty list, for readers who cannot order a machine now."""
        if self.may_run:
            return self.no_order
        return "Members with the role Edit or Admin can order machines. Their state shows here, live."


@dataclass(frozen=True)
class MachinePage:
    row: MachineRow
    facts: tuple[Fact, ...]
    buttons: tuple[Button, ...]
    may_rebuild: bool
    may_delete: bool
    may_see: bool
    asleep: str
    ssh: selectors.Ssh | None
    moving: bool
    history: tuple[tuple[datetime, str, str], ...]


def may_run(workspace: Workspace, here: ProjectPlace) -> bool:
    """The rule of the services, used only to show or hide buttons."""
    members: list[WorkspaceMember] = list(workspace.members.all())
    edits = any(
        here.actor.owns(row.user_id) and row.role in {AccessRole.ADMIN, AccessRole.EDIT} for row in members
    )
    return here.can(Permission.WORKSPACE_ACCESS) and (edits or here.can(Permission.PROJECT_MANAGE))


def machines_page(
    workspace: Workspace, look: MachineLook | None, here: ProjectPlace, *, now: datetime
) -> MachinesPage:
    names = gpu_names(workspace)
    found = list(selectors.machines_of(workspace=workspace))
    marks = selectors.surplus_marks(workspace=workspace)
    rooms = selectors.flavors_left(workspace=workspace)
    runs = may_run(workspace, here)
    return MachinesPage(
        rows=tuple(row_of(row, workspace, names, now, marks.get(row.pk)) for row in found),
        rooms=tuple(_room(room) for room in rooms),
        belongings=tuple(selectors.belongings_of(look)),
        notice=_notice(look),
        looked_at=look.observed_at if look is not None else None,
        listed_at=look.slow_at if look is not None else None,
        moving=look is None or look.slow_at is None or any(row.state in MOVING for row in found),
        ending=workspace.state == WorkspaceState.DELETING,
        may_run=runs,
        may_order=runs and workspace.state == WorkspaceState.READY and any(room.fits for room in rooms),
        no_order=_no_order(workspace, rooms),
    )


def machine_pods(workspace: Workspace, *, now: datetime) -> tuple[PodRow, ...]:
    """The machines for the overview, shorter than on their own page."""
    names, marks = gpu_names(workspace), selectors.surplus_marks(workspace=workspace)
    rows = [
        row_of(row, workspace, names, now, marks.get(row.pk))
        for row in selectors.machines_of(workspace=workspace)
    ]
    return tuple(
        PodRow(
            name=row.name,
            owner=BEHIND if row.behind else "",
            tone=Tone(row.tone.value),
            word=row.word,
            waiting=False,
            gpus=row.gpus or "none yet",
            node="",
            age=row.age,
            why=row.why,
            surplus=row.surplus,
            url=row.url,
        )
        for row in rows
    )


def row_of(
    row: Machine, workspace: Workspace, names: dict[str, str], now: datetime, mark: Eviction | None = None
) -> MachineRow:
    look = LIFE.looks[MachineState(row.state)]
    seen = row.observed
    doing = DOING.get(row.verb, "") if row.state in {MachineState.CHANGING, MachineState.DELETING} else ""
    gpus = ", ".join(f"{n} × {names.get(key, key)}" for key, n in (seen.get("gpus") or {}).items() if n)
    over = mark is not None and mark.removed_at is None
    return MachineRow(
        id=str(row.pk),
        name=row.name,
        url=url_of(workspace, "machine", row),
        tone=Tone.BAD if over else look.tone,
        word="Surplus" if over else doing or look.label,
        site_status=str(seen.get("site_status", "")),
        flavor=row.flavor_slug,
        gpus=gpus,
        addresses=tuple(seen.get("addresses") or ()),
        image=str(seen.get("image") or row.image_name),
        behind=row.behind,
        why=mark_words(mark, names) if mark is not None else row.failure,
        surplus=mark is not None,
        age=formats.duration(now - row.created_at),
        created_at=row.created_at,
    )


def machine_page(row: Machine, here: ProjectPlace, look: MachineLook | None, *, now: datetime) -> MachinePage:
    workspace = row.workspace
    runs = may_run(workspace, here)
    verbs = selectors.verbs_now(row) if runs else []
    names, mark = gpu_names(workspace), selectors.surplus_marks(workspace=workspace).get(row.pk)
    shown = row_of(row, workspace, names, now, mark)
    return MachinePage(
        row=shown,
        facts=_facts(row, shown),
        buttons=tuple(BUTTONS[verb] for verb in verbs if verb in BUTTONS),
        may_rebuild=MachineVerb.REBUILD in verbs,
        may_delete=MachineVerb.DELETE in verbs,
        may_see=runs and row.state == MachineState.RUNNING and selectors.screens_offered(look),
        asleep="" if workspace.state in AWAKE or not runs else state_text(workspace),
        ssh=selectors.ssh_of(row, look) if row.state == MachineState.RUNNING else None,
        moving=row.state in MOVING,
        history=_history(row, names, mark),
    )


def mark_words(mark: Eviction, names: dict[str, str]) -> str:
    held = held_words(mark, names.get(mark.resource_name, mark.resource_name))
    if mark.removed_at is None:
        return f"{SURPLUS.format(WORDS.evicted)} With it, {held}."
    return f"{WORDS.evicted.capitalize()} by the portal: with it, {held}. {WORDS.advice}"


def _history(
    row: Machine, names: dict[str, str], mark: Eviction | None
) -> tuple[tuple[datetime, str, str], ...]:
    steps = [
        (step.at, step.actor, _state_text(step.new, step.reason))
        for step in row.transitions.order_by("-pk")[:20]
    ]
    if mark is not None:
        held = held_words(mark, names.get(mark.resource_name, mark.resource_name))
        steps.append((mark.seen_at, "portal", f"Surplus: with it, {held}"))
    return tuple(sorted(steps, key=lambda step: step[0], reverse=True))


def url_of(workspace: Workspace, name: str, machine: Machine | None = None, *more: str) -> str:
    args = [workspace.project.slug, workspace.pk, *([machine.pk] if machine is not None else []), *more]
    return reverse(f"frontend:{name}", args=args)


def gives(room: selectors.FlavorRoom) -> str:
    flavor = room.flavor
    disk = f", {flavor.disk_gib} GiB disk" if flavor.disk_gib else ""
    gpu = flavor.pool.gpu_type.name
    return f"{flavor.gpus} × {gpu}, {flavor.vcpus:,} vCPU, {flavor.memory_gib:,} GiB{disk}"


def _room(room: selectors.FlavorRoom) -> RoomRow:
    pool = room.flavor.pool
    return RoomRow(
        slug=room.flavor.slug,
        name=room.flavor.name,
        gives=gives(room),
        bought=room.bought,
        held=room.held,
        fits=room.fits,
        unallocated=pool.unallocated,
        block=pool.largest_block,
        full=room.full,
    )


def rooms_of(workspace: Workspace) -> tuple[RoomRow, ...]:
    return tuple(_room(room) for room in selectors.flavors_left(workspace=workspace))


def no_order(workspace: Workspace) -> str:
    return _no_order(workspace, selectors.flavors_left(workspace=workspace))


def _no_order(workspace: Workspace, rooms: Sequence[selectors.FlavorRoom]) -> str:
    """Why no machine can be ordered now, and what to do; "" if one can."""
    if workspace.state != WorkspaceState.READY:
        return state_text(workspace)
    if not rooms:
        return "The site has not confirmed a flavor yet; wait until the workspace is ready."
    return "" if any(room.fits for room in rooms) else rooms[0].full


def state_text(workspace: Workspace) -> str:
    """Why no machine can be ordered in a workspace in this state."""
    if workspace.state in ASLEEP:
        return "The workspace is suspended. Resume it to order or start machines."
    label = LOOKS[WorkspaceState(workspace.state)].label.lower()
    return f"The workspace is {label}. Machines can be ordered when it is ready."


def _notice(look: MachineLook | None) -> Notice | None:
    if look is None or not look.failure:
        return None
    return Notice(Tone.WARN, "The site could not be checked", f"{look.failure}. The portal keeps trying.")


def _facts(row: Machine, shown: MachineRow) -> tuple[Fact, ...]:
    seen = row.observed
    volumes = ", ".join(seen.get("volumes") or ()) or (f"{row.volume_gib} GiB" if row.volume_gib else "none")
    pairs = (
        ("Flavor", shown.flavor or "unknown"),
        ("GPUs", shown.gpus or "none yet"),
        ("Addresses", ", ".join(shown.addresses) or "none yet"),
        ("Image", shown.image or "none; created from a volume"),
        ("Key", row.key_name or "none"),
        ("Power", str(seen.get("power") or "unknown")),
        ("Volumes", volumes),
        ("Ordered by", row.ordered_by or BEHIND),
        ("At the site", shown.site_status or "not yet"),
    )
    return tuple(Fact(term, value) for term, value in pairs)


def _state_text(state: str, reason: str) -> str:
    word = LIFE.looks[MachineState(state)].label
    return f"{word}: {reason}" if reason else word

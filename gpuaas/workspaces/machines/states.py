"""States of a machine, how they look, their transitions, and which action is allowed in which state."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import MachineStatus, MachineVerb
from gpuaas.workspaces.states import ALLOWED as WORKSPACE_ALLOWED


class MachineState(models.TextChoices):
    ORDERED = "ordered", "Ordered"
    BUILDING = "building", "Building"
    RUNNING = "running", "Running"
    CHANGING = "changing", "Changing"
    STOPPED = "stopped", "Stopped"
    SHELVED = "shelved", "Shelved"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = MachineState
# what the site may say at any time, since its owner may use other clients than the portal
AT_SITE = frozenset({S.BUILDING, S.RUNNING, S.CHANGING, S.STOPPED, S.SHELVED, S.FAILED})
ENDING = frozenset({S.DELETING, S.DELETED})
LIVE = frozenset(MachineState) - {S.DELETED}
MOVING = frozenset({S.ORDERED, S.BUILDING, S.CHANGING, S.DELETING})

LIFE: Machine[MachineState] = Machine(
    looks={
        S.ORDERED: Look("Ordered", Tone.WAIT, "clock"),
        S.BUILDING: Look("Building", Tone.BUSY, "loader"),
        S.RUNNING: Look("Running", Tone.OK, "check"),
        S.CHANGING: Look("Changing", Tone.BUSY, "loader"),
        S.STOPPED: Look("Stopped", Tone.OFF, "player-pause"),
        S.SHELVED: Look("Shelved", Tone.OFF, "archive"),
        S.FAILED: Look("Failed", Tone.BAD, "alert"),
        S.DELETING: Look("Deleting", Tone.BUSY, "loader"),
        S.DELETED: Look("Deleted", Tone.OFF, "minus"),
    },
    edges={
        # the site has it, or refused it, or nobody wants it any more
        S.ORDERED: AT_SITE | ENDING,
        **{state: (AT_SITE - {state}) | ENDING for state in AT_SITE},
        # the site does not list it any more
        S.DELETING: frozenset({S.DELETED}),
        # the site lists it again: a cloud may keep deleted machines for a while, and their owners restore them
        S.DELETED: AT_SITE | {S.DELETING},
    },
)

STATE_OF: dict[MachineStatus, MachineState] = {
    status: S(status.value) for status in MachineStatus if status is not MachineStatus.DELETING
}

V = MachineVerb
ALLOWED: dict[MachineVerb, frozenset[MachineState]] = {
    V.START: frozenset({S.STOPPED}),
    V.STOP: frozenset({S.RUNNING}),
    V.RESTART: frozenset({S.RUNNING}),
    V.REBUILD: frozenset({S.RUNNING, S.STOPPED, S.FAILED}),
    V.SHELVE: frozenset({S.RUNNING, S.STOPPED}),
    V.UNSHELVE: frozenset({S.SHELVED}),
    V.DELETE: LIVE - {S.DELETING},
}
# what may be done while the workspace sleeps, changes or has failed; all else only while it is awake
ALWAYS = frozenset({V.STOP, V.SHELVE, V.DELETE})
AWAKE = WORKSPACE_ALLOWED[Verb.RUN].states
GOALS: dict[MachineVerb, frozenset[MachineState]] = {
    V.START: frozenset({S.RUNNING}),
    V.STOP: frozenset({S.STOPPED}),
    V.RESTART: frozenset({S.RUNNING}),
    V.REBUILD: frozenset({S.RUNNING, S.STOPPED}),
    V.SHELVE: frozenset({S.SHELVED}),
    V.UNSHELVE: frozenset({S.RUNNING}),
}

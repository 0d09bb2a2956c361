"""The life that every kind has: its states, how one leads to another, and what may be asked in them.

A room adds the changes that are its own, such as a resize; the enumeration stands in its `states.py`, with all of them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb, always, once_ready
from gpuaas.providers.base import Change

StateT = TypeVar("StateT", bound=models.TextChoices)

_LOOKS = {
    "requested": (Tone.WAIT, "clock"),
    "ready": (Tone.OK, "check"),
    "suspended": (Tone.OFF, "player-pause"),
    "failed": (Tone.BAD, "alert"),
    "deleted": (Tone.OFF, "minus"),
}
_CHANGING = {
    "requested": Change.CREATE,
    "provisioning": Change.CREATE,
    "suspending": Change.SUSPEND,
    "resuming": Change.RESUME,
    "deleting": Change.DELETE,
}
_EDGES = {
    # accepted and reserved; the reconciler takes it up, or the tenant changes their mind first
    "requested": ("provisioning", "deleting"),
    # all steps confirmed; given up after the last retry; deleted while it is being made
    "provisioning": ("ready", "failed", "deleting"),
    # put to sleep by hand, by a budget or at the end of the lease; deleted; or a change of the kind's own
    "ready": ("suspending", "deleting"),
    # nothing of it runs and its GPUs are given back; deleted
    "suspending": ("suspended", "deleting"),
    # woken, if its GPUs can be reserved anew; deleted
    "suspended": ("resuming", "deleting"),
    # all that it had is there again; given up; put back to sleep; deleted
    "resuming": ("ready", "failed", "suspending", "deleting"),
    # retried by hand: whichever change failed; put to sleep; or deleted
    "failed": ("provisioning", "resuming", "suspending", "deleting"),
    # the site holds nothing of it any more
    "deleting": ("deleted",),
    "deleted": (),
}
# of a change of the kind's own: confirmed; given up; put to sleep by the portal, which waits for nobody; deleted meanwhile
_OWN_EDGES = ("ready", "failed", "suspending", "deleting")


def life_look(state: models.TextChoices) -> Look:
    """A state other than the stable ones means that a change is running."""
    return Look(str(state.label), *_LOOKS.get(str(state.value), (Tone.BUSY, "loader")))


def life_changing(states: type[StateT], own: Mapping[StateT, Change]) -> dict[StateT, Change]:
    """While which change is under way. `own`: the kind's own changes, by the state in which they are made."""
    return {**{states(state): change for state, change in _CHANGING.items()}, **own}


def life_machine(
    states: type[StateT], own: Iterable[StateT], also: Mapping[StateT, Iterable[StateT]]
) -> Machine[StateT]:
    """`own`: states of the kind's own changes, which begin when it is ready or a change has failed; `also`: edges that
    only this kind has."""
    edges = {states(state): {states(each) for each in nexts} for state, nexts in _EDGES.items()}
    for state in own:
        edges[state] = {states(each) for each in _OWN_EDGES}
        edges[states("ready")].add(state)
        edges[states("failed")].add(state)
    for state, nexts in also.items():
        edges[state].update(nexts)
    return Machine(
        looks={state: life_look(state) for state in states},
        edges={state: frozenset(edges[state]) for state in states},
    )


def life_allowed(states: type[StateT]) -> dict[Verb, Allowed]:
    """What every kind allows in the same states. People keep their access while nothing runs: their data is there."""
    staying = frozenset(states) - {states("deleting"), states("deleted")}
    entered = staying - {states("requested"), states("provisioning"), states("failed")}
    stays = Allowed(staying)
    return {
        Verb.RETRY: Allowed(frozenset(), always),
        Verb.EXTEND: stays,
        Verb.DELETE: stays,
        Verb.MANAGE: stays,
        Verb.ENTER: Allowed(entered, once_ready),
    }

"""What to do next about a workspace: a pure function of what is wanted, what was observed, and the time.

The runner performs the first action, reads everything again and repeats; so a kill, a deletion in between or a
changed request only changes the next answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuaas.lifecycle.actions import Begin, CleanUp, Finish, Rest, Restart
from gpuaas.providers.base import Change, storage_key
from gpuaas.workspaces.states import CHANGING, WorkspaceState

OBSERVE_EVERY = timedelta(seconds=30)  # where nobody follows the site's changes
COMPARE_EVERY = timedelta(hours=1)  # field by field, where somebody does
COMPARE_UNWATCHED = timedelta(minutes=10)
CHANGED = "members or pools have changed"


@dataclass(frozen=True)
class Desired:
    """`pending`: keys of the open operation's unfinished steps, in order. `hard`: what the site must enforce.
    `never_bought`: keys of it whose use is older than the limit; nobody is asked to give that back. `filled`: of these, the
    limits that the last look found full. `last`: that look.

    `digest` names the present spec, `ensured` the one that the site last confirmed completely; during an operation,
    the one from which all its steps worked.

    `watched`: changes at the site are reported at once, so looks are rare. `compare_at`: when the site is compared
    field by field, None = now. `repairs`: drift is repaired, not only reported. `hold_until`: repairs were too
    frequent, so the next one waits. `drifted`: there is an open drift.
    """

    state: WorkspaceState
    pending: tuple[str, ...] = ()
    hard: Mapping[str, int] = field(default_factory=dict)
    never_bought: frozenset[str] = frozenset()
    filled: Mapping[str, int] = field(default_factory=dict)
    last: "Observed | None" = None
    digest: str = ""
    ensured: str = ""
    was_ready: bool = False
    watched: bool = False
    compare_at: datetime | None = None
    repairs: bool = True
    hold_until: datetime | None = None
    hold_limits_until: datetime | None = None
    drifted: bool = False


@dataclass(frozen=True)
class Observed:
    """What this run has observed at the site; `healed` = it was ensured again before that.

    `compared`: field by field; `differs`: the differences in words; `unsafe`: hard limits are among them. `looked`:
    enforced limits and use were read, too.
    """

    exists: bool
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    healed: bool = False
    looked: bool = True
    compared: bool = False
    differs: str = ""
    unsafe: bool = False


@dataclass(frozen=True)
class Step:
    change: Change
    key: str


@dataclass(frozen=True)
class Observe:
    """Observe the site."""


@dataclass(frozen=True)
class Compare:
    """Compare the site field by field with what we set, and find out who changed it."""


@dataclass(frozen=True)
class Wait:
    """The site still counts more than it should hold; `reason` says what has to end."""

    reason: str


@dataclass(frozen=True)
class Heal:
    """Ensure the spec without an operation, after a drift or a change of members.

    safety: only the steps for hard limits; an operator decides about the others, or they are as wanted.
    """

    reason: str
    safety: bool = False


Action = Begin | Step | Observe | Compare | Restart | Wait | Finish | Heal | CleanUp | Rest

S = WorkspaceState


def plan(desired: Desired, observed: Observed | None, now: datetime) -> tuple[Action, ...]:
    """Never empty. Everything after an Observe depends on its result, so an Observe comes last."""
    match desired.state:
        case S.REQUESTED:
            return (Begin(), *_steps(desired), Observe())
        case S.DELETING:
            return (*_steps(desired), Finish(S.DELETED))
        case S.PROVISIONING | S.RESIZING | S.SUSPENDING | S.RESUMING:
            if desired.pending or observed is None:
                return (*_steps(desired), Observe())
            return (_asleep if desired.state == S.SUSPENDING else _closing)(desired, observed)
        case S.DELETED:
            return _after(observed)
        case _:
            return _keeping(desired, observed, now)


def drift(desired: Desired, observed: Observed) -> str:
    """In words, '' if the site has exactly what is wanted."""
    if not observed.exists:
        return "the site has nothing of it"
    for resource, amount in sorted(desired.hard.items()):
        is_closed = resource in desired.never_bought and _follows(desired, observed, resource)
        if observed.hard.get(resource) != amount and not is_closed:
            return (
                f"the site enforces {observed.hard.get(resource, 'no limit')} of {resource}, wanted {amount}"
            )
    return ""


def surplus(desired: Desired, observed: Observed) -> str:
    """In words, '' if nothing is used beyond what is wanted."""
    for resource, amount in sorted(desired.hard.items()):
        if resource not in desired.never_bought and observed.used.get(resource, 0) > amount:
            return f"{observed.used[resource]} of {resource} are in use; only {amount} may be: stop some"
    return ""


def emptied(desired: Desired, observed: Observed) -> str:
    """In words, '' unless there is less in a class than when its limit was set to what there was: its owner deleted some."""
    for key in sorted(filter(_is_storage, desired.hard)):
        if _follows(desired, observed, key) and not _is_full(desired, observed, key):
            return f"{observed.used.get(key, 0)} of {key} are left; its limit is still {observed.hard[key]}"
    return ""


def _steps(desired: Desired) -> Iterator[Step]:
    return (Step(CHANGING[desired.state], key) for key in desired.pending)


def _closing(desired: Desired, observed: Observed) -> tuple[Action, ...]:
    """Members may change during the steps, or while the tenant's pods are waited for: that change is applied at
    once."""
    if desired.digest != desired.ensured and not observed.healed:
        return (Heal(CHANGED), Observe())
    if reason := drift(desired, _full_as_closed(desired, observed)):
        return (Restart(reason),)
    if reason := emptied(desired, observed):
        # every limit was written since the last look: where that found the same, the site does not keep it
        if desired.last is not None and emptied(desired, desired.last) == reason:
            return (Restart(f"{reason}, although the site has taken a lower one"),)
        return (Restart(reason, counts=False),)
    if reason := surplus(desired, observed):
        return (Wait(reason),)
    return (Finish(S.READY),)


def _full_as_closed(desired: Desired, observed: Observed) -> Observed:
    """Some sites accept no storage limit below what is stored. One that follows this is as hard as the wanted one, so
    the surplus is waited for."""
    full = {
        key: amount
        for key, amount in desired.hard.items()
        if _is_storage(key) and _follows(desired, observed, key)
    }
    return replace(observed, hard={**observed.hard, **full})


def _is_storage(key: str) -> bool:
    return key == "storage" or key.startswith(storage_key(""))


def _follows(desired: Desired, observed: Observed, key: str) -> bool:
    """Its limit was set to what was stored in it, and nobody has raised it; all of that may be gone now."""
    wanted, hard, used = desired.hard[key], observed.hard.get(key, 0), observed.used.get(key, 0)
    return used <= hard and (wanted < used or wanted < hard <= desired.filled.get(key, 0))


def _is_full(desired: Desired, observed: Observed, key: str) -> bool:
    return desired.hard[key] < observed.used.get(key, 0) == observed.hard.get(key)


def _asleep(desired: Desired, observed: Observed) -> tuple[Action, ...]:
    """Like a deletion it never gives up: differences are set again and waited for."""
    reason = drift(desired, observed) or emptied(desired, observed)
    if (reason or desired.digest != desired.ensured) and not observed.healed:
        return (Heal(reason or CHANGED), Observe())
    if reason := reason or surplus(desired, observed):
        return (Wait(reason),)
    return (Finish(S.SUSPENDED),)


def _keeping(desired: Desired, observed: Observed | None, now: datetime) -> tuple[Action, ...]:
    """Ready, suspended, or after a failed resize or resumption, whose previous state is maintained. A failed creation
    rests."""
    if desired.state == S.FAILED and not desired.was_ready:
        return (Rest(None),)
    due = desired.compare_at is None or desired.compare_at <= now
    changed = desired.digest != desired.ensured
    if observed is None:
        # what was deleted from a class that was never bought is no difference, which only a look tells
        unseen = due and desired.watched and not changed and not desired.never_bought
        return (Compare(),) if unseen else (Observe(),)
    if changed and not observed.healed:
        return (Heal(CHANGED), Observe())
    reason = observed.differs or (drift(desired, observed) if observed.looked else "")
    less = "" if reason or observed.healed or not observed.exists else emptied(desired, observed)
    if less:
        return (Heal(less, safety=True), Observe())
    if (reason or due or (observed.healed and desired.drifted)) and not observed.compared:
        return (Compare(),)
    if reason and not observed.healed:
        return _mending(desired, observed, reason, now)
    if observed.healed and not observed.looked:
        return (Observe(),)
    return (Rest(_next_look(desired, now)),)


def _mending(desired: Desired, observed: Observed, reason: str, now: datetime) -> tuple[Action, ...]:
    """By the site's policy; limits that differ from the purchase are always repaired."""
    unsafe = observed.unsafe or (observed.exists and observed.looked and bool(drift(desired, observed)))
    hold = desired.hold_limits_until if unsafe else desired.hold_until
    if hold is not None and hold > now:
        return (Rest(hold),)
    if desired.repairs or unsafe:
        return (Heal(reason, safety=not desired.repairs), Observe())
    return (Rest(_next_look(desired, now)),)


def _next_look(desired: Desired, now: datetime) -> datetime:
    look = now + (COMPARE_EVERY if desired.watched else OBSERVE_EVERY)
    compare = desired.compare_at
    return look if compare is None or compare <= now else min(look, compare)


def _after(observed: Observed | None) -> tuple[Action, ...]:
    if observed is None:
        return (Observe(),)
    return (CleanUp(),) if observed.exists else (Rest(None),)

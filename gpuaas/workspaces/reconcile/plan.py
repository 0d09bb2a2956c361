"""What to do next about a workspace: a pure function of what is wanted, what was seen, and the time.

The runner performs the first action, reads everything anew and asks again; so a kill, a deletion in the middle or a
changed wish only changes the next answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuaas.workspaces.states import WorkspaceState

OBSERVE_EVERY = timedelta(seconds=30)  # where nobody follows the site's changes
COMPARE_EVERY = timedelta(hours=1)  # field by field, where somebody does
COMPARE_UNWATCHED = timedelta(minutes=10)
LEFTOVERS_AFTER = timedelta(minutes=5)
CHANGED = "members or pools have changed"


@dataclass(frozen=True)
class Desired:
    """`pending`: keys of the open operation's steps that are not done, in order. `hard`: what the site must enforce.

    `digest` names the present spec, `ensured` the one that the site last confirmed as a whole; while an operation is
    open, the one that all steps of the operation worked from.

    `watched`: who changes something at the site is heard at once, so looks are rare. `compare_at`: when the site is compared field
    by field, None = now. `repairs`: drift is set right, not only told. `hold_until`: it was too often, so it waits. `drifted`: a drift
    is written down and open.
    """

    state: WorkspaceState
    pending: tuple[str, ...] = ()
    hard: Mapping[str, int] = field(default_factory=dict)
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
    """What this run has seen at the site; `healed` = it was ensured anew before it was seen.

    `compared`: field by field; `differs` says in words what; `unsafe`: the hard limits are among it. `looked`: what
    it enforces and uses was asked too.
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
class Begin:
    """Take the request up."""


@dataclass(frozen=True)
class EnsureStep:
    key: str


@dataclass(frozen=True)
class ReleaseStep:
    key: str


@dataclass(frozen=True)
class SuspendStep:
    key: str


@dataclass(frozen=True)
class ResumeStep:
    key: str


@dataclass(frozen=True)
class Observe:
    """Ask the site what it has."""


@dataclass(frozen=True)
class Compare:
    """Ask the site field by field what differs from what we set, and by whom."""


@dataclass(frozen=True)
class Restart:
    """Every step was done, yet the site does not show it: all steps begin anew."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """The site still counts more than it shall hold; `reason` says what has to go."""

    reason: str


@dataclass(frozen=True)
class Finish:
    state: WorkspaceState


@dataclass(frozen=True)
class Heal:
    """Ensure the spec without an operation: something drifted, or who may enter has changed.

    safety: only the steps that keep the hard limits; the rest is for an operator to decide.
    """

    reason: str
    safety: bool = False


@dataclass(frozen=True)
class CleanUp:
    """A deleted workspace has something at the site (a late answer made it): take it away."""


@dataclass(frozen=True)
class Rest:
    """Nothing to do until then; None = nothing ever."""

    until: datetime | None


StepAction = EnsureStep | ReleaseStep | SuspendStep | ResumeStep
Action = Begin | StepAction | Observe | Compare | Restart | Wait | Finish | Heal | CleanUp | Rest

S = WorkspaceState


def plan(desired: Desired, observed: Observed | None, now: datetime) -> tuple[Action, ...]:
    """Never empty. Everything after an Observe depends on what it will find, so an Observe comes last."""
    match desired.state:
        case S.REQUESTED:
            return (Begin(), *_steps(desired, EnsureStep))
        case S.PROVISIONING | S.RESIZING:
            return (
                _steps(desired, EnsureStep)
                if desired.pending or observed is None
                else _closing(desired, observed)
            )
        case S.SUSPENDING:
            return (
                _steps(desired, SuspendStep)
                if desired.pending or observed is None
                else _asleep(desired, observed)
            )
        case S.RESUMING:
            return (
                _steps(desired, ResumeStep)
                if desired.pending or observed is None
                else _closing(desired, observed)
            )
        case S.DELETING:
            return (*(ReleaseStep(key) for key in desired.pending), Finish(S.DELETED))
        case S.DELETED:
            return _after(observed)
        case _:
            return _keeping(desired, observed, now)


def drift(desired: Desired, observed: Observed) -> str:
    """In words, '' where the site has exactly what is wanted."""
    if not observed.exists:
        return "nothing of it is at the site"
    for resource, amount in sorted(desired.hard.items()):
        if observed.hard.get(resource) != amount:
            return (
                f"the site enforces {observed.hard.get(resource, 'no limit')} of {resource}, wanted {amount}"
            )
    return ""


def surplus(desired: Desired, observed: Observed) -> str:
    """In words, '' where nothing is used beyond what is wanted."""
    for resource, amount in sorted(desired.hard.items()):
        if observed.used.get(resource, 0) > amount:
            return f"{observed.used[resource]} of {resource} are in use; {amount} may stay: stop what is too much"
    return ""


def _steps(desired: Desired, step: Callable[[str], StepAction]) -> tuple[Action, ...]:
    return (*(step(key) for key in desired.pending), Observe())


def _closing(desired: Desired, observed: Observed) -> tuple[Action, ...]:
    """Who may enter may change while the steps are done or the tenant's pods are waited for: that waits for nothing."""
    if desired.digest != desired.ensured and not observed.healed:
        return (Heal(CHANGED), Observe())
    if reason := drift(desired, _full_as_closed(desired, observed)):
        return (Restart(reason),)
    if reason := surplus(desired, observed):
        return (Wait(reason),)
    return (Finish(S.READY),)


def _full_as_closed(desired: Desired, observed: Observed) -> Observed:
    """Some sites take no limit on storage below what is stored. One that is full is as hard as the wanted one: what is too much
    is waited for."""
    wanted, stored = desired.hard.get("storage", 0), observed.used.get("storage", 0)
    if stored > wanted and observed.hard.get("storage") == stored:
        return replace(observed, hard={**observed.hard, "storage": wanted})
    return observed


def _asleep(desired: Desired, observed: Observed) -> tuple[Action, ...]:
    """Like a deletion it never gives up: what differs is set anew and waited for."""
    reason = drift(desired, observed)
    if (reason or desired.digest != desired.ensured) and not observed.healed:
        return (Heal(reason or CHANGED), Observe())
    if reason := reason or surplus(desired, observed):
        return (Wait(reason),)
    return (Finish(S.SUSPENDED),)


def _keeping(desired: Desired, observed: Observed | None, now: datetime) -> tuple[Action, ...]:
    """Ready, suspended, or a failed resize or resumption, which is kept as it was. A creation that failed rests."""
    if desired.state == S.FAILED and not desired.was_ready:
        return (Rest(None),)
    due = desired.compare_at is None or desired.compare_at <= now
    changed = desired.digest != desired.ensured
    if observed is None:
        return (Compare(),) if due and desired.watched and not changed else (Observe(),)
    if changed and not observed.healed:
        return (Heal(CHANGED), Observe())
    reason = observed.differs or (drift(desired, observed) if observed.looked else "")
    if (reason or due or (observed.healed and desired.drifted)) and not observed.compared:
        return (Compare(),)
    if reason and not observed.healed:
        return _mending(desired, observed, reason, now)
    if observed.healed and not observed.looked:
        return (Observe(),)
    return (Rest(_next_look(desired, now)),)


def _mending(desired: Desired, observed: Observed, reason: str, now: datetime) -> tuple[Action, ...]:
    """By the site's policy; limits that are not what was bought are always set right."""
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

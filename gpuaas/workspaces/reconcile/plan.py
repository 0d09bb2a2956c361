"""What to do next about a workspace: a pure function of what is wanted, what was seen, and the time.

The runner performs the first action, reads everything anew and asks again; so a kill, a deletion in the middle or a
changed wish only changes the next answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpuaas.workspaces.states import WorkspaceState

OBSERVE_EVERY = timedelta(seconds=30)
LEFTOVERS_AFTER = timedelta(minutes=5)
CHANGED = "members or pools have changed"


@dataclass(frozen=True)
class Desired:
    """`pending`: keys of the open operation's steps that are not done, in order. `hard`: what the site must enforce.

    `digest` names the present spec, `ensured` the one that the site last confirmed as a whole; while an operation is
    open, the one that all steps of the operation worked from.
    """

    state: WorkspaceState
    pending: tuple[str, ...] = ()
    hard: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    ensured: str = ""
    was_ready: bool = False


@dataclass(frozen=True)
class Observed:
    """What this run has seen at the site; `healed` = it was ensured anew before it was seen."""

    exists: bool
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    healed: bool = False


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
    """Ensure the whole spec without an operation: something drifted, or who may enter has changed."""

    reason: str


@dataclass(frozen=True)
class CleanUp:
    """A deleted workspace has something at the site (a late answer made it): take it away."""


@dataclass(frozen=True)
class Rest:
    """Nothing to do until then; None = nothing ever."""

    until: datetime | None


StepAction = EnsureStep | ReleaseStep | SuspendStep | ResumeStep
Action = Begin | StepAction | Observe | Restart | Wait | Finish | Heal | CleanUp | Rest

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
    if reason := drift(desired, observed):
        return (Restart(reason),)
    if reason := surplus(desired, observed):
        return (Wait(reason),)
    return (Finish(S.READY),)


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
    if observed is None:
        return (Observe(),)
    reason = drift(desired, observed)
    if not reason and desired.digest != desired.ensured:
        reason = CHANGED
    if reason and not observed.healed:
        return (Heal(reason), Observe())
    return (Rest(now + OBSERVE_EVERY),)


def _after(observed: Observed | None) -> tuple[Action, ...]:
    if observed is None:
        return (Observe(),)
    return (CleanUp(),) if observed.exists else (Rest(None),)

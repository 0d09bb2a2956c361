"""When an environment was last used, and what follows from it: advice, notice, and a stop after the hours without use.

Use is somebody at the door, also by a connection that stays open; what its own API tells (`activity.py`); requests that its server
counts (`tokens.py`); and its GPUs. What is not known is never taken for idleness. The site is asked first; then everything is read
again under the lock on the row, so that a use until then wins.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from gpuaas.core import claims, clock
from gpuaas.core.claims import ClaimLost, claimed
from gpuaas.core.conditions import Status
from gpuaas.core.errors import GpuaasError
from gpuaas.core.rows import one_or_none
from gpuaas.environments.activity import Told, told_by
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment, EnvironmentCounter, EnvironmentUse
from gpuaas.environments.selectors import hours_of, hours_words
from gpuaas.environments.services.changes import environment_stop
from gpuaas.environments.services.idle import USE
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.spec import FOR_SPEC
from gpuaas.environments.states import EnvironmentState
from gpuaas.lifecycle.kind import ConditionChange
from gpuaas.lifecycle.visits import REACHABLE
from tenants.actors import SYSTEM

LOOK: Final = timedelta(minutes=5)
LATELY: Final = timedelta(minutes=2)  # the door writes once a minute
ADVICE: Final = timedelta(hours=24)  # at the latest
NOTICE: Final = timedelta(hours=1)  # at the longest
TIME: Final = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True)
class GpuUse:
    """busy_at: when one of its GPUs was last seen at work. known_from: since then it is known what they do. unknown: why that
    is not known now, "" = it is. unseen: the site tells nothing of any GPU."""

    busy_at: datetime | None = None
    known_from: datetime | None = None
    unknown: str = ""
    unseen: bool = False


# from a room above that knows: by environment, the moment before which nothing is asked, and the moment of now
GPUS: list[Callable[[Environment, datetime, datetime], GpuUse]] = []


@dataclass(frozen=True)
class Seen:
    """The columns of EnvironmentUse. using: what uses it at this moment, in words; "" = nothing."""

    used_at: datetime
    since: datetime
    using: str = ""
    unknown: str = ""


@dataclass(frozen=True)
class Outlook:
    """What to tell, when it is stopped unless it is used, and whether that is now."""

    condition: ConditionChange
    stop_at: datetime | None = None
    stop: bool = False


def outlook(
    seen: Seen, *, hours: int | None, kept_until: datetime | None, announced: datetime | None, now: datetime
) -> Outlook:
    """announced: the stop_at that was told before. Nothing is stopped that was not told a while before, however long the portal
    stood still. Pure."""
    if seen.using:
        return Outlook(_told(Status.TRUE, "Used", seen.using))
    if seen.unknown:
        words = f"whether it is used is not known, so it is not stopped for that: {seen.unknown}"
        return Outlook(_told(Status.UNKNOWN, "NotKnown", words))
    allowed = timedelta(hours=hours) if hours else None
    if now - seen.since < (min(ADVICE, allowed / 2) if allowed else ADVICE):
        return Outlook(_told(Status.TRUE, "Used", "it was used lately"))
    nothing = f"nothing has used it since {seen.since:{TIME}}"
    if allowed is None:
        return Outlook(_told(Status.FALSE, "Unused", nothing, "Stop it if nobody needs it; its home stays."))
    due, lead = max(seen.since + allowed, kept_until or seen.since), min(NOTICE, allowed / 4)
    if now < due - lead:
        words = f"{nothing}; if that stays so, it is stopped on {due:{TIME}}"
        return Outlook(_told(Status.FALSE, "Unused", words, "Stop it if nobody needs it; its home stays."))
    stop_at = announced if announced is not None and announced >= due else max(due, now + lead)
    words = f"{nothing}; it is stopped on {stop_at:{TIME}} unless it is used before"
    told = _told(Status.FALSE, "StopsSoon", words, "Use it, or keep it running for longer.")
    return Outlook(told, stop_at, stop=announced == stop_at and now >= stop_at)


def _told(status: Status, reason: str, message: str, remedy: str = "") -> ConditionChange:
    return {"type": USE, "status": status, "reason": reason, "message": message, "remedy": remedy}


# -- the round -----------------------------------------------------------------------------------------------------


def uses_begin() -> int:
    """For environments that are ready and of whose use nothing is kept, as those of an earlier release: from now on."""
    moment = clock.now()
    ready = Environment.objects.filter(state=EnvironmentState.READY).order_by()
    missing = ready.filter(Q(use=None) | Q(use__due_at=None, use__claim_until=None)).values_list(
        "pk", flat=True
    )
    rows = [EnvironmentUse(pk=pk, used_at=moment, since=moment, due_at=moment) for pk in missing]
    fields = ["due_at"]
    EnvironmentUse.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["environment"], update_fields=fields
    )
    return len(rows)


def use_look(environment_id: uuid.UUID) -> bool:
    """Asks, writes what is known, tells, and stops what is due. Safe at any time, in any number of processes."""
    return claimed(EnvironmentUse, environment_id, _look, only_due=True)


def _look(use: EnvironmentUse) -> bool:
    row = Environment.objects.select_related(*FOR_SPEC).get(pk=use.pk)
    if row.state != EnvironmentState.READY:
        return claims.rest(use)
    try:
        told, unknown = told_by(row), ""
    except GpuaasError as error:
        told, unknown = Told(), error.message
    return _conclude(use, told, unknown)


@transaction.atomic
def _conclude(use: EnvironmentUse, told: Told, unknown: str) -> bool:
    """The row is locked first, so that whoever uses it or starts it anew has written that, or finds it stopped."""
    row = ENVIRONMENT.lock(use.pk)
    if row.state != EnvironmentState.READY:
        return claims.rest(use)
    now, kept = clock.now(), EnvironmentUse.objects.get(pk=use.pk)
    seen = _seen(row, kept, told, unknown, now)
    hours = hours_of(row)
    found = outlook(seen, hours=hours, kept_until=row.kept_until, announced=kept.stop_at, now=now)
    ENVIRONMENT.tell(row, found.condition)
    if found.stop and hours:
        reason = f"nothing had used it since {seen.since:{TIME}}, which is {hours_words(hours)} or more"
        environment_stop(actor=SYSTEM, environment=row, reason=reason)
    again = now + LOOK * random.uniform(0.8, 1.0)  # noqa: S311  spreads load, hides nothing
    written = claims.release(
        use,
        due_at=None if found.stop else min(again, found.stop_at or again),
        attempts=0,
        used_at=seen.used_at,
        since=seen.since,
        unknown=seen.unknown[:300],
        stop_at=None if found.stop else found.stop_at,
        stopped_at=now if found.stop else None,
    )
    if not written:
        raise ClaimLost("another process is looking at it")
    return True


def _seen(row: Environment, kept: EnvironmentUse, told: Told, unknown: str, now: datetime) -> Seen:
    gpus = _gpus(row, kept.since, now) if row.has_gpus else GpuUse()
    counter = one_or_none(EnvironmentCounter.objects.filter(pk=row.pk)) or EnvironmentCounter()
    if gpus.unseen and _is_counted(counter, now):
        gpus = GpuUse()
    used = [at for at in (row.last_used_at, told.at, counter.moved_at, gpus.busy_at) if at is not None]
    # the clock of a pod may be ahead
    used_at = min(max([kept.used_at, *used]), now)
    since = min(max(filter(None, (kept.since, used_at, gpus.known_from))), now)
    using = told.using
    if row.last_used_at is not None and now - row.last_used_at < LATELY:
        using = "somebody is in by the door"
    elif counter.moved_at is not None and now - counter.moved_at < LATELY:
        using = using or "it answers requests"
    elif gpus.busy_at is not None and now - gpus.busy_at < LATELY:
        using = using or "its GPUs are at work"
    if using:
        return Seen(now, now, using)
    return Seen(used_at, since, unknown=unknown or gpus.unknown or _unseen(row))


def _gpus(row: Environment, since: datetime, now: datetime) -> GpuUse:
    nothing = GpuUse(unknown="nothing tells what its GPUs do", unseen=True)
    return GPUS[0](row, since, now) if GPUS else nothing


def _is_counted(counter: EnvironmentCounter, now: datetime) -> bool:
    """Whether its server tells of every request, so that without one it is idle whatever its GPUs do."""
    return counter.read_at is not None and now - counter.read_at < LOOK and not counter.failure


def _unseen(row: Environment) -> str:
    if row.conditions.get(REACHABLE, {}).get("status") == Status.FALSE:
        return "its site does not answer"
    definition = definition_read(row.made_of.document)
    is_seen = settings.DOOR_SSH if definition.port is None else settings.DOOR_DOMAIN
    if definition.activity == "connections" and not is_seen:
        return "people reach it by kubectl alone, which the portal does not see"
    return ""

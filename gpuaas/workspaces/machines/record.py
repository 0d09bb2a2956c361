"""Writes what a visit did and saw, each in one transaction that is valid only while the claim is ours."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from gpuaas.core import claims, clock
from gpuaas.core.claims import ClaimLost
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Belongings, MachineImage, MachineStatus, MachineVerb, ObservedMachine
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.rows import look_lock, machine_end, machine_move, machines_announce
from gpuaas.workspaces.machines.states import GOALS, LIVE, STATE_OF, MachineState
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM

S = MachineState
BY_SITE = "site"
FASTER = "another order was faster: it is created again"
BACK = "it was deleted, and the site lists it again"
NO_WISH: dict[str, Any] = {"verb": "", "verb_id": None, "verb_image": "", "told_at": None}
KEPT_APART = frozenset({"uid", "order", "name", "lost"})


@contextmanager
def guarded(look: MachineLook) -> Iterator[None]:
    with transaction.atomic():
        held = MachineLook.objects.select_for_update().filter(pk=look.pk, claim_token=look.claim_token)
        if not held.exists():
            raise ClaimLost("another process is working on these machines")
        yield


def launched(look: MachineLook, machine: Machine, seen: ObservedMachine) -> None:
    """The site has taken the order. Actions requested in the meantime stay."""
    with guarded(look):
        row = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
        state = row.state if row.state == S.DELETING else STATE_OF.get(seen.status, S.BUILDING)
        changes = {"uid": seen.uid, "observed": facts_of(seen), **_forgotten(seen)}
        machine_move(row, S(state), actor=SYSTEM.name, reason="the site has it", **changes)
        machines_announce(look.workspace)


def action_sent(look: MachineLook, machine: Machine) -> None:
    with guarded(look):
        rows = Machine.objects.filter(pk=machine.pk, verb_id=machine.verb_id)
        rows.update(told_at=clock.now())


def refused(look: MachineLook, machine: Machine, error: GpuaasError) -> None:
    """A failed order becomes a failed machine; a failed action is dropped, and the next observation shows the state."""
    with guarded(look):
        row = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
        failure = error.message[:500]
        if row.verb_id != machine.verb_id or row.state == S.DELETED:
            return  # somebody wished otherwise meanwhile
        if row.state == S.DELETING:
            return  # deleting never gives up
        state = S(row.state) if row.uid else S.FAILED
        machine_move(row, state, actor=BY_SITE, reason=failure, failure=failure, cloud_init="", **NO_WISH)
        machines_announce(look.workspace)


def observed(look: MachineLook, workspace: Workspace, seen: Sequence[ObservedMachine]) -> None:
    """All machines of the workspace at once: new ones, changed ones, those that are gone, and those that were and are back."""
    moment = clock.now()
    known = Q(state__in=list(LIVE)) | Q(uid__in=[each.uid for each in seen])
    with guarded(look):
        rows = list(Machine.objects.select_for_update(no_key=True).filter(known, workspace=workspace))
        by_uid = {row.uid: row for row in rows if row.uid}
        waiting = {row.pk: row for row in rows if not row.uid}
        news = False
        for each in seen:
            row = by_uid.pop(each.uid, None) or (waiting.pop(each.order, None) if each.order else None)
            news = (_found(row, each) if row is not None else _appeared(workspace, each)) or news
        for row in by_uid.values():
            reason = "" if row.state == S.DELETING else "deleted with another client"
            machine_end(row, actor=BY_SITE, reason=reason, at=moment)
        ended = [row for row in waiting.values() if row.state == S.DELETING]
        for row in ended:
            machine_end(row, actor=SYSTEM.name, reason="it was never created", at=moment)
        MachineLook.objects.filter(pk=look.pk).update(observed_at=moment)
        if news or by_uid or ended:
            machines_announce(workspace)


def slow(look: MachineLook, workspace: Workspace, images: Sequence[MachineImage], has: Belongings) -> None:
    changes: dict[str, Any] = {
        "images": [asdict(image) for image in images],
        "belongings": [asdict(item) for item in has.items],
        "volumes_sold": has.volumes_sold,
    }
    with guarded(look):
        news = any(getattr(look, name) != value for name, value in changes.items()) or look.slow_at is None
        MachineLook.objects.filter(pk=look.pk).update(slow_at=clock.now(), **changes)
        if news:
            machines_announce(workspace)


def left(look: MachineLook, workspace: Workspace, trouble: GpuaasError | None, *, due_at: datetime) -> None:
    """Gives the claim back; records why the site could not be asked, or clears that."""
    failure = trouble.message[:500] if trouble is not None else ""
    attempts = look.attempts + 1 if trouble is not None else 0
    with transaction.atomic():
        if (
            claims.release(look, due_at=due_at, attempts=attempts, failure=failure)
            and failure != look.failure
        ):
            machines_announce(workspace)


def closed(look: MachineLook, workspace: Workspace) -> None:
    """The workspace is gone, and every machine with it."""
    moment = clock.now()
    with transaction.atomic():
        look_lock(workspace)
        for row in Machine.objects.select_for_update().filter(workspace=workspace, state__in=list(LIVE)):
            machine_end(row, actor=SYSTEM.name, reason="the workspace was deleted", at=moment)
        if claims.release(look, due_at=None, attempts=0, belongings=[], images=[], failure=""):
            machines_announce(workspace)


# -- one machine -----------------------------------------------------------------------------------------------------


def facts_of(seen: ObservedMachine) -> dict[str, Any]:
    """JSON of what is shown; the order of things is the site's."""
    facts = {key: value for key, value in asdict(seen).items() if key not in KEPT_APART}
    return {key: _plain(value) for key, value in facts.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _appeared(workspace: Workspace, seen: ObservedMachine) -> bool:
    """Created with another client; or ours, if the order was cancelled before the answer arrived: then it is deleted
    again."""
    orphan = seen.order is not None and _given_up(workspace, seen.order)
    state = S.DELETING if orphan or seen.status is MachineStatus.DELETING else STATE_OF[seen.status]
    pending = (
        {"verb": MachineVerb.DELETE.value, "verb_id": uuid.uuid4(), "verb_at": clock.now()} if orphan else {}
    )
    Machine.objects.create(
        workspace=workspace,
        name=seen.name[:255],
        state=state,
        uid=seen.uid,
        flavor_slug=seen.flavor[:255],
        image_name=seen.image[:255],
        key_name=seen.key[:255],
        behind=not orphan,
        created_at=seen.created_at,
        observed=facts_of(seen),
        failure=seen.fault[:500],
        **pending,
    )
    return True


def _given_up(workspace: Workspace, order: uuid.UUID) -> bool:
    rows = Machine.objects.filter(workspace=workspace, pk=order, state=S.DELETED, uid="")
    return bool(rows.exists())


def _found(row: Machine, seen: ObservedMachine) -> bool:
    """True if something changed."""
    if seen.lost and row.state in {S.ORDERED, S.BUILDING}:
        return _lost(row)
    facts = facts_of(seen)
    changes: dict[str, Any] = {}
    if row.observed != facts:
        changes["observed"] = facts
    if row.uid != seen.uid:
        changes["uid"] = seen.uid
    if row.cloud_init:
        changes |= _forgotten(seen)
    if row.name != seen.name[:255]:
        changes["name"] = seen.name[:255]
    state, more = _follows(row, seen)
    changes |= {key: value for key, value in more.items() if getattr(row, key) != value}
    if not changes and state == row.state:
        return False
    reason = str(changes.get("failure", ""))
    if row.state == S.DELETED:
        reason, changes["deleted_at"] = reason or BACK, None
    machine_move(row, state, actor=BY_SITE, reason=reason, **changes)
    return True


def _lost(row: Machine) -> bool:
    """It goes on building without a machine at the site, until the next visit replaces it."""
    if row.state == S.BUILDING and not row.uid:
        return False
    machine_move(row, S.BUILDING, actor=BY_SITE, reason=FASTER, uid="", failure=FASTER)
    return True


def _forgotten(seen: ObservedMachine) -> dict[str, str]:
    """Secrets of the order, once no machine can be needed in the place of this one: while it is built, it may yet find no host."""
    return {} if seen.status is MachineStatus.BUILDING else {"cloud_init": ""}


def _follows(row: Machine, seen: ObservedMachine) -> tuple[MachineState, dict[str, Any]]:
    """The state for what the site reports, and the result of the pending action."""
    if row.state == S.DELETING or seen.status is MachineStatus.DELETING:
        stuck = seen.status is MachineStatus.FAILED and row.told_at is not None
        return S.DELETING, {"told_at": None} if stuck else {}
    state = STATE_OF[seen.status]
    if state == S.FAILED:
        failure = seen.fault[:500] or row.failure
    else:
        is_over = row.state == S.FAILED or (row.failure == FASTER and state != S.BUILDING)
        failure = "" if is_over else row.failure
    if not row.verb:
        return state, {"failure": failure}
    if row.told_at is None or state in {S.CHANGING, S.BUILDING}:
        return S.CHANGING, {}
    if state not in GOALS[MachineVerb(row.verb)] and state != S.FAILED:
        failure = f"the site did not {row.verb} it: it reports {seen.site_status}"
    return state, {"failure": failure, **NO_WISH}

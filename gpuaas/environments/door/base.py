"""What the door asks the database: who is let in, what starts by a key, who is in, and what is ready."""

import contextlib
import uuid
from collections.abc import Collection, Iterator

from django.db.models import Q

from gpuaas.core.connections import in_thread
from gpuaas.core.request import RequestInfo, current_request
from gpuaas.environments.door.pages import Asleep
from gpuaas.environments.door.passes import (
    Admission,
    Shown,
    Verdict,
    admissions,
    admissions_by_key,
    admissions_by_ssh,
    key_use,
    keys_good,
    keys_note,
    ssh_note,
    ticket_use,
    use_note,
)
from gpuaas.environments.door.waking import woken
from gpuaas.environments.models import DoorKey, DoorPass, Environment
from gpuaas.environments.states import EnvironmentState


@contextlib.contextmanager
def asked_by(client: str | None) -> Iterator[None]:
    """For the audit log."""
    token = current_request.set(RequestInfo(ip=client))
    try:
        yield
    finally:
        current_request.reset(token)


async def exchange(label: str, ticket: str, browser: str, client: str | None) -> str | None:
    with asked_by(client):
        return await in_thread(ticket_use, label=label, ticket=ticket, browser=browser)


async def pass_by_key(label: str, key: str, client: str | None) -> str | None:
    with asked_by(client):
        return await in_thread(key_use, label=label, key=key)


async def wake(found: Admission, client: str | None) -> Asleep:
    with asked_by(client):
        return await in_thread(woken, found)


async def good_keys() -> Collection[tuple[str, str]]:
    return await in_thread(keys_good)


async def shown(shown: Collection[Shown]) -> dict[Shown, Admission]:
    return await in_thread(admissions_by_ssh, shown)


async def came(found: Admission, client: str | None) -> None:
    with asked_by(client):
        await in_thread(ssh_note, found)


def entered(label: str, secret: str, *, by_key: bool) -> Admission | None:
    """The pass or the key, and that it was used, before anything goes on to the pod."""
    if by_key:
        rows = admissions_by_key(DoorKey.objects.filter(secret_hash=secret, environment__label=label))
    else:
        rows = admissions(DoorPass.objects.filter(cookie=secret, environment__label=label))
    found = next(iter(rows), None)
    if found is not None and found.verdict is Verdict.ADMITTED:
        use_note([found.environment_id])
        if by_key:
            keys_note([secret])
    return found


def noted(environments: list[uuid.UUID], secrets: list[str]) -> None:
    use_note(environments)
    keys_note(secrets)


def round_of(inside: list[str]) -> tuple[dict[str, uuid.UUID], dict[str, uuid.UUID], list[Admission]]:
    """What is ready, by label, and what of it has a port; and what the passes of those inside are worth."""
    rows = Environment.objects.filter(state=EnvironmentState.READY, label__isnull=False).order_by()
    found = list(
        rows.annotate(answers=Q(made_of__document__has_key="port")).values_list("label", "pk", "answers")
    )
    ready = {label or "": pk for label, pk, _ in found}
    answering = {label or "": pk for label, pk, answers in found if answers}
    if not inside:
        return ready, answering, []
    of_keys = admissions_by_key(DoorKey.objects.filter(secret_hash__in=inside))
    return ready, answering, [*admissions(DoorPass.objects.filter(cookie__in=inside)), *of_keys]

"""Who may come in: tickets that the portal writes, passes for which they are exchanged once, and whether a pass still admits.

A pass ends with the portal's session in which it was given, and admits as long as its person may use the environment.
"""

import hashlib
import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from gpuaas.core import clock
from gpuaas.environments.models import DoorPass, Environment
from gpuaas.environments.services.rows import ENVIRONMENT, permit
from gpuaas.environments.states import LIVE
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.machines.services import may_run
from gpuaas.workspaces.models import WorkspaceMember
from gpuaas.workspaces.spec import is_asleep
from tenants.actors import Actor
from tenants.models import User
from tenants.selectors import actor_for

TICKET_LASTS = timedelta(seconds=30)
USED_AGAIN = timedelta(minutes=1)


class Verdict(Enum):
    """ENDED: signed out, or never in. OUTSIDER: for whom there is nothing. ASLEEP: it does not run."""

    ADMITTED = auto()
    ENDED = auto()
    OUTSIDER = auto()
    ASLEEP = auto()


@dataclass(frozen=True)
class Admission:
    pk: int
    label: str
    environment_id: uuid.UUID
    verdict: Verdict
    user: str


def hashed(secret: str) -> str:
    """Of random secrets alone: it has no salt and is quick."""
    return hashlib.sha256(secret.encode()).hexdigest()


def ticket_write(
    *, actor: Actor, user: User, environment: Environment, session_key: str, browser: str
) -> str:
    """For whoever may use the environment; it opens it once, within seconds, in the browser that asked for it. Raises Conflict
    unless it is ready."""
    permit(actor, environment)
    ENVIRONMENT.require(environment, Verb.RUN)
    use_note([environment.pk])
    ticket = secrets.token_urlsafe(32)
    DoorPass.objects.create(
        environment=environment,
        user=user,
        session_key=session_key,
        proof=user.get_session_auth_hash(),
        browser=browser,
        ticket=hashed(ticket),
        created_at=clock.now(),
    )
    return ticket


def ticket_use(*, label: str, ticket: str, browser: str) -> str | None:
    """The cookie; None where the ticket is used, too old, or for another host or browser. One statement: of two who show the
    same ticket one gets in."""
    cookie = secrets.token_urlsafe(32)
    fresh = DoorPass.objects.filter(
        ticket=hashed(ticket),
        browser=hashed(browser),
        environment__in=Environment.objects.filter(label=label, state__in=list(LIVE)),
        created_at__gt=clock.now() - TICKET_LASTS,
    )
    return cookie if fresh.update(ticket=None, cookie=hashed(cookie)) else None


def admissions(passes: QuerySet[DoorPass]) -> list[Admission]:
    """What each pass is worth now; 3 queries, however many there are."""
    session = Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=clock.now())
    member = WorkspaceMember.objects.filter(
        workspace=OuterRef("environment__workspace"), user=OuterRef("user")
    )
    rows = passes.select_related("user", "environment__workspace__project").annotate(
        signed_in=Exists(session), role=Subquery(member.values("role"))
    )
    rows = rows.prefetch_related("user__organization_memberships", "user__project_memberships")
    return [
        Admission(row.pk, row.environment.label or "", row.environment_id, _verdict(row), row.user.username)
        for row in rows
    ]


def _verdict(row: Any) -> Verdict:
    """Of a row as `admissions` reads it."""
    user, environment = row.user, row.environment
    if not (row.signed_in and user.is_active and row.proof == user.get_session_auth_hash()):
        return Verdict.ENDED
    workspace = environment.workspace
    held = actor_for(user=user).on_project(workspace.project_id, workspace.project.organization_id)
    if not may_run(held, row.role):
        return Verdict.OUTSIDER
    if is_asleep(workspace) or not ENVIRONMENT.may(environment, Verb.RUN):
        return Verdict.ASLEEP
    return Verdict.ADMITTED


def use_note(environments: Iterable[uuid.UUID]) -> None:
    """That somebody is in, or about to be; at most one write a minute."""
    moment = clock.now()
    rows = Environment.objects.filter(pk__in=environments)
    rows.filter(Q(last_used_at=None) | Q(last_used_at__lt=moment - USED_AGAIN)).update(last_used_at=moment)


def passes_forget() -> int:
    """Deletes those whose session is over, and tickets that nobody used."""
    over = ~Exists(Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=clock.now()))
    unused = Q(cookie=None, created_at__lt=clock.now() - TICKET_LASTS)
    return DoorPass.objects.filter(over | unused).delete()[0]

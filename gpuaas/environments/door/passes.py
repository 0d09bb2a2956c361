"""Who may come in: tickets that the portal writes, passes for which they are exchanged once, keys, and what each is worth now.

A pass ends with the portal's session in which it was given, or with its key, and admits as long as its person may open the
environment.
"""

import secrets
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from gpuaas.core import clock
from gpuaas.environments.models import DoorKey, DoorPass, Environment
from gpuaas.environments.selectors import of_organization
from gpuaas.environments.services.access import hashed, open_require
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.states import LIVE, Access
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.machines.services import may_run
from gpuaas.workspaces.models import WorkspaceMember
from gpuaas.workspaces.spec import is_asleep
from tenants.actors import Actor
from tenants.models import User
from tenants.selectors import actor_for

TICKET_LASTS = timedelta(seconds=30)
USED_AGAIN = timedelta(minutes=1)
# of a pass that was given for a key, as of a session of the portal
KEY_PASS_LASTS = timedelta(hours=12)
# a program that shows its key with every request opens it anew after it
OPENED_AGAIN = timedelta(hours=1)


class Verdict(Enum):
    """ENDED: signed out, or never in. OUTSIDER: for whom there is nothing. ASLEEP: it does not run."""

    ADMITTED = auto()
    ENDED = auto()
    OUTSIDER = auto()
    ASLEEP = auto()


@dataclass(frozen=True)
class Admission:
    """secret: the hash of what was shown, a cookie or a key. user: "" by a key, whose name is in `key`."""

    secret: str
    label: str
    environment_id: uuid.UUID
    verdict: Verdict
    user: str = ""
    key: str = ""


def ticket_write(
    *, actor: Actor, user: User, environment: Environment, session_key: str, browser: str
) -> str:
    """For whoever may open the environment; it opens it once, within seconds, in the browser that asked for it. Raises Conflict
    unless it is ready."""
    open_require(actor, environment)
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


@transaction.atomic
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
    if not fresh.update(ticket=None, cookie=hashed(cookie)):
        return None
    row = DoorPass.objects.select_related("user", "environment__project").get(cookie=hashed(cookie))
    if row.user is not None:
        _opened(row.environment, Actor(user_id=row.user.pk, name=row.user.username))
    return cookie


@transaction.atomic
def key_use(*, label: str, key: str) -> str | None:
    """The cookie of a pass for it; None where the key does not open that host."""
    found = DoorKey.objects.filter(_valid(), secret_hash=hashed(key), environment__label=label)
    row = found.select_related("environment__project").first()
    if row is None:
        return None
    cookie, moment = secrets.token_urlsafe(32), clock.now()
    row.passes.create(environment=row.environment, cookie=hashed(cookie), created_at=moment)
    DoorKey.objects.filter(pk=row.pk).update(last_used_at=moment)
    _opened(row.environment, _holder(row.prefix))
    return cookie


def admissions(passes: QuerySet[DoorPass]) -> list[Admission]:
    """What each pass is worth now; 3 queries, however many there are."""
    session = Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=clock.now())
    member = WorkspaceMember.objects.filter(
        workspace=OuterRef("environment__workspace"), user=OuterRef("user")
    )
    rows = passes.select_related("user", "key", "environment__workspace__project").annotate(
        signed_in=Exists(session),
        role=Subquery(member.values("role")),
        belongs=of_organization(OuterRef("user"), OuterRef("environment__project__organization")),
    )
    rows = rows.prefetch_related("user__organization_memberships", "user__project_memberships")
    moment = clock.now()
    return [
        Admission(
            row.cookie or "",
            row.environment.label or "",
            row.environment_id,
            _verdict(row, moment),
            row.user.username if row.user else "",
            row.key.name if row.key else "",
        )
        for row in rows
    ]


def admissions_by_key(keys: QuerySet[DoorKey]) -> list[Admission]:
    """What each key is worth now; 1 query, however many there are."""
    return [
        Admission(
            row.secret_hash,
            row.environment.label or "",
            row.environment_id,
            _of_key(row, row.environment),
            key=row.name,
        )
        for row in keys.select_related("environment__workspace__project")
    ]


def _verdict(row: Any, moment: datetime) -> Verdict:
    """Of a row as `admissions` reads it."""
    user, environment = row.user, row.environment
    if row.key is not None:
        return _of_key(row.key, environment) if row.created_at > moment - KEY_PASS_LASTS else Verdict.ENDED
    if not (row.signed_in and user.is_active and row.proof == user.get_session_auth_hash()):
        return Verdict.ENDED
    project = environment.workspace.project
    runs = may_run(actor_for(user=user).on_project(project.pk, project.organization_id), row.role)
    if environment.access == Access.PRIVATE:
        runs = runs and environment.created_by_id == user.pk
    if not runs and not (environment.access == Access.ORGANIZATION and row.belongs):
        return Verdict.OUTSIDER
    return _awake(environment)


def _of_key(key: DoorKey, environment: Environment) -> Verdict:
    if key.revoked_at is not None or environment.access != Access.PUBLIC:
        return Verdict.ENDED
    return _awake(environment)


def _awake(environment: Environment) -> Verdict:
    runs = ENVIRONMENT.may(environment, Verb.RUN) and not is_asleep(environment.workspace)
    return Verdict.ADMITTED if runs else Verdict.ASLEEP


def _valid() -> Q:
    """Of keys: those that open something now, or will once it runs."""
    return Q(revoked_at=None, environment__access=Access.PUBLIC, environment__state__in=list(LIVE))


def _holder(prefix: str) -> Actor:
    """Nobody in particular, who has a key."""
    return Actor(user_id=None, name="holder of a key", token_prefix=prefix)


def _opened(environment: Environment, actor: Actor) -> None:
    ENVIRONMENT.audit(environment, actor, "open")


def use_note(environments: Iterable[uuid.UUID]) -> None:
    """That somebody is in, or about to be; at most one write a minute."""
    moment = clock.now()
    rows = Environment.objects.filter(pk__in=environments)
    rows.filter(Q(last_used_at=None) | Q(last_used_at__lt=moment - USED_AGAIN)).update(last_used_at=moment)


@transaction.atomic
def key_note(secret: str) -> None:
    """That a program shows its key; at most one write a minute, and an entry of the audit log where it comes anew."""
    moment = clock.now()
    rows = DoorKey.objects.filter(secret_hash=secret)
    rows = rows.filter(Q(last_used_at=None) | Q(last_used_at__lt=moment - USED_AGAIN))
    row = rows.select_for_update(of=("self",)).select_related("environment__project").first()
    if row is None:
        return
    if row.last_used_at is None or row.last_used_at < moment - OPENED_AGAIN:
        _opened(row.environment, _holder(row.prefix))
    row.last_used_at = moment
    row.save(update_fields=["last_used_at"])


def passes_forget() -> int:
    """Deletes those whose session or key is over, and tickets that nobody used."""
    moment = clock.now()
    over = Q(~Exists(Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=moment)), key=None)
    ended = Q(key__revoked_at__isnull=False) | Q(key__isnull=False, created_at__lte=moment - KEY_PASS_LASTS)
    unused = Q(cookie=None, created_at__lt=moment - TICKET_LASTS)
    return DoorPass.objects.filter(over | ended | unused).delete()[0]

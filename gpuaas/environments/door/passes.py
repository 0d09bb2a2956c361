"""Who may come in: tickets that the portal writes, passes for which they are exchanged once, keys, and what each is worth now.

A pass ends with the portal's session in which it was given, or with its key, and admits as long as its person may open the
environment.
"""

import secrets
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from gpuaas.core import clock
from gpuaas.core.rows import one_or_none
from gpuaas.environments.models import DoorKey, DoorPass, Environment
from gpuaas.environments.selectors import of_organization
from gpuaas.environments.services.access import hashed, open_require
from gpuaas.environments.services.rows import ENVIRONMENT, HOLDER
from gpuaas.environments.states import LIVE, Access
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.machines.models import PublicKey
from gpuaas.workspaces.machines.services import may_run
from gpuaas.workspaces.models import WorkspaceMember
from gpuaas.workspaces.spec import is_asleep
from tenants.actors import Actor
from tenants.models import User
from tenants.selectors import actors_for

TICKET_LASTS = timedelta(seconds=30)
USED_AGAIN = timedelta(minutes=1)
# of a pass that was given for a key, as of a session of the portal
KEY_PASS_LASTS = timedelta(hours=12)
# of one person at one environment, and by one key: each is looked at every moment, so that whoever came in without end would put off
# that others are cut
OF_PERSON_MOST, BY_KEY_MOST = 20, 500
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
    """secret: the hash of what was shown, a cookie or a key; by SSH the key's fingerprint. user: "" by a key of the environment,
    whose name is in `key`. user_id: by SSH alone."""

    secret: str
    label: str
    environment_id: uuid.UUID
    verdict: Verdict
    user: str = ""
    key: str = ""
    user_id: uuid.UUID | None = None
    key_id: uuid.UUID | None = None

    @property
    def is_good(self) -> bool:
        """Whether it admits, or its key does once the environment runs."""
        return self.verdict is Verdict.ADMITTED or (self.verdict is Verdict.ASLEEP and bool(self.key))


@dataclass(frozen=True)
class Shown:
    """To the door by SSH: the label of an environment as the name of the account, and a public key."""

    label: str
    fingerprint: str


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
        _oldest_end(DoorPass.objects.filter(environment=row.environment, user=row.user), OF_PERSON_MOST)
        _opened(row.environment, Actor(user_id=row.user.pk, name=row.user.username))
    return cookie


@transaction.atomic
def key_use(*, label: str, key: str) -> str | None:
    """The cookie of a pass for it; None where the key does not open that host."""
    found = DoorKey.objects.filter(_valid(), secret_hash=hashed(key), environment__label=label)
    row = one_or_none(found.select_related("environment__project"))
    if row is None:
        return None
    cookie, moment = secrets.token_urlsafe(32), clock.now()
    row.passes.create(environment=row.environment, cookie=hashed(cookie), created_at=moment)
    ended = _oldest_end(row.passes.all(), BY_KEY_MOST)
    DoorKey.objects.filter(pk=row.pk).update(last_used_at=moment)
    if not ended:  # what is told stays for ever, so that nobody without an account may fill it
        _opened(row.environment, holder_of(row.prefix))
    return cookie


def _oldest_end(passes: QuerySet[DoorPass], most: int) -> int:
    """Those that are more, and how many these were; tickets stay, which are none yet."""
    newest = passes.exclude(cookie=None).order_by("-pk")
    return passes.filter(pk__in=newest.values("pk")[most:]).delete()[0]


def admissions(passes: QuerySet[DoorPass]) -> list[Admission]:
    """What each pass is worth now; 2 queries, however many there are."""
    session = Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=clock.now())
    member = WorkspaceMember.objects.filter(
        workspace=OuterRef("environment__workspace"), user=OuterRef("user")
    )
    rows = passes.select_related("user", "key", "environment__workspace__project").annotate(
        signed_in=Exists(session),
        role=Subquery(member.values("role")),
        belongs=of_organization(OuterRef("user"), OuterRef("environment__project__organization")),
    )
    moment, actors = clock.now(), actors_for(users={row.user for row in rows if row.user is not None})
    return [
        Admission(
            row.cookie or "",
            row.environment.label or "",
            row.environment_id,
            _verdict(row, moment, actors),
            row.user.username if row.user else "",
            row.key.name if row.key else "",
            key_id=row.key_id,
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
            key_id=row.pk,
        )
        for row in keys.select_related("environment__workspace__project")
    ]


def admissions_by_ssh(shown: Collection[Shown]) -> dict[Shown, Admission]:
    """What each public key is worth now at a label; 4 queries, however many there are. Of several people
    with one key it is the first by name who may run things there. Guests of an environment have no shell in it. What is missing
    in the answer admits nobody."""
    keys = PublicKey.objects.filter(
        fingerprint__in={each.fingerprint for each in shown}, user__is_active=True
    )
    people: dict[str, list[User]] = defaultdict(list)
    for key in keys.select_related("user").order_by("user__username"):
        people[key.fingerprint].append(key.user)
    rows = Environment.objects.filter(label__in={each.label for each in shown}, state__in=list(LIVE))
    found = {row.label: row for row in rows.select_related("workspace__project")}
    members = WorkspaceMember.objects.filter(workspace__in={row.workspace_id for row in found.values()})
    actors = actors_for(users={user for users in people.values() for user in users})
    roles = {
        (workspace, user): role
        for workspace, user, role in members.filter(user__in=actors).values_list("workspace", "user", "role")
    }
    admitted = {}
    for each in shown:
        row = found.get(each.label)
        for user in people[each.fingerprint] if row is not None else ():
            if row is not None and _runs(actors[user.pk], row, roles.get((row.workspace_id, user.pk))):
                admitted[each] = Admission(
                    each.fingerprint, each.label, row.pk, _awake(row), user.username, user_id=user.pk
                )
                break
    return admitted


def ssh_note(found: Admission) -> None:
    """That somebody came in by SSH."""
    row = Environment.objects.select_related("project").get(pk=found.environment_id)
    use_note([row.pk])
    _opened(row, Actor(user_id=found.user_id, name=found.user))


def _verdict(row: Any, moment: datetime, actors: Mapping[uuid.UUID, Actor]) -> Verdict:
    """Of a row as `admissions` reads it."""
    user, environment = row.user, row.environment
    if row.key is not None:
        return _of_key(row.key, environment) if row.created_at > moment - KEY_PASS_LASTS else Verdict.ENDED
    if not (row.signed_in and user.is_active and row.proof == user.get_session_auth_hash()):
        return Verdict.ENDED
    is_guest = environment.access == Access.ORGANIZATION and row.belongs
    may = is_guest or _runs(actors[user.pk], environment, row.role)
    return _awake(environment) if may else Verdict.OUTSIDER


def _runs(actor: Actor, environment: Environment, role: str | None) -> bool:
    """Whether they may run things in its workspace, and it is not private to somebody else."""
    project = environment.workspace.project
    if environment.access == Access.PRIVATE and not actor.owns(environment.created_by_id):
        return False
    return may_run(actor.on_project(project.pk, project.organization_id), role)


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


def keys_good() -> frozenset[tuple[str, str]]:
    """The label and the hash of each key that opens something, or will once it runs; 1 query."""
    rows = DoorKey.objects.filter(_valid()).order_by().values_list("environment__label", "secret_hash")
    return frozenset((label or "", secret) for label, secret in rows)


def holder_of(prefix: str) -> Actor:
    """Nobody in particular, who has a key."""
    return Actor(user_id=None, name=HOLDER, token_prefix=prefix)


def _opened(environment: Environment, actor: Actor) -> None:
    ENVIRONMENT.audit(environment, actor, "open")


def use_note(environments: Iterable[uuid.UUID]) -> None:
    """That somebody is in, or about to be; at most one write a minute."""
    moment = clock.now()
    rows = Environment.objects.filter(pk__in=environments)
    rows.filter(Q(last_used_at=None) | Q(last_used_at__lt=moment - USED_AGAIN)).update(last_used_at=moment)


@transaction.atomic
def keys_note(secrets: Collection[str]) -> None:
    """That programs show their keys; at most one write a minute, and an entry of the audit log where one comes anew."""
    moment = clock.now()
    rows = DoorKey.objects.filter(secret_hash__in=secrets)
    rows = rows.filter(Q(last_used_at=None) | Q(last_used_at__lt=moment - USED_AGAIN)).order_by("pk")
    found = list(rows.select_for_update(of=("self",)).select_related("environment__project"))
    for row in found:
        if row.last_used_at is None or row.last_used_at < moment - OPENED_AGAIN:
            _opened(row.environment, holder_of(row.prefix))
    if found:
        DoorKey.objects.filter(pk__in=[row.pk for row in found]).update(last_used_at=moment)


def passes_forget() -> int:
    """Deletes those whose session or key is over, and tickets that nobody used."""
    moment = clock.now()
    over = Q(~Exists(Session.objects.filter(pk=OuterRef("session_key"), expire_date__gt=moment)), key=None)
    ended = Q(key__revoked_at__isnull=False) | Q(key__isnull=False, created_at__lte=moment - KEY_PASS_LASTS)
    unused = Q(cookie=None, created_at__lt=moment - TICKET_LASTS)
    return DoorPass.objects.filter(over | ended | unused).delete()[0]

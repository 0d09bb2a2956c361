"""Tries of passwords and codes, counted before they are judged, so that many at once are no more than one after the other.

A try counts for its account at its address. From where the account has not signed in before, it counts for the account and
for the address, too. The account is the same whether its name or its e-mail address was typed, and a name without an account
is counted alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from allauth.mfa.models import Authenticator
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Greatest
from django.utils.crypto import salted_hmac

from gpuaas.core import clock
from gpuaas.core.errors import TooManyTries
from gpuaas.core.request import current_request
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Tries, User
from tenants.roles import Permission
from tenants.selectors import platform_require

log = structlog.get_logger(__name__)
KNOWN_FOR = timedelta(days=90)  # after the last sign-in from there


@dataclass(frozen=True)
class Limit:
    """How many may be wrong before the first minute of waiting, which doubles each time, and when they are forgotten."""

    free: int
    longest: timedelta
    forgotten: timedelta

    def wait(self, failures: int) -> timedelta | None:
        if failures < self.free:
            return None
        return min(timedelta(minutes=2 ** min(failures - self.free, 10)), self.longest)


PAIR = Limit(free=5, longest=timedelta(hours=1), forgotten=timedelta(days=1))
ACCOUNT = Limit(free=20, longest=timedelta(minutes=15), forgotten=timedelta(days=1))
ADDRESS = Limit(free=100, longest=timedelta(minutes=15), forgotten=timedelta(hours=1))
Key = tuple[str, str]


@dataclass(frozen=True)
class Taken:
    """A try that is being judged."""

    keys: tuple[Key, ...]
    at: datetime


@transaction.atomic
def try_take(*, login: str = "", user: User | None = None) -> Taken:
    """Counts a try for the account that was named or typed. Raises TooManyTries, and counts nothing, where it has to wait."""
    now, network = clock.now(), current_request.get().network
    accounts = {str(user.pk): user} if user else _accounts(login)
    limits = _limits(accounts, network, now)
    fresh = [
        Tries(account=account, network=place, user=accounts.get(account)) for account, place in sorted(limits)
    ]
    Tries.objects.bulk_create(fresh, ignore_conflicts=True)
    rows = list(_rows(limits).select_for_update().order_by("account", "network"))
    waits = [row.until for row in rows if row.until is not None and row.until > now]
    if waits:
        raise TooManyTries(max(waits), now=now)
    for row in rows:
        limit = limits[row.account, row.network]
        stale = row.failed_at is None or row.failed_at + limit.forgotten < now
        row.failures = 1 if stale else row.failures + 1
        wait = limit.wait(row.failures)
        row.failed_at, row.until = now, now + wait if wait else None
    Tries.objects.bulk_update(rows, ["failures", "failed_at", "until"])
    return Taken(tuple(limits), now)


@transaction.atomic
def try_return(taken: Taken) -> None:
    """It was right. What was wrong before stays counted: who knows a password may still guess at the second factor."""
    rows = _rows(taken.keys)
    list(rows.select_for_update().order_by("account", "network"))
    until = Case(When(failed_at=taken.at, then=None), default=F("until"))
    rows.update(failures=Greatest(F("failures") - 1, 0), until=until)


def signed_in(user: User) -> None:
    """All the way in: the account is known at this address from now on, and nothing is held against it here."""
    values = {"user": user, "failures": 0, "until": None, "signed_in_at": clock.now()}
    Tries.objects.update_or_create(
        account=str(user.pk), network=current_request.get().network, defaults=values
    )


def password_reset(user: User) -> None:
    """By a mailed link: nobody who guessed the old one has to be waited for. Where there is a second factor it is none of that:
    each link would give whoever reads the mails another five codes."""
    if Authenticator.objects.filter(user=user).exists():
        return
    _forgiven(user)
    signed_in(user)


@transaction.atomic
def tries_lift(*, actor: Actor, tries: Tries) -> None:
    """Ends a wait: of an address, or all of a person."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    lifted = _forgiven(tries.user) if tries.user else _forgive(Tries.objects.filter(pk=tries.pk))
    if lifted:
        audit_record(actor=actor, action="tries.lift", target=tries.user or tries)


def tries_forget() -> int:
    """Deletes what no longer counts; made-up names leave nothing behind."""
    now = clock.now()
    known = Q(signed_in_at__gte=now - KNOWN_FOR)
    counted = Q(failed_at__gte=now - max(limit.forgotten for limit in (PAIR, ACCOUNT, ADDRESS)))
    return Tries.objects.exclude(known).exclude(counted).delete()[0]


def _accounts(login: str) -> Mapping[str, User | None]:
    """More than one where the name of one is the address of another."""
    found = User.objects.filter(Q(username__iexact=login) | Q(email__iexact=login))
    return {str(row.pk): row for row in found} or {_digest(login): None}


def _digest(login: str) -> str:
    """Of what was typed, which may be a password in the wrong field."""
    return salted_hmac("tenants.tries", login.casefold(), algorithm="sha256").hexdigest()


def _limits(accounts: Mapping[str, User | None], network: str, now: datetime) -> dict[Key, Limit]:
    known = set(
        Tries.objects.filter(
            account__in=accounts, network=network, signed_in_at__gte=now - KNOWN_FOR
        ).values_list("account", flat=True)
    )
    strange = accounts.keys() - known
    limits: dict[Key, Limit] = {(account, network): PAIR for account in accounts}
    limits |= {(account, ""): ACCOUNT for account in strange}
    return limits | ({("", network): ADDRESS} if strange else {})


def _rows(keys: Mapping[Key, Limit] | tuple[Key, ...]) -> QuerySet[Tries]:
    chosen = Q(pk__in=[])
    for account, network in keys:
        chosen |= Q(account=account, network=network)
    return Tries.objects.filter(chosen)


def _forgiven(user: User) -> int:
    return _forgive(Tries.objects.filter(account=str(user.pk)))


@transaction.atomic
def _forgive(rows: QuerySet[Tries]) -> int:
    """How many had something held against them."""
    held = rows.filter(failures__gt=0)
    return held.filter(
        pk__in=list(held.select_for_update().order_by("account", "network").values_list("pk", flat=True))
    ).update(failures=0, until=None)

"""What tenants decide about environments that nobody uses: after how many hours one is stopped, and that it runs on for now."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment, EnvironmentUse
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import conditions_write
from tenants.actors import Actor

USE = "InUse"  # the condition
KEPT_MOST = timedelta(days=7)


@transaction.atomic
def environment_idle_set(
    *, actor: Actor, environment: Environment, idle_hours: int | None, expected_version: int | None = None
) -> Environment:
    """Hours without use after which it is stopped; None = as the kind says. Raises Invalid at `idle_hours` for more than the
    kind allows."""
    row = ENVIRONMENT.asked(actor, environment, Verb.MANAGE, expected_version)
    definition_read(row.made_of.document).idle_hours_require(idle_hours)
    if row.idle_hours == idle_hours:
        return row
    return _change(actor, row, "idle", idle_hours=idle_hours)


@transaction.atomic
def environment_keep(
    *, actor: Actor, environment: Environment, until: datetime, expected_version: int | None = None
) -> Environment:
    """It is not stopped for want of use before then, at most a week from now. Raises Conflict unless it is ready."""
    row = ENVIRONMENT.asked(actor, environment, Verb.RUN, expected_version)
    if type(until) is not datetime or until.tzinfo is None or not until > clock.now():
        raise Invalid.field("until", "choose a date and time in the future")
    if until > clock.now() + KEPT_MOST:
        raise Invalid.field("until", f"choose a time within {KEPT_MOST.days} days from now")
    return _change(actor, row, "keep", kept_until=until)


def _change(actor: Actor, row: Environment, verb: str, **changes: Any) -> Environment:
    """What was announced is taken back: the round, which looks at once, tells it anew."""
    before = {name: getattr(row, name) for name in changes}
    for name, value in changes.items():
        setattr(row, name, value)
    row.version += 1
    row.save(update_fields=[*changes, "version"])
    conditions_write(row, drop=(USE,))
    EnvironmentUse.objects.filter(pk=row.pk).update(stop_at=None)
    EnvironmentUse.objects.filter(pk=row.pk, due_at__isnull=False).update(due_at=clock.now())
    told = [{name: _plain(value) for name, value in each.items()} for each in (before, changes)]
    ENVIRONMENT.audit(row, actor, verb, before=told[0], after=told[1])
    ENVIRONMENT.announce(row)
    return row


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value

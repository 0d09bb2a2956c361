"""Who may open an environment by the door: its policy, and the keys of one that is public."""

import hashlib
import re
import secrets
import string
from typing import Any, Final

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import DoorKey, Environment
from gpuaas.environments.selectors import is_of_organization
from gpuaas.environments.services.idle import environment_idle_set
from gpuaas.environments.services.rows import ENVIRONMENT, permit
from gpuaas.environments.states import Access
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.services.request import requester_of
from tenants.actors import Actor

# of 62 letters and digits, 256 bits
ALPHABET, LENGTH = string.ascii_letters + string.digits, 43
KEY_FORM: Final = re.compile(rf"gpk_[0-9a-f]{{12}}_[A-Za-z0-9]{{{LENGTH}}}")
KEYS_MOST = 50


def hashed(secret: str) -> str:
    """Of random secrets alone: it has no salt and is quick."""
    return hashlib.sha256(secret.encode()).hexdigest()


def open_require(actor: Actor, row: Environment) -> None:
    """By its policy, for a person. An outsider gets NotFound."""
    if row.access == Access.ORGANIZATION and is_of_organization(actor, row):
        return
    shell_require(actor, row)


def shell_require(actor: Actor, row: Environment) -> None:
    """For who may enter it, as by SSH: guests of the organization may not. An outsider gets NotFound."""
    permit(actor, row)
    _own_require(actor, row)


def is_guest(actor: Actor, row: Environment) -> bool:
    """Who may open it, and may not start it."""
    try:
        permit(actor, row)
    except (Forbidden, NotFound):
        return True
    return False


@transaction.atomic
def environment_change(
    *, actor: Actor, environment: Environment, expected_version: int | None = None, **changes: Any
) -> Environment:
    """idle_hours, access, or both. Raises Invalid at the field."""
    row, version = environment, expected_version
    if "idle_hours" in changes:
        hours = changes["idle_hours"]
        row = environment_idle_set(actor=actor, environment=row, idle_hours=hours, expected_version=version)
        version = None
    if "access" in changes:
        row = environment_access_set(
            actor=actor, environment=row, access=changes["access"], expected_version=version
        )
    return row


@transaction.atomic
def environment_access_set(
    *, actor: Actor, environment: Environment, access: str, expected_version: int | None = None
) -> Environment:
    """The door cuts off within seconds whom it no longer admits. Keys end for good where it is no longer public. Raises Invalid
    at `access` for what the kind does not allow, and Forbidden for somebody else's private one."""
    row = ENVIRONMENT.asked(actor, environment, Verb.MANAGE, expected_version)
    _own_require(actor, row)
    chosen, before = definition_read(row.made_of.document).access_require(access), row.access
    if before == chosen:
        return row
    row.access, row.version = chosen, row.version + 1
    row.save(update_fields=["access", "version"])
    ended = row.keys.filter(revoked_at=None).update(revoked_at=clock.now()) if chosen != Access.PUBLIC else 0
    after = {"access": chosen.value} | ({"keys_revoked": ended} if ended else {})
    ENVIRONMENT.audit(row, actor, "access", before={"access": before}, after=after)
    ENVIRONMENT.announce(row)
    return row


@transaction.atomic
def key_create(*, actor: Actor, environment: Environment, name: str) -> tuple[DoorKey, str]:
    """Returns the row and the key itself, which is not stored. Raises Invalid at `name`, and Conflict unless the environment is
    public with a key."""
    row = ENVIRONMENT.asked(actor, environment, Verb.MANAGE)
    if row.access != Access.PUBLIC:
        raise Conflict("it has keys while it is public with a key: choose that first")
    if row.keys.filter(revoked_at=None).count() >= KEYS_MOST:
        raise Conflict(f"it has {KEYS_MOST} keys, which is the most: revoke one first")
    cut = name.strip()
    if not 1 <= len(cut) <= 100 or not cut.isprintable():
        raise Invalid.field("name", "give it a name of 1 to 100 characters to recognize it by")
    prefix = secrets.token_hex(6)
    raw = f"gpk_{prefix}_{''.join(secrets.choice(ALPHABET) for _ in range(LENGTH))}"
    key = row.keys.create(
        name=cut,
        prefix=prefix,
        secret_hash=hashed(raw),
        created_by=requester_of(actor),
        created_at=clock.now(),
    )
    ENVIRONMENT.audit(row, actor, "key_create", after={"name": cut, "prefix": prefix})
    ENVIRONMENT.announce(row)
    return key, raw


@transaction.atomic
def key_revoke(*, actor: Actor, key: DoorKey) -> None:
    """Everybody who is in by it is cut off within seconds. Revoking twice changes nothing."""
    row = key.environment
    permit(actor, row)
    if DoorKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=clock.now()):
        ENVIRONMENT.audit(row, actor, "key_revoke", before={"name": key.name, "prefix": key.prefix})
        ENVIRONMENT.announce(row)
    key.refresh_from_db()


def _own_require(actor: Actor, row: Environment) -> None:
    if row.access == Access.PRIVATE and not actor.owns(row.created_by_id):
        raise Forbidden(f"it is private: only {row.created_by.username} can open it and choose who else may")

"""Public keys of people: validated, stored, and given to the machines that they launch."""

import base64
import hashlib
import uuid

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import transaction
from django.db.models import QuerySet

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.core.rows import first_of, one_or_none
from gpuaas.workspaces.machines.models import PublicKey
from gpuaas.workspaces.services.validation import NAME
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User
from tenants.roles import Permission
from tenants.selectors import personal_require

KEYS_MAX = 50
LENGTH_MAX = 16_384
RSA_BITS_MIN = 2048
KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


def keys_for(*, actor: Actor) -> QuerySet[PublicKey]:
    """The actor's own, by name; a token's are those of its creator, and it needs workspace:access."""
    personal_require(actor=actor, permission=Permission.WORKSPACE_ACCESS)
    return PublicKey.objects.filter(user=actor.user_id).order_by("name")


def key_get_for(*, actor: Actor, name: str) -> PublicKey:
    return first_of(keys_for(actor=actor).filter(name=name), "key")


@transaction.atomic
def keypair_add(*, actor: Actor, name: str, public_key: str) -> PublicKey:
    """By a signed-in person for themselves. Only the public key: a private one is refused before it is parsed."""
    user = _person(actor)
    if type(name) is not str or not NAME.match(name):
        message = "use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit"
        raise Invalid.field("name", message)
    text = public_key_check(public_key)
    own = PublicKey.objects.filter(user=user)
    if own.filter(name=name).exists():
        raise Conflict(f"you already have a key called {name}", detail={"field": "name"})
    if known := one_or_none(own.filter(fingerprint=fingerprint_of(text))):
        raise Conflict(
            f"you already have this key under the name {known.name}", detail={"field": "public_key"}
        )
    if own.count() >= KEYS_MAX:
        raise Conflict(f"you have {KEYS_MAX} keys already; remove one first", detail={"field": "name"})
    made = PublicKey.objects.create(
        user=user, name=name, public_key=text, fingerprint=fingerprint_of(text), created_at=clock.now()
    )
    audit_record(actor=actor, action="key.add", target=made, after={"fingerprint": made.fingerprint})
    return made


def own_key_get(*, actor: Actor, name: str) -> PublicKey:
    """For a signed-in person: removing keys would tell a token which ones exist."""
    _person_require(actor)
    return key_get_for(actor=actor, name=name)


@transaction.atomic
def keypair_remove(*, actor: Actor, key: PublicKey) -> None:
    """Machines that were launched with it keep it. Repeating it changes nothing."""
    _person(actor)
    if not actor.owns(key.user_id):
        raise NotFound("there is no such key")
    if PublicKey.objects.filter(pk=key.pk).delete()[0]:
        audit_record(actor=actor, action="key.remove", target=key, before={"fingerprint": key.fingerprint})


def _person_require(actor: Actor) -> uuid.UUID:
    if actor.user_id is None or actor.is_token:
        raise Forbidden("only signed-in people can change their keys; a token cannot")
    return actor.user_id


def _person(actor: Actor) -> User:
    """Locks their row, so that two additions at the same time run one after the other."""
    return User.objects.select_for_update().get(pk=_person_require(actor))


def public_key_check(text: object, field: str = "public_key") -> str:
    """One line in OpenSSH's format, without what surrounds it. Raises Invalid on `field`."""
    given = text.strip() if type(text) is str else ""
    if "PRIVATE KEY" in given:
        raise Invalid.field(
            field,
            (
                "this is a private key: never give it to anybody; paste the content of the file that "
                "ends with .pub"
            ),
        )
    parts = given.split(maxsplit=2)
    if len(parts) < 2 or parts[0] not in KINDS or len(given) > LENGTH_MAX or "\n" in given or "\r" in given:
        raise Invalid.field(
            field, f"paste one line of a .pub file; it starts with {', '.join(KINDS[:2])} or {KINDS[2]}"
        )
    if not given.isprintable():
        raise Invalid.field(field, "a public key may contain only printable characters")
    try:
        loaded = load_ssh_public_key(f"{parts[0]} {_plain(parts[1])}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid.field(
            field, "this is not a complete public key: a part of the line is missing or wrong"
        ) from error
    if isinstance(loaded, RSAPublicKey) and loaded.key_size < RSA_BITS_MIN:
        raise Invalid.field(
            field, f"an RSA key needs {RSA_BITS_MIN} bits; create a new one: ssh-keygen -t ed25519"
        )
    return given


def _plain(blob: str) -> str:
    """As programs write it, which skip what is not of base64, or refuse the line. Raises ValueError."""
    if base64.b64encode(base64.b64decode(blob)).decode() != blob:
        raise ValueError("not base64")
    return blob


def fingerprint_of(public_key: str) -> str:
    """As `ssh-keygen -l` shows it."""
    blob = base64.b64decode(public_key.split(maxsplit=2)[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

"""Public keys of people: checked, kept, and given to the machines that they launch."""

import base64
import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import transaction
from django.db.models import QuerySet

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.workspaces.machines.models import PublicKey
from gpuaas.workspaces.services.validation import NAME
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import User

KEYS_MAX = 50
LENGTH_MAX = 16_384
RSA_BITS_MIN = 2048
KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


def keys_for(*, actor: Actor) -> QuerySet[PublicKey]:
    """The actor's own, by name; a token's are its maker's."""
    return PublicKey.objects.filter(user=actor.user_id).order_by("name")


def key_get_for(*, actor: Actor, name: str) -> PublicKey:
    found = keys_for(actor=actor).filter(name=name).first()
    if found is None:
        raise NotFound("there is no such key")
    return found


@transaction.atomic
def keypair_add(*, actor: Actor, name: str, public_key: str) -> PublicKey:
    """By a signed-in person for themselves. Only the public half: a private one is refused before it is looked at."""
    user = _person(actor)
    if type(name) is not str or not NAME.match(name):
        message = "use 1 to 40 lower-case letters, digits and hyphens; begin and end with a letter or digit"
        raise Invalid.field("name", message)
    text = public_key_check(public_key)
    own = PublicKey.objects.filter(user=user)
    if own.filter(name=name).exists():
        raise Conflict(f"you already have a key called {name}", detail={"field": "name"})
    if known := own.filter(fingerprint=fingerprint_of(text)).first():
        raise Conflict(f"you already have this key: it is {known.name}", detail={"field": "public_key"})
    if own.count() >= KEYS_MAX:
        raise Conflict(f"you have {KEYS_MAX} keys already; remove one first", detail={"field": "name"})
    made = PublicKey.objects.create(
        user=user, name=name, public_key=text, fingerprint=fingerprint_of(text), created_at=clock.now()
    )
    audit_record(actor=actor, action="key.add", target=made, after={"fingerprint": made.fingerprint})
    return made


@transaction.atomic
def keypair_remove(*, actor: Actor, key: PublicKey) -> None:
    """Machines that were launched with it keep it. Removing it again changes nothing."""
    _person(actor)
    if key.user_id != actor.user_id:
        raise NotFound("there is no such key")
    if PublicKey.objects.filter(pk=key.pk).delete()[0]:
        audit_record(actor=actor, action="key.remove", target=key, before={"fingerprint": key.fingerprint})


def _person(actor: Actor) -> User:
    """Their row locked, so that two additions at once are one after the other."""
    if actor.user_id is None or actor.scopes is not None:
        raise Forbidden("people keep their keys themselves, signed in; a token cannot")
    return User.objects.select_for_update().get(pk=actor.user_id)


def public_key_check(text: object, field: str = "public_key") -> str:
    """One line as OpenSSH writes it, cleaned of what surrounds it. Raises Invalid beside `field`."""
    given = text.strip() if type(text) is str else ""
    if "PRIVATE KEY" in given:
        raise Invalid.field(
            field, "this is a private key: never give it to anybody; paste the file that ends with .pub"
        )
    parts = given.split(maxsplit=2)
    if len(parts) < 2 or parts[0] not in KINDS or len(given) > LENGTH_MAX or "\n" in given or "\r" in given:
        raise Invalid.field(
            field, f"paste one line of a .pub file; it begins with {', '.join(KINDS[:2])} or {KINDS[2]}"
        )
    if not given.isprintable():
        raise Invalid.field(field, "a public key holds only printable characters")
    try:
        loaded = load_ssh_public_key(f"{parts[0]} {parts[1]}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid.field(field, "this is no public key: something of the line is missing") from error
    if isinstance(loaded, RSAPublicKey) and loaded.key_size < RSA_BITS_MIN:
        raise Invalid.field(
            field, f"an RSA key needs {RSA_BITS_MIN} bits; make a new one: ssh-keygen -t ed25519"
        )
    return given


def fingerprint_of(public_key: str) -> str:
    """As `ssh-keygen -l` shows it."""
    blob = base64.b64decode(public_key.split(maxsplit=2)[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

"""Public keys: what is one, whose they are, and that machines are given them."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.workspaces.machines.keys import (
    fingerprint_of,
    key_get_for,
    keypair_add,
    keypair_remove,
    keys_for,
)
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.services import MachineOrder, machine_order
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import ApiToken, AuditEntry, Project, User
from tenants.selectors import actor_for_token
from tests.api.caller import token_for

pytestmark = pytest.mark.django_db


def line(comment: str = "bob@laptop") -> str:
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    return f"{public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()} {comment}"


def test_a_key_is_added_used_and_removed(as_bob: Actor, as_alice: Actor, workspace: Workspace) -> None:
    text = line()
    key = keypair_add(actor=as_bob, name="laptop", public_key=f"  {text}\n")
    assert (key.public_key, key.fingerprint) == (text, fingerprint_of(text))
    order = MachineOrder(name="train", flavor="h100.1", image="Debian 12", key="laptop")
    made = machine_order(actor=as_bob, workspace=workspace, order=order)
    assert (made.key_name, made.public_key) == ("laptop", text)
    with pytest.raises(NotFound):
        keypair_remove(actor=as_alice, key=key)
    keypair_remove(actor=as_bob, key=key)
    assert not keys_for(actor=as_bob).exists()
    assert Machine.objects.get().public_key == text
    done = list(
        AuditEntry.objects.filter(action__startswith="key.").values_list("action", flat=True).order_by("pk")
    )
    assert done == ["key.add", "key.remove"]


def test_a_fingerprint_is_as_openssh_shows_it() -> None:
    known = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert fingerprint_of(known) == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        "ssh-dss AAAAB3NzaC1kc3MAAACBAP",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnk",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
        "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl a\nssh-ed25519 b",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl \x00",
        # with what is not of base64, or only looks like it: programs skip that, or refuse the line
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5\u0410AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5éAAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5*AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl====",
    ],
)
def test_what_is_no_public_key_is_refused(as_bob: Actor, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        keypair_add(actor=as_bob, name="laptop", public_key=text)
    assert list(refused.value.fields) == ["public_key"]


def test_a_short_rsa_key_is_refused(as_bob: Actor) -> None:
    public = rsa.generate_private_key(65537, 1024).public_key()
    text = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    with pytest.raises(Invalid, match="2048 bits"):
        keypair_add(actor=as_bob, name="old", public_key=text)


def test_twice_is_refused(as_bob: Actor, as_alice: Actor) -> None:
    text = line()
    keypair_add(actor=as_bob, name="laptop", public_key=text)
    with pytest.raises(Conflict, match="called laptop"):
        keypair_add(actor=as_bob, name="laptop", public_key=line())
    with pytest.raises(Conflict, match="under the name laptop"):
        keypair_add(actor=as_bob, name="other", public_key=text)
    keypair_add(actor=as_alice, name="laptop", public_key=text)


def test_a_token_uses_keys_and_changes_none(alice: User, as_alice: Actor, project: Project) -> None:
    token_for(alice, project)
    program = actor_for_token(token=ApiToken.objects.select_related("user", "project").get())
    key = keypair_add(actor=as_alice, name="laptop", public_key=line())
    assert key_get_for(actor=program, name="laptop") == key
    with pytest.raises(Forbidden):
        keypair_add(actor=program, name="mine", public_key=line())
    with pytest.raises(Forbidden):
        keypair_remove(actor=program, key=key)

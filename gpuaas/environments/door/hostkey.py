"""The key by which clients of SSH know the door: one of the whole portal, so that it is the same wherever they come in."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, encrypt_json
from gpuaas.environments.models import SshKey


def host_key() -> str:
    """The private key, in OpenSSH's format. Made where there is none; of two doors that begin at once, both get the same."""
    if not SshKey.objects.exists():
        SshKey.objects.bulk_create([_made()], ignore_conflicts=True)
    return str(decrypt_json(SshKey.objects.get().secret)["key"])


def _made() -> SshKey:
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return SshKey(secret=encrypt_json({"key": secret}), public=public, created_at=clock.now())

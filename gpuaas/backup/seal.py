"""Encryption keys in an archive: sealed with a passphrase, so that the archive alone opens nothing."""

import base64
import json
import os
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gpuaas.core.errors import Permanent

# OWASP's least cost for scrypt: 128 MiB and a fraction of a second for each guess
COST, BLOCK, LANES = 2**17, 8, 1
PASSPHRASE_LENGTH = 16


def seal(value: dict[str, Any], passphrase: str) -> bytes:
    """Raises Permanent if the passphrase is short."""
    if len(passphrase) < PASSPHRASE_LENGTH:
        raise Permanent(f"the passphrase must have at least {PASSPHRASE_LENGTH} characters")
    salt = os.urandom(16)
    token = _box(passphrase, salt).encrypt(json.dumps(value).encode())
    return json.dumps({"kdf": "scrypt", "salt": salt.hex(), "sealed": token.decode()}).encode()


def unseal(sealed: bytes, passphrase: str) -> dict[str, Any]:
    """Raises Permanent if it was sealed with another passphrase."""
    document = json.loads(sealed)
    try:
        plain = _box(passphrase, bytes.fromhex(document["salt"])).decrypt(document["sealed"].encode())
    except InvalidToken as error:
        raise Permanent(
            "the passphrase is not the one with which the keys of this archive were sealed"
        ) from error
    value: dict[str, Any] = json.loads(plain)
    return value


def _box(passphrase: str, salt: bytes) -> Fernet:
    derived = Scrypt(salt=salt, length=32, n=COST, r=BLOCK, p=LANES).derive(passphrase.encode())
    return Fernet(base64.urlsafe_b64encode(derived))

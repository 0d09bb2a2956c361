"""Secrets at rest: MultiFernet over GPUAAS_ENCRYPTION_KEYS, the newest key first.

The stored form is `key-id:ciphertext`; the key id shows which rows a rotation still has to re-encrypt.
"""

import hashlib
import json
import re
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from gpuaas.core.errors import Permanent

SEALED = re.compile(r"[0-9a-f]{8}:gAAAA")  # the id of a key, and how every token of Fernet begins


def _keys() -> list[str]:
    keys: list[str] = list(settings.ENCRYPTION_KEYS)
    if not keys:
        raise ImproperlyConfigured("GPUAAS_ENCRYPTION_KEYS is empty: credentials cannot be stored")
    return keys


def key_id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def encrypt_json(value: dict[str, Any]) -> str:
    keys = _keys()
    box = MultiFernet([Fernet(key) for key in keys])
    return f"{key_id(keys[0])}:{box.encrypt(json.dumps(value).encode()).decode()}"


def decrypt_json(stored: str) -> dict[str, Any]:
    """Raises Permanent if none of the configured keys decrypts it (a key was removed too early)."""
    if not stored:
        return {}
    box = MultiFernet([Fernet(key) for key in _keys()])
    try:
        value: dict[str, Any] = json.loads(box.decrypt(stored.partition(":")[2].encode()))
    except InvalidToken as error:
        raise Permanent(
            "the stored credentials cannot be decrypted with the configured encryption keys"
        ) from error
    return value


def is_sealed(text: str) -> bool:
    return SEALED.match(text) is not None


def needs_rotation(stored: str) -> bool:
    return bool(stored) and stored.partition(":")[0] != key_id(_keys()[0])

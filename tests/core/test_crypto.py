"""Secrets at rest, keys and their rotation."""

from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from pytest_django import Settings

from gpuaas.core.crypto import decrypt_json, encrypt_json, needs_rotation
from gpuaas.core.errors import Permanent

SECRET = {"token": "s3cret", "n": 1}


def test_round_trip_and_rotation(settings: Settings) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    settings.ENCRYPTION_KEYS = [old]
    stored = encrypt_json(SECRET)
    assert "s3cret" not in stored
    assert decrypt_json(stored) == SECRET
    assert not needs_rotation(stored)
    settings.ENCRYPTION_KEYS = [new, old]
    assert needs_rotation(stored)
    assert decrypt_json(stored) == SECRET
    settings.ENCRYPTION_KEYS = [new]
    with pytest.raises(Permanent, match="cannot be decrypted"):
        decrypt_json(stored)


def test_nothing_stored_and_no_key(settings: Settings) -> None:
    assert decrypt_json("") == {}
    assert not needs_rotation("")
    settings.ENCRYPTION_KEYS = []
    with pytest.raises(ImproperlyConfigured):
        encrypt_json(SECRET)


def test_changed_ciphertext_is_refused(settings: Settings) -> None:
    stored = encrypt_json(SECRET)
    with pytest.raises(Permanent):
        decrypt_json(stored[:-4] + "AAAA")


def test_a_new_key_is_a_good_key(settings: Settings) -> None:
    out = StringIO()
    call_command("encryption_key", stdout=out)
    settings.ENCRYPTION_KEYS = [out.getvalue().strip()]
    assert decrypt_json(encrypt_json(SECRET)) == SECRET

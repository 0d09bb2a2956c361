"""Attaching and changing sites; their credentials stay sealed."""

import json
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from pytest_django import Settings

from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for, sites_for
from gpuaas.catalog.services import credentials_rotate, site_create, site_update, site_wrong
from gpuaas.catalog.site import driver_of
from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import Forbidden, Invalid, NotFound, Permanent
from tenants.actors import Actor
from tenants.models import AuditEntry
from tenants.selectors import actor_for
from tests.factories.tenants import UserFactory

SECRET = {"token": "s3cret-of-the-site"}


@pytest.fixture
def sealed(as_olga: Actor) -> Site:
    return site_create(actor=as_olga, slug="lab-1", name="Lab", driver="sandbox", credentials=SECRET)


def test_credentials_are_sealed_and_told_to_nobody(sealed: Site) -> None:
    row = Site.objects.get()
    assert SECRET["token"] not in row.credentials
    assert decrypt_json(row.credentials) == SECRET
    entries = json.dumps(list(AuditEntry.objects.values("action", "before", "after", "target_name")))
    assert "s3cret" not in entries
    assert driver_of(row).connection.credentials == SECRET
    assert "s3cret" not in repr(driver_of(row).connection)


def test_changes_are_audited_without_secrets(sealed: Site, as_olga: Actor) -> None:
    changed = site_update(
        actor=as_olga, site=sealed, credentials={"token": "n3w"}, name="Laboratory", endpoint=""
    )
    assert (changed.name, changed.version) == ("Laboratory", sealed.version + 1)
    entry = AuditEntry.objects.get(action="site.update")
    assert (entry.before, entry.after) == (
        {"name": "Lab"},
        {"name": "Laboratory", "credentials": "replaced"},
    )
    assert site_update(actor=as_olga, site=changed, name="Laboratory").version == changed.version


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slug", "A B"),
        ("driver", "vmware"),
        ("oversubscription_percent", 0),
        ("credentials", {"a": object()}),
    ],
)
def test_bad_sites_are_refused(as_olga: Actor, field: str, value: Any) -> None:
    asked = {"slug": "lab-1", "name": "Lab", "driver": "sandbox", field: value}
    with pytest.raises(Invalid) as refused:
        site_create(actor=as_olga, **asked)
    assert field in refused.value.fields
    assert not Site.objects.exists()


def test_all_that_is_wrong_with_a_site_is_named_at_once(sealed: Site, as_olga: Actor) -> None:
    wrong: dict[str, Any] = {"endpoint": "ftp://x", "oversubscription_percent": 0}
    asked: dict[str, Any] = {"slug": "A B", "name": " ", "credentials": {"a": object()}, **wrong}
    with pytest.raises(Invalid) as refused:
        site_create(actor=as_olga, driver="sandbox", **asked)
    assert set(refused.value.fields) == set(asked)
    assert site_wrong(driver="sandbox", options={}, **asked) == refused.value.fields
    with pytest.raises(Invalid) as refused:
        site_update(actor=as_olga, site=sealed, name="", **wrong)
    assert set(refused.value.fields) == {"name", *wrong}


def test_what_cannot_be_changed(sealed: Site, as_olga: Actor) -> None:
    for changes in ({"driver": "kubernetes"}, {"oversubscription_percent": True}, {"name": ""}):
        with pytest.raises(Invalid):
            site_update(actor=as_olga, site=sealed, **changes)
    with pytest.raises(Invalid):
        site_create(actor=as_olga, slug="lab-1", name="Again", driver="sandbox")


def test_sites_are_the_operators(sealed: Site, as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        sites_for(actor=as_alice)
    with pytest.raises(NotFound):
        site_update(actor=as_alice, site=sealed, name="Mine")
    auditor = actor_for(user=UserFactory.create(platform_role="auditor"))
    assert site_get_for(actor=auditor, slug="lab-1") == sealed
    with pytest.raises(NotFound):
        site_get_for(actor=auditor, slug="lab-2")
    with pytest.raises(Forbidden):
        site_update(actor=auditor, site=sealed, name="Mine")


def test_rotation_seals_with_the_newest_key(sealed: Site, settings: Settings) -> None:
    old, new = settings.ENCRYPTION_KEYS, Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, *old]
    call_command("credentials_rotate", verbosity=0)
    assert credentials_rotate() == 0
    settings.ENCRYPTION_KEYS = [new]
    assert decrypt_json(Site.objects.get().credentials) == SECRET
    settings.ENCRYPTION_KEYS = old
    with pytest.raises(Permanent):
        decrypt_json(Site.objects.get().credentials)

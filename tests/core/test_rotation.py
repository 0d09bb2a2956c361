"""A new encryption key while the portal runs: everything stays readable, and a killed rotation goes on."""

import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP
from cryptography.fernet import Fernet
from django.apps import apps
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.db import connections, models
from pytest_django import Settings

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import site_create, site_update
from gpuaas.core import rotation
from gpuaas.core.crypto import decrypt_json, encrypt_json, is_sealed, needs_rotation
from gpuaas.core.rotation import columns, everything_rotate
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.services import workspace_request
from tenants.actors import SYSTEM, Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.factories.tenants import UserFactory
from tests.metering.test_meter import wait_for

SITES = 40
KILL_AT = 11


def rotate() -> None:
    call_command("encryption_rotate", verbosity=0)


@pytest.fixture
def old_key(settings: Settings) -> str:
    key: str = settings.ENCRYPTION_KEYS[0]
    return key


@pytest.fixture
def new_key() -> str:
    return Fernet.generate_key().decode()


def test_what_is_sealed_anywhere_is_rotated() -> None:
    """Each room that seals names its columns: by their sources, and by what they are called."""
    named = {name.partition(":")[0] for name in columns()}
    for name in named:
        label, model, column = name.split(".")
        assert apps.get_model(label, model)._meta.get_field(column)
    ours = [
        model for model in apps.get_models() if model.__module__.startswith(("gpuaas", "tenants", "billing"))
    ]
    secret = re.compile("credential|secret|seed|cloud_init|password|passphrase|private")
    found = {
        f"{model._meta.label}.{column.name}"
        for model in ours
        for column in model._meta.get_fields()
        if isinstance(column, models.TextField | models.CharField) and secret.search(column.name)
    }
    # three hashes, and the name of a Secret at the hub
    assert found - named == {
        "tenants.User.password",
        "tenants.ApiToken.secret_hash",
        "environments.DoorKey.secret_hash",
        "baremetal.Host.bmc_secret",
    }


def test_every_column_by_one_command(
    as_alice: Actor, project: Project, h100: Flavor, settings: Settings, old_key: str, new_key: str
) -> None:
    limits_give(project)
    workspace = workspace_request(
        actor=as_alice, project=project, name="train-7b", items=[(h100.slug, 2)], storage_gib=100
    )
    alice = workspace.created_by
    machine = Machine.objects.create(
        workspace=workspace,
        name="train",
        created_at=workspace.created_at,
        cloud_init=encrypt_json({"text": "#cloud-config"}),
    )
    site = Site.objects.get(pk=workspace.site_id)
    Site.objects.filter(pk=site.pk).update(credentials=encrypt_json({"token": "t"}))
    factor = TOTP.activate(alice, "JBSWY3DPEHPK3PXP").instance
    before = Authenticator.objects.create(user=UserFactory.create(), type="totp", data={"secret": "ORSXG5A3"})
    settings.ENCRYPTION_KEYS = [new_key, old_key]
    rotate()
    settings.ENCRYPTION_KEYS = [new_key]
    machine.refresh_from_db()
    site.refresh_from_db()
    assert decrypt_json(machine.cloud_init) == {"text": "#cloud-config"}
    assert decrypt_json(site.credentials) == {"token": "t"}
    for row, secret in ((factor, "JBSWY3DPEHPK3PXP"), (before, "ORSXG5A3")):
        row.refresh_from_db()
        assert is_sealed(row.data["secret"])
        assert decrypt_json(row.data["secret"]) == {"text": secret}
    assert all(not each.sealed for each in everything_rotate().values())


def test_a_row_that_no_key_opens_is_named_and_stops_nothing(
    settings: Settings, old_key: str, new_key: str, db: None
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    lost = site_create(actor=SYSTEM, slug="lost", name="Lost", driver="sandbox", credentials={"token": "t"})
    settings.ENCRYPTION_KEYS = [old_key]
    kept = site_create(actor=SYSTEM, slug="kept", name="Kept", driver="sandbox", credentials={"token": "t"})
    settings.ENCRYPTION_KEYS = [new_key, old_key]
    with pytest.raises(CommandError, match=str(lost.pk)):
        rotate()
    kept.refresh_from_db()
    assert not needs_rotation(kept.credentials)


# -- under load -------------------------------------------------------------------------------------------------------


def forked(work: Callable[..., object], *given: Any) -> Any:
    connections.close_all()
    process = multiprocessing.get_context("fork").Process(target=work, args=given)
    process.start()
    return process


def portal(keys: list[str], number: int, told: Any) -> None:
    """A process of the portal with these keys: replaces credentials of its sites and reads those of all, until it is told
    to stop. Its exit code says whether it could read everything."""
    django_settings.ENCRYPTION_KEYS = keys
    mine = list(Site.objects.order_by("pk"))[number::2]
    rounds = 0
    while not told.is_set():
        for site in mine:
            site_update(actor=SYSTEM, site=site, credentials={"token": f"{site.slug} {rounds}"})
            for other, stored in Site.objects.values_list("slug", "credentials"):
                assert decrypt_json(stored)["token"].startswith(f"{other} ")
        rounds += 1
    connections.close_all()
    os._exit(0)


def killed(keys: list[str], at: int) -> None:
    """A rotation that ends like a process that the kernel kills, before the row with this number."""
    django_settings.ENCRYPTION_KEYS = keys
    swap, rows = rotation._swap, 0

    def counted(*given: Any) -> int:
        nonlocal rows
        rows += 1
        if rows == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return swap(*given)

    rotation._swap = counted  # type: ignore[assignment]  # only in this forked process
    everything_rotate()


@pytest.mark.django_db(transaction=True)
def test_writers_readers_and_a_killed_rotation(settings: Settings, old_key: str, new_key: str) -> None:
    for number in range(SITES):
        slug = f"site-{number}"
        site_create(actor=SYSTEM, slug=slug, name=slug, driver="sandbox", credentials={"token": f"{slug} 0"})
    told = multiprocessing.get_context("fork").Event()
    # the rolling restart: some processes still have the new key second
    rolling = [
        forked(portal, keys, n, told) for n, keys in enumerate(([old_key, new_key], [new_key, old_key]))
    ]
    died = forked(killed, [new_key, old_key], KILL_AT)
    died.join(60)
    assert died.exitcode == -signal.SIGKILL
    settings.ENCRYPTION_KEYS = [new_key, old_key]
    everything_rotate()
    changed = set(Site.objects.values_list("slug", "version"))
    wait_for(lambda: len(set(Site.objects.values_list("slug", "version")) - changed) >= SITES)
    told.set()
    for process in rolling:
        process.join(60)
        assert process.exitcode == 0
    rotate()
    settings.ENCRYPTION_KEYS = [new_key]
    for slug, stored in Site.objects.values_list("slug", "credentials"):
        assert decrypt_json(stored)["token"].startswith(f"{slug} ")

"""Sites are attached, changed, and their credentials kept sealed."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.checks import row_check
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, encrypt_json, needs_rotation
from gpuaas.core.errors import Invalid
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.providers.registry import (
    credentials_check,
    driver_names,
    options_change_check,
    options_check,
)
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

CHANGEABLE = (
    "name",
    "endpoint",
    "options",
    "enabled",
    "sell_unfit",
    "oversubscription_percent",
    "drift_policy",
)
# what changes how the site is reached, and so what it may answer
REACHED_BY = {"endpoint", "options", "enabled"}
LOWEST_PERCENT, HIGHEST_PERCENT = 1, 1000


@transaction.atomic
def site_create(
    *,
    actor: Actor,
    slug: str,
    name: str,
    driver: str,
    endpoint: str = "",
    credentials: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    oversubscription_percent: int = 100,
) -> Site:
    """It is probed at once; what it has appears in the catalog as drafts. Credentials never come out again."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    site = Site(
        slug=slug,
        name=name.strip(),
        driver=_driver(driver),
        endpoint=endpoint,
        credentials=_sealed(credentials or {}),
        options=dict(options or {}),
        oversubscription_percent=_percent(oversubscription_percent),
        due_at=clock.now(),
    )
    row_check(site)
    options_check(site.driver, site.options)
    credentials_check(site.driver, credentials or {})
    try:
        with transaction.atomic():
            site.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid.field("slug", "this short name is taken") from error
    after = {"slug": slug, "driver": driver, "endpoint": endpoint, "credentials": bool(credentials)}
    audit_record(actor=actor, action="site.create", target=site, after=after)
    _changed(site)
    return site


@transaction.atomic
def site_update(
    *, actor: Actor, site: Site, credentials: Mapping[str, Any] | None = None, **changes: Any
) -> Site:
    """`changes`: any of CHANGEABLE. Credentials are replaced whole."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if unknown := sorted(changes.keys() - set(CHANGEABLE)):
        raise Invalid.field(unknown[0], "this cannot be changed")
    row = Site.objects.select_for_update().get(pk=site.pk)
    if "oversubscription_percent" in changes:
        _percent(changes["oversubscription_percent"])
    changed = {key: value for key, value in changes.items() if getattr(row, key) != value}
    before = {key: getattr(row, key) for key in changed}
    if "options" in changed:
        options_change_check(row.driver, row.options, changed["options"])
    for key, value in changed.items():
        setattr(row, key, value)
    row_check(row)
    if credentials is not None:
        credentials_check(row.driver, credentials)
    sealed = {"credentials": _sealed(credentials)} if credentials is not None else {}
    if not changed and not sealed:
        return row
    Site.objects.filter(pk=row.pk).update(
        **changed, **sealed, version=F("version") + 1, due_at=clock.now() if row.enabled else None
    )
    after = {**changed, "credentials": "replaced"} if sealed else changed
    audit_record(actor=actor, action="site.update", target=row, before=before, after=after)
    row.refresh_from_db()
    if row.enabled and (sealed or changed.keys() & REACHED_BY):
        rounds_wake(row, *RoundKind)
    _changed(row)
    return row


def credentials_rotate() -> int:
    """Seal with the newest key what an older one sealed; returns how many. May run beside everything else."""
    done = 0
    for site in Site.objects.exclude(credentials="").only("pk", "credentials"):
        if needs_rotation(site.credentials):
            sealed = encrypt_json(decrypt_json(site.credentials))
            done += Site.objects.filter(pk=site.pk, credentials=site.credentials).update(credentials=sealed)
    return done


def _changed(site: Site) -> None:
    publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))
    poke("catalog.probe", str(site.pk))
    poke("quotas.capacity_sync", str(site.pk))


def _driver(name: str) -> str:
    if name not in driver_names():
        raise Invalid.field("driver", f"there is no driver {name!r}; known: {', '.join(driver_names())}")
    return name


def _percent(value: Any) -> int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not LOWEST_PERCENT <= value <= HIGHEST_PERCENT
    ):
        raise Invalid.field(
            "oversubscription_percent", f"a whole number from {LOWEST_PERCENT} to {HIGHEST_PERCENT}"
        )
    return value


def _sealed(credentials: Mapping[str, Any]) -> str:
    if not credentials:
        return ""
    try:
        json.dumps(dict(credentials))
    except (TypeError, ValueError) as error:
        raise Invalid.field("credentials", "credentials are a JSON object") from error
    return encrypt_json(dict(credentials))

"""Sites: attaching, changing, and encrypted credentials."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.confirmed import confirmation_told
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, Invalid, Unusable
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.core.rotation import column_rotate
from gpuaas.core.validation import row_check
from gpuaas.providers.reach import address_check
from gpuaas.providers.registry import (
    credentials_check,
    options_change_check,
    options_check,
    site_kind,
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
    "confirmed",
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
    """The site is probed at once; its GPU types appear in the catalog as drafts. Credentials are never returned."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    site = Site(
        slug=slug,
        name=name.strip(),
        driver=_driver(driver),
        endpoint=_endpoint(endpoint),
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
        raise Invalid.field("slug", "this short name is already in use") from error
    after = {"slug": slug, "driver": driver, "endpoint": endpoint, "credentials": bool(credentials)}
    audit_record(actor=actor, action="site.create", target=site, after=after)
    _changed(site)
    return site


@transaction.atomic
def site_update(
    *, actor: Actor, site: Site, credentials: Mapping[str, Any] | None = None, **changes: Any
) -> Site:
    """`changes`: any of CHANGEABLE. Credentials are replaced as one."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if unknown := sorted(changes.keys() - set(CHANGEABLE)):
        raise Invalid.field(unknown[0], "this cannot be changed")
    row = Site.objects.select_for_update().get(pk=site.pk)
    if row.removed_at is not None:
        raise Conflict(
            f"the name {row.slug} belongs to a removed site and its past usage; attach the site under "
            "another name"
        )
    if "oversubscription_percent" in changes:
        _percent(changes["oversubscription_percent"])
    if "endpoint" in changes:
        _endpoint(changes["endpoint"])
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
    due_at = clock.now() if row.enabled else None
    stored = {**_told(row, changed), **sealed, "due_at": due_at, "version": F("version") + 1}
    Site.objects.filter(pk=row.pk).update(**stored)
    after = {**changed, "credentials": "replaced"} if sealed else changed
    audit_record(actor=actor, action="site.update", target=row, before=before, after=after)
    row.refresh_from_db()
    if row.enabled and (sealed or changed.keys() & REACHED_BY):
        rounds_wake(row, *RoundKind)
    _changed(row, *(["workspaces.site_repair"] if changed.get("confirmed") else []))
    return row


def _told(row: Site, changed: dict[str, Any]) -> dict[str, Any]:
    """Its conditions too, where it is confirmed or frozen: pages show it at once."""
    if "confirmed" not in changed:
        return changed
    told = confirmation_told(row.conditions, confirmed=row.confirmed, now=clock.now())
    return {**changed, "conditions": told}


def credentials_rotate() -> int:
    """Encrypts with the newest key what an older one encrypted; returns how many. May run at any time."""
    return column_rotate("catalog.Site.credentials").sealed


def _changed(site: Site, *tasks: str) -> None:
    publish(kind="site", id=site.pk, groups=(OPERATORS_GROUP,))
    for task in ("catalog.probe", "quotas.capacity_sync", *tasks):
        poke(task, str(site.pk))


def _driver(name: str) -> str:
    return site_kind(name).name


def _endpoint(value: str) -> str:
    """It is never called; tenants find it in their kubeconfigs."""
    if value:
        try:
            address_check(value)
        except Unusable as error:
            raise Invalid.field("endpoint", error.message) from error
    return value


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
        raise Invalid.field("credentials", "credentials must be a JSON object") from error
    return encrypt_json(dict(credentials))

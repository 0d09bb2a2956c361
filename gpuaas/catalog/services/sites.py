"""Sites: attaching, changing, and encrypted credentials."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.confirmed import confirmation_noted
from gpuaas.catalog.services.rounds import rounds_wake
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, Invalid, Mistakes, StaleVersion, Unusable
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


def options_fingerprint(options: Mapping[str, Any]) -> str:
    """Equal as long as no option is changed, added or removed."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:16]


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
    """The site is probed at once; its GPU types appear in the catalog as drafts. Credentials are never returned. All that is
    wrong is named at once."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    site = Site(slug=slug, name=name.strip(), driver=_driver(driver), options=dict(options or {}))
    _judge(site, endpoint, credentials or {}, oversubscription_percent).refuse()
    site.due_at = clock.now()
    try:
        with transaction.atomic():
            site.save(force_insert=True)
    except IntegrityError as error:
        raise Invalid.field("slug", "this short name is already in use") from error
    after = {"slug": slug, "driver": driver, "endpoint": endpoint, "credentials": bool(credentials)}
    audit_record(actor=actor, action="site.create", target=site, after=after)
    _changed(site)
    return site


def site_wrong(
    *,
    slug: str,
    name: str,
    driver: str,
    endpoint: str = "",
    credentials: Mapping[str, Any],
    options: Mapping[str, Any],
    oversubscription_percent: int,
) -> dict[str, list[str]]:
    """What `site_create` would refuse, by field, for a form that has mistakes of its own to name beside it."""
    site = Site(slug=slug, name=name.strip(), driver=_driver(driver), options=dict(options))
    return _judge(site, endpoint, credentials, oversubscription_percent).fields


def _judge(site: Site, endpoint: str, credentials: Mapping[str, Any], percent: Any) -> Mistakes:
    """Writes what it finds right to the row, which then is judged by its own rules."""
    mistakes = Mistakes()
    with mistakes:
        site.endpoint = _endpoint(endpoint)
    with mistakes:
        site.oversubscription_percent = _percent(percent)
    with mistakes:
        site.credentials = _sealed(credentials)
        credentials_check(site.driver, credentials)
    with mistakes:
        options_check(site.driver, site.options)
    with mistakes:
        row_check(site)
    return mistakes


def _attached_lock(site: Site) -> Site:
    row = Site.objects.select_for_update().get(pk=site.pk)
    if row.removed_at is not None:
        raise Conflict(
            f"the name {row.slug} belongs to a removed site and its past usage; attach the site under "
            "another name"
        )
    return row


@transaction.atomic
def site_update(
    *,
    actor: Actor,
    site: Site,
    credentials: Mapping[str, Any] | None = None,
    fingerprint: str = "",
    **changes: Any,
) -> Site:
    """`changes`: any of CHANGEABLE. Credentials are replaced as one. Raises StaleVersion if the options have another fingerprint
    than `fingerprint`: the version of a site also counts what is observed."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if unknown := sorted(changes.keys() - set(CHANGEABLE)):
        raise Invalid.field(unknown[0], "this cannot be changed")
    row = _attached_lock(site)
    if fingerprint and fingerprint != options_fingerprint(row.options):
        raise StaleVersion("the options have changed since you read them; read them again")
    changed = {key: value for key, value in changes.items() if getattr(row, key) != value}
    before = {key: getattr(row, key) for key in changed}
    _change_judge(row, changes, credentials)
    sealed = {"credentials": _sealed(credentials)} if credentials is not None else {}
    if not changed and not sealed:
        return row
    noted = {"conditions": confirmation_noted(row.conditions, confirmed=row.confirmed, now=clock.now())}
    shown = noted if "confirmed" in changed else {}
    Site.objects.filter(pk=row.pk).update(
        **changed, **sealed, **shown, version=F("version") + 1, due_at=clock.now() if row.enabled else None
    )
    after = {**changed, "credentials": "replaced"} if sealed else changed
    audit_record(actor=actor, action="site.update", target=row, before=before, after=after)
    row.refresh_from_db()
    if row.enabled and (sealed or changed.keys() & REACHED_BY):
        rounds_wake(row, *RoundKind)
    _changed(row, *(["workspaces.site_repair"] if changed.get("confirmed") else []))
    return row


def _change_judge(row: Site, changes: Mapping[str, Any], credentials: Mapping[str, Any] | None) -> None:
    """Writes the changes to the row, and raises all that is wrong with them."""
    mistakes = Mistakes()
    if "oversubscription_percent" in changes:
        with mistakes:
            _percent(changes["oversubscription_percent"])
    if "endpoint" in changes:
        with mistakes:
            _endpoint(changes["endpoint"])
    if changes.get("options", row.options) != row.options:
        with mistakes:
            options_change_check(row.driver, row.options, changes["options"])
    if credentials is not None:
        with mistakes:
            credentials_check(row.driver, credentials)
    for key in changes.keys() - mistakes.fields.keys():
        setattr(row, key, changes[key])
    with mistakes:
        row_check(row)
    mistakes.refuse()


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

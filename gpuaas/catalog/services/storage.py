"""Storage classes of a site: as it was found to have them, which of them plain storage is taken from, and which are sold."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.validation import row_check
from gpuaas.providers.base import ObservedStorageClass
from gpuaas.providers.registry import clusters_only
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

FOUND = ["provisioner", "is_default", "present", "observed_at"]
KNOWN_FOR: Final = timedelta(minutes=10)  # a default that the site does not name any more


def storage_classes_write(*, site: Site, found: Sequence[ObservedStorageClass], at: datetime) -> None:
    """What the site has now; the caller holds the lock of the site's row."""
    rows = StorageClass.objects.filter(site=site)
    default = _default_of(site, found, at)
    if default is None:
        return
    StorageClass.objects.bulk_create(
        [
            StorageClass(
                site=site,
                name=each.name,
                provisioner=each.provisioner[:253],
                is_default=each.name == default,
                observed_at=at,
            )
            for each in found
        ],
        update_conflicts=True,
        unique_fields=["site", "name"],
        update_fields=FOUND,
    )
    rows.exclude(name__in=[each.name for each in found]).update(present=False, is_default=False)
    _plain_write(site.pk, _plain_of(list(rows.order_by("name"))))


def _default_of(site: Site, found: Sequence[ObservedStorageClass], at: datetime) -> str | None:
    """By name, "" where there is none. While it is not known which, it is the one from before. None: nothing was known before,
    and what is written without a default would close all classes, plain storage too."""
    since = (site.default_unknown_since or at) if any(each.default is None for each in found) else None
    if since != site.default_unknown_since:
        Site.objects.filter(pk=site.pk).update(default_unknown_since=since)
        site.default_unknown_since = since
    if since is None or at - since >= KNOWN_FOR:
        return next((each.name for each in found if each.default), "")
    before = dict(StorageClass.objects.filter(site=site).values_list("name", "is_default"))
    return next((name for name, is_default in before.items() if is_default), "") if before else None


def _plain_of(rows: Sequence[StorageClass]) -> StorageClass | None:
    """The operator's choice; else the site's default, or the last one it had; else its only class."""
    present = [row for row in rows if row.present]
    only = present if len(present) == 1 else []
    orders = (
        [row for row in rows if row.chosen],
        [row for row in rows if row.is_default],
        [row for row in rows if row.plain],
        only,
    )
    return next((row for order in orders for row in order), None)


def _plain_write(site_id: uuid.UUID, plain: StorageClass | None) -> None:
    if plain is None or plain.plain:
        return
    StorageClass.objects.filter(site=site_id, plain=True).update(plain=False, chosen=False)
    StorageClass.objects.filter(pk=plain.pk).update(plain=True)


@transaction.atomic
def storage_plain_choose(*, actor: Actor, storage_class: StorageClass) -> StorageClass:
    """Plain storage of the site is taken from this class from now on, whatever the site's default is. Raises Conflict for a class
    that is gone or sold by itself."""
    row = _locked(actor, storage_class)
    if row.state == OfferState.ACTIVE:
        raise Conflict(f"{row.name} is sold as {row.slug}: stop selling it first")
    before = StorageClass.objects.filter(site=row.site_id, plain=True).values_list("name", flat=True).first()
    _plain_write(row.site_id, row)
    StorageClass.objects.filter(site=row.site_id, plain=True).update(chosen=True)
    row.refresh_from_db(fields=["plain", "chosen"])
    if before != row.name:
        _note(actor, row, "plain", {"plain": before}, {"plain": row.name})
        poke("workspaces.site_changed", str(row.site_id))
    return row


@transaction.atomic
def storage_class_sell(*, actor: Actor, storage_class: StorageClass, slug: str = "") -> StorageClass:
    """Puts it on offer by its short name, which is given once and kept: past usage has it. Repeating it changes nothing.

    Raises Invalid on `slug`, Conflict for a class that is gone or that plain storage is taken from.
    """
    row = _locked(actor, storage_class)
    if row.plain:
        raise Conflict(
            f"plain storage at {row.site.slug} is taken from {row.name}: it needs no offer of its own"
        )
    if row.slug and slug not in ("", row.slug):
        raise Invalid.field("slug", f"{row.name} was sold as {row.slug}, and past usage keeps that name")
    if not (row.slug or slug):
        raise Invalid.field("slug", "enter a short name")
    before = row.state
    row.slug, row.state = row.slug or slug, OfferState.ACTIVE
    row_check(row, constraints=False)
    try:
        with transaction.atomic():
            row.save(update_fields=["slug", "state"])
    except IntegrityError as error:
        raise Invalid.field("slug", "a storage class of this name already exists") from error
    if before != row.state:
        _note(actor, row, "publish", {"state": before}, {"state": row.state, "slug": row.slug})
    return row


@transaction.atomic
def storage_class_retire(*, actor: Actor, storage_class: StorageClass) -> StorageClass:
    """Stops selling it; holders keep what they have of it. Repeating it changes nothing."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = StorageClass.objects.select_for_update(of=("self",)).select_related("site").get(pk=storage_class.pk)
    if row.state == OfferState.ACTIVE:
        row.state = OfferState.RETIRED
        row.save(update_fields=["state"])
        _note(actor, row, "retire", {"state": OfferState.ACTIVE}, {"state": row.state})
    return row


def _locked(actor: Actor, storage_class: StorageClass) -> StorageClass:
    """Read again, below the lock of its site, as the inventory takes it."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    Site.objects.select_for_update().only("pk").get(pk=storage_class.site_id)
    row = StorageClass.objects.select_for_update(of=("self",)).select_related("site").get(pk=storage_class.pk)
    if not row.present:
        raise Conflict(f"the site has no storage class {row.name} any more")
    if row.site.driver in clusters_only():
        raise Conflict(f"{row.site.slug} makes clusters, whose storage is not sold by class")
    return row


def _note(actor: Actor, row: StorageClass, verb: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    action, named = f"storage_class.{verb}", {"class": row.name}
    audit_record(
        actor=actor, action=action, target=row.site, before={**named, **before}, after={**named, **after}
    )

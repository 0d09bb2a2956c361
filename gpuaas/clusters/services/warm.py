"""Warm pools, set up by operators: how many clusters of which choice are kept ready, and which project holds them."""

from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.clusters.models import ClusterTemplate, WarmPool
from gpuaas.clusters.selectors import template_version_get
from gpuaas.clusters.services.planning import Draft, draft_make, name_validate
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.rows import first_of, version_require
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import platform_require

WANTED_MAX, MAKING_MAX = 100, 20


def warm_pool_create(
    *,
    actor: Actor,
    template: ClusterTemplate,
    project: Project,
    name: str,
    document: Any,
    wanted: int,
    making_most: int = 1,
) -> WarmPool:
    """Raises Invalid on the fields of the document too, Conflict if the template has a pool of that name."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if actor.user_id is None:
        raise Forbidden("only a person can create a warm pool")
    moment = clock.now()
    row = WarmPool(
        template=template,
        project=project,
        name=name_validate(name),
        document=_document(template, project, document),
        created_by=User.objects.get(pk=actor.user_id),
        created_at=moment,
        due_at=moment,
        **_numbers(wanted, making_most),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            _told(actor, row, "warm_pool.create", after=_shown(row))
    except IntegrityError as error:
        if "warm_pool_name_once" not in str(error):
            raise
        message = f"the template {template.slug} already has a warm pool called {name}"
        raise Conflict(message, detail={"field": "name"}) from error
    return row


@transaction.atomic
def warm_pool_update(
    *,
    actor: Actor,
    pool: WarmPool,
    wanted: int | None = None,
    making_most: int | None = None,
    document: Any = None,
    expected_version: int | None = None,
) -> WarmPool:
    """Fields that are not given do not change. Clusters of another choice are deleted once as many of the new one are
    ready."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = _locked(pool, expected_version)
    before = _shown(row)
    numbers = _numbers(
        row.wanted if wanted is None else wanted, row.making_most if making_most is None else making_most
    )
    row.wanted, row.making_most = numbers["wanted"], numbers["making_most"]
    if document is not None:
        row.document = _document(row.template, row.project, document)
    row.version, row.due_at, row.attempts = row.version + 1, clock.now(), 0
    row.save(update_fields=["wanted", "making_most", "document", "version", "due_at", "attempts"])
    _told(actor, row, "warm_pool.update", before=before, after=_shown(row))
    return row


@transaction.atomic
def warm_pool_end(*, actor: Actor, pool: WarmPool, expected_version: int | None = None) -> WarmPool:
    """Removes the pool: ready clusters are deleted, claimed ones belong to their tenants and stay."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = _locked(pool, expected_version)
    row.ended_at = row.due_at = clock.now()
    row.version += 1
    row.save(update_fields=["ended_at", "due_at", "version"])
    _told(actor, row, "warm_pool.end", before=_shown(row))
    return row


def _locked(pool: WarmPool, expected_version: int | None) -> WarmPool:
    rows = WarmPool.objects.select_for_update(of=("self",), no_key=True)
    row = first_of(
        rows.select_related("template__site", "project").filter(pk=pool.pk, ended_at__isnull=True),
        "warm pool",
    )
    version_require(row.version, expected_version, "warm pool")
    return row


def warm_pool_draft(
    *, actor: Actor, template: ClusterTemplate, project: Project, document: Any, wanted: int, making_most: int
) -> Draft:
    """One cluster of the choice, not saved. Raises Invalid on the fields, Conflict as an order does."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    _numbers(wanted, making_most)
    return _draft(template, project, document)


def _document(template: ClusterTemplate, project: Project, document: Any) -> Any:
    """As it was given: fields left out take the defaults of the newest version, whichever that is."""
    _draft(template, project, document)
    return document


def _draft(template: ClusterTemplate, project: Project, document: Any) -> Draft:
    version = template_version_get(template=template)
    return draft_make(project=project, version=version, document=document, name="warm", lease_ends_at=None)


def _numbers(wanted: Any, making_most: Any) -> dict[str, int]:
    wrong: dict[str, list[str]] = {}
    if type(wanted) is not int or not 0 <= wanted <= WANTED_MAX:
        wrong["wanted"] = [f"a whole number from 0 to {WANTED_MAX}"]
    if type(making_most) is not int or not 1 <= making_most <= MAKING_MAX:
        wrong["making_most"] = [f"a whole number from 1 to {MAKING_MAX}"]
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)
    return {"wanted": wanted, "making_most": making_most}


def _shown(row: WarmPool) -> dict[str, Any]:
    return {"wanted": row.wanted, "making_most": row.making_most, "document": row.document}


def _told(actor: Actor, row: WarmPool, action: str, **what: Any) -> None:
    audit_record(actor=actor, action=action, target=row, project=row.project, **what)
    poke("clusters.warm_pool", str(row.pk))

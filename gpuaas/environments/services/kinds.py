"""The catalog: kinds are created and retired by operators; versions are added, never changed."""

from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of, version_require
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import EnvironmentKind, KindVersion
from gpuaas.environments.states import KindState
from gpuaas.workspaces.services.validation import NAME
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require


def kind_create(
    *, actor: Actor, slug: str, name: str, document: Any, description: str = "", note: str = ""
) -> EnvironmentKind:
    """With its first version; it can be ordered at once. Raises Invalid at the field, Conflict if the slug is in use."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if type(slug) is not str or not NAME.match(slug):
        raise Invalid.field("slug", "use 1 to 40 lower-case letters, digits and hyphens")
    row = EnvironmentKind(slug=slug, name=_line("name", name), description=_line("description", description))
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit_record(actor=actor, action="environment_kind.create", target=row, after={"name": name})
            _version(actor, row, document, note)
    except IntegrityError as error:
        raise Conflict(f"a kind {slug} already exists", detail={"field": "slug"}) from error
    return row


@transaction.atomic
def kind_version_add(*, actor: Actor, kind: EnvironmentKind, document: Any, note: str = "") -> KindVersion:
    """What is ordered from now on; environments of earlier versions stay as they are. Raises Invalid on `document`."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    return _version(actor, _locked(kind), document, note)


@transaction.atomic
def kind_retire(
    *, actor: Actor, kind: EnvironmentKind, retired: bool = True, expected_version: int | None = None
) -> EnvironmentKind:
    """Nobody can order it any more, or again; what exists stays. Repeating it changes nothing."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = _locked(kind, expected_version)
    state = KindState.RETIRED if retired else KindState.ACTIVE
    if row.state == state:
        return row
    before = {"state": row.state}
    row.state, row.version = state, row.version + 1
    row.save(update_fields=["state", "version"])
    after = {"state": str(state)}
    audit_record(actor=actor, action="environment_kind.update", target=row, before=before, after=after)
    return row


def _version(actor: Actor, row: EnvironmentKind, document: Any, note: str) -> KindVersion:
    definition_read(document)
    last = row.versions.values_list("number", flat=True).first() or 0
    made = {"number": last + 1, "document": document, "note": _line("note", note)}
    version = KindVersion.objects.create(kind=row, created_by=actor.name, **made)
    after = {"number": version.number, "document": document}
    audit_record(actor=actor, action="environment_kind.version", target=row, after=after)
    return version


def _locked(kind: EnvironmentKind, expected_version: int | None = None) -> EnvironmentKind:
    rows = EnvironmentKind.objects.select_for_update(no_key=True).filter(pk=kind.pk)
    row = first_of(rows, "kind of environment")
    version_require(row.version, expected_version, "kind")
    return row


def _line(name: str, text: str) -> str:
    most = 100 if name == "name" else 300
    if type(text) is not str or not text.isprintable() or len(text) > most:
        raise Invalid.field(name, f"one line of at most {most} characters")
    if name == "name" and not text.strip():
        raise Invalid.field(name, "a kind needs a name")
    return text

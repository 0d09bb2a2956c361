"""Templates of jobs: saved, changed and deleted by members of the project; and what is ordered by one."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from gpuaas.catalog.models import GpuType
from gpuaas.core import clock
from gpuaas.core.errors import UNKNOWN, Conflict, Invalid, Mistakes, NotFound
from gpuaas.core.plain_yaml import odd, plain
from gpuaas.core.rows import first_of, version_require
from gpuaas.jobs.document import FIELDS, NEEDED, USUALLY, order_plain
from gpuaas.jobs.models import DataCredential, JobTemplate
from gpuaas.jobs.order import order_read
from gpuaas.jobs.selectors import template_named
from gpuaas.jobs.services.places import workspace_in
from gpuaas.workspaces.services.request import requester_of
from gpuaas.workspaces.services.validation import name_validate
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require

TEMPLATES_MOST: Final = 50  # of a project
DESCRIPTION_MOST: Final = 300
ORDER_MOST: Final = 64 * 1024  # characters of its order as JSON
SHOWN: Final = ("name", "description", "order", "locked")
MAY: Final = Permission.WORKSPACE_ACCESS


def template_find(actor: Actor, project: Project, name: Any) -> JobTemplate:
    """Raises Invalid at `template` unless the project has one of that name."""
    try:
        return template_named(actor=actor, project=project, name=name)
    except NotFound as error:
        raise Invalid.field("template", error.message) from error


def order_from(template: JobTemplate, given: Mapping[str, Any], wrong: Mistakes) -> dict[str, Any]:
    """What `given` orders by this template. `wrong` gets each locked field for which it has another value."""
    found = {**template.order, **given}
    for name in template.locked:
        found[name] = template.order.get(name, USUALLY.get(name))
        if name in given and plain(given[name]) != plain(found[name]):
            with wrong:
                raise Invalid.field(name, f"the template {template.name} locks this field: leave it out")
    return found


@transaction.atomic
def template_create(
    *,
    actor: Actor,
    project: Project,
    name: str,
    order: Any,
    description: str = "",
    locked: Any = (),
) -> JobTemplate:
    """order: fields of a job with the values that jobs begin with; what a workspace has bought is judged only when one is submitted.
    locked: the names of fields that orders by it may not change. Raises Invalid with all mistakes at their fields, those of the
    order as `order.gpus`; Conflict for a name that is taken."""
    project_require(actor=actor, project=project, permission=MAY)
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # of two at once one is the last
    if JobTemplate.objects.filter(project=project).count() >= TEMPLATES_MOST:
        raise Conflict(
            f"the project has {TEMPLATES_MOST} templates of jobs, which is the most: delete one first"
        )
    row = JobTemplate(project=project, name=name, description=description, order=order, locked=locked)
    row.created_by, row.created_at = requester_of(actor), clock.now()
    _save(actor, row, judged=SHOWN)
    after = {"name": row.name, "order": list(row.order), "locked": row.locked}
    audit_record(actor=actor, action="job_template.create", target=row, project=project, after=after)
    return row


@transaction.atomic
def template_change(
    *, actor: Actor, template: JobTemplate, expected_version: int | None = None, **changes: Any
) -> JobTemplate:
    """changes: any of name, description, order and locked. Jobs that were submitted by it stay as they are. The audit log has the
    names of what changed, and no values, which would stay there for good. Raises as `template_create`; NotFound for one that has
    been deleted meanwhile, StaleVersion for one that is not as it was read."""
    project_require(actor=actor, project=template.project, permission=MAY)
    rows = JobTemplate.objects.select_for_update(of=("self",)).select_related("project", "created_by")
    row = first_of(rows.filter(pk=template.pk), "template")
    version_require(row.version, expected_version, "template")
    before = _shown(row)
    for name, value in changes.items():
        setattr(row, name, value)
    _save(actor, row, judged=changes)
    if changed := _changed(before, _shown(row)):
        row.version += 1
        row.save(update_fields=["version"])
        after = {"changed": changed}
        audit_record(actor=actor, action="job_template.change", target=row, project=row.project, after=after)
    return row


@transaction.atomic
def template_delete(*, actor: Actor, template: JobTemplate) -> None:
    """Jobs that were submitted by it stay, and keep its name. Repeating it changes nothing."""
    project = template.project
    project_require(actor=actor, project=project, permission=MAY)
    if JobTemplate.objects.filter(pk=template.pk).delete()[0]:
        audit_record(actor=actor, action="job_template.delete", target=template, project=project)


def _shown(row: JobTemplate) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SHOWN}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of fields; those of the order as `order.gpus`."""
    old, new = before["order"], after["order"]
    fields = [f"order.{name}" for name in FIELDS if old.get(name) != new.get(name)]
    return [name for name in SHOWN if name != "order" and before[name] != after[name]] + fields


def _save(actor: Actor, row: JobTemplate, judged: Any) -> None:
    """judged: the names of what is new. An order that is kept is not judged anew: it may have become impossible meanwhile."""
    wrong = Mistakes()
    with wrong:
        name_validate(row.name)
    with wrong:
        _description(row.description)
    if "order" in judged:
        with wrong:
            row.order = _order(actor, row.project, row.order)
    with wrong:
        row.locked = _locked(row.locked, row.order)
    wrong.refuse()
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        words = f"the project has a template {row.name} already: choose another name"
        raise Conflict(words, fields={"name": [words]}) from error


def _description(text: Any) -> None:
    if type(text) is not str or not text.isprintable() or odd(text) or len(text) > DESCRIPTION_MOST:
        raise Invalid.field(
            "description", f"a description is one line of at most {DESCRIPTION_MOST} characters"
        )


def _order(actor: Actor, project: Project, order: Any) -> dict[str, Any]:
    if not isinstance(order, Mapping):
        raise Invalid.field("order", "these must be values by the names of fields")
    wrong, rest = Mistakes(), dict(order)
    for name in rest.keys() - set(FIELDS):
        del rest[name]
        with wrong:
            raise Invalid.field(str(name), UNKNOWN)
    names = DataCredential.objects.filter(project=project).values_list("name", flat=True)
    order_read({"image": "any", **rest}, wrong, set(names))
    with wrong:
        if "name" in rest:
            name_validate(rest["name"])
    with wrong:
        if "workspace" in rest:
            workspace_in(actor, project, rest["workspace"])
    with wrong:
        _gpu(rest.get("gpu", ""))
    if wrong.found:
        fields = {f"order.{name}": texts for name, texts in wrong.fields.items()}
        raise Invalid("; ".join(each.message for each in wrong.found), fields=fields)
    found = order_plain(rest)
    if len(json.dumps(found)) > ORDER_MOST:
        raise Invalid.field("order", f"the values may have {ORDER_MOST:,} characters together")
    return found


def _gpu(slug: Any) -> None:
    if type(slug) is not str or odd(slug):
        raise Invalid.field("gpu", "enter the slug of a GPU type")
    if slug and not GpuType.objects.filter(slug=slug).exists():
        raise Invalid.field("gpu", f"there is no GPU type {slug[:64]}")


def _locked(names: Any, order: Any) -> list[str]:
    if not isinstance(names, list | tuple) or not all(name in FIELDS for name in names):
        raise Invalid.field("locked", "these must be names of fields of a job")
    for name in NEEDED:
        if name in names and isinstance(order, Mapping) and name not in order:
            raise Invalid.field("locked", f"a template that locks {name} has to have a value for it")
    return [name for name in FIELDS if name in names]

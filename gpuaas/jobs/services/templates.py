"""Templates of jobs: saved, changed and deleted by members of the project; and orders that are made of one."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid, Mistakes
from gpuaas.core.plain_yaml import odd
from gpuaas.jobs.document import FIELDS, NEEDED
from gpuaas.jobs.models import JobTemplate
from gpuaas.jobs.order import order_read
from gpuaas.jobs.services.places import workspace_in
from gpuaas.jobs.transfers import UNKNOWN
from gpuaas.workspaces.services.request import requester_of
from gpuaas.workspaces.services.validation import name_validate
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require

TEMPLATES_MOST: Final = 50  # of a project
ORDER_MOST: Final = 64 * 1024  # characters of its order as JSON
SHOWN: Final = ("name", "description", "order", "locked")


class Locked(Invalid):
    """An order of a template names what that fixes."""

    code = "locked"
    status = 422


def order_from(template: JobTemplate, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is ordered by `given` of this template. Raises Locked at each field that may not be given."""
    words = f"the template {template.name} locks this field: leave it out"
    wrong = {name: [words] for name in template.locked if name in given}
    if wrong:
        raise Locked(f"{words} ({', '.join(wrong)})", fields=wrong)
    return {**template.order, **given}


@transaction.atomic
def template_create(
    *,
    actor: Actor,
    project: Project,
    name: str,
    order: Mapping[str, Any],
    description: str = "",
    locked: Any = (),
) -> JobTemplate:
    """order: fields of a job with the values that a job begins with. locked: names of fields that whoever makes a job of it may not
    change. Raises Invalid with all mistakes at their fields, those of the order as `order.gpus`; Conflict for a name that is taken."""
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_ACCESS)
    if JobTemplate.objects.filter(project=project).count() >= TEMPLATES_MOST:
        raise Conflict(
            f"the project has {TEMPLATES_MOST} templates of jobs, which is the most: delete one first"
        )
    row = JobTemplate(project=project, name=name, description=description, order=order, locked=locked)
    row.created_by, row.created_at = requester_of(actor), clock.now()
    _save(actor, row)
    audit_record(actor=actor, action="job_template.create", target=row, project=project, after=_shown(row))
    return row


@transaction.atomic
def template_change(*, actor: Actor, template: JobTemplate, **changes: Any) -> JobTemplate:
    """changes: any of name, description, order and locked. Jobs that were made of it stay as they are. Raises as `template_create`."""
    project = template.project
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_ACCESS)
    row = JobTemplate.objects.select_for_update(of=("self",)).select_related("project").get(pk=template.pk)
    before = _shown(row)
    for name in SHOWN:
        setattr(row, name, changes.get(name, before[name]))
    _save(actor, row)
    after = _shown(row)
    if after != before:
        audit_record(
            actor=actor, action="job_template.change", target=row, project=project, before=before, after=after
        )
    return row


@transaction.atomic
def template_delete(*, actor: Actor, template: JobTemplate) -> None:
    """Jobs that were made of it stay, and keep its name. Repeating it changes nothing."""
    project = template.project
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_ACCESS)
    if JobTemplate.objects.filter(pk=template.pk).delete()[0]:
        audit_record(actor=actor, action="job_template.delete", target=template, project=project)


def _shown(row: JobTemplate) -> dict[str, Any]:
    return {name: getattr(row, name) for name in SHOWN}


def _save(actor: Actor, row: JobTemplate) -> None:
    _judge(actor, row)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        words = f"the project has a template {row.name} already: choose another name"
        raise Conflict(words, fields={"name": [words]}) from error


def _judge(actor: Actor, row: JobTemplate) -> None:
    wrong, about = Mistakes(), row.description
    with wrong:
        name_validate(row.name)
    with wrong:
        if type(about) is not str or not about.isprintable() or odd(about) or len(about) > 300:
            raise Invalid.field("description", "this must be one line of at most 300 characters")
    with wrong:
        row.order = _order(actor, row.project, row.order)
    with wrong:
        row.locked = _locked(row.locked, row.order if isinstance(row.order, Mapping) else {})
    wrong.refuse()


def _order(actor: Actor, project: Project, order: Any) -> dict[str, Any]:
    if not isinstance(order, Mapping):
        raise Invalid.field("order", "these must be values by the names of fields")
    wrong, rest = Mistakes(), {"image": "any", **order}
    for name in [name for name in rest if name not in FIELDS]:
        del rest[name]
        with wrong:
            raise Invalid.field(str(name), UNKNOWN)
    order_read(rest, wrong)
    with wrong:
        if "name" in rest:
            name_validate(rest["name"])
    with wrong:
        if "workspace" in rest:
            workspace_in(actor, project, rest["workspace"])
    with wrong:
        gpu = rest.get("gpu", "")
        if type(gpu) is not str or odd(gpu) or len(gpu) > 64:
            raise Invalid.field("gpu", "enter the slug of a GPU type")
    if not wrong.found and len(json.dumps({name: str(each) for name, each in rest.items()})) > ORDER_MOST:
        raise Invalid.field("order", f"it may have at most {ORDER_MOST:,} characters")
    if wrong.found:
        fields = {f"order.{name}": texts for name, texts in wrong.fields.items()}
        raise Invalid("; ".join(each.message for each in wrong.found), fields=fields)
    return {name: str(order[name]) if name == "workspace" else order[name] for name in FIELDS if name in order}


def _locked(names: Any, order: Mapping[str, Any]) -> list[str]:
    if not isinstance(names, list | tuple) or not all(name in FIELDS for name in names):
        raise Invalid.field("locked", "these must be names of fields of a job")
    for name in NEEDED:
        if name in names and name not in order:
            raise Invalid.field("locked", f"a locked {name} needs a value in the template")
    return [name for name in FIELDS if name in names]

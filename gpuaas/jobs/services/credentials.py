"""Data credentials of a project: added and deleted by its members, and read by movers of files alone."""

import re
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.errors import Conflict, Invalid, Mistakes
from gpuaas.jobs.models import DataCredential
from gpuaas.staging.transfers import server_check
from gpuaas.workspaces.services.request import requester_of
from gpuaas.workspaces.services.validation import name_validate
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require

CREDENTIALS_MOST = 50  # of a project
_PLAIN = re.compile(r"[!-~]+")
_REGION = re.compile(r"[a-z0-9-]*")


@transaction.atomic
def credential_create(
    *,
    actor: Actor,
    project: Project,
    name: str,
    access_key_id: str,
    secret: str,
    endpoint: str = "",
    region: str = "",
) -> DataCredential:
    """secret: the secret access key, which nobody is shown again. endpoint: the URL of the S3 server, "" for Amazon's. Raises Invalid
    with all mistakes at their fields, Conflict for a name that is taken."""
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_ACCESS)
    _judge(name, access_key_id, secret, endpoint, region)
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # of two at once one is the last
    if DataCredential.objects.filter(project=project).count() >= CREDENTIALS_MOST:
        raise Conflict(
            f"the project has {CREDENTIALS_MOST} data credentials, which is the most: delete one first"
        )
    shown: dict[str, Any] = {
        "name": name,
        "access_key_id": access_key_id,
        "endpoint": endpoint.rstrip("/"),
        "region": region,
    }
    row = DataCredential(project=project, secret=encrypt_json({"secret": secret}), **shown)
    row.created_by, row.created_at = requester_of(actor), clock.now()
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        words = f"the project has a data credential {name} already: delete that first, or choose another name"
        raise Conflict(words, fields={"name": [words]}) from error
    audit_record(actor=actor, action="data_credential.create", target=row, project=project, after=shown)
    return row


@transaction.atomic
def credential_delete(*, actor: Actor, credential: DataCredential) -> None:
    """What is moved with it just now continues; jobs that still wait for their files fail, and can be retried once there is one of its
    name again. Repeating it changes nothing."""
    project = credential.project
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_ACCESS)
    if DataCredential.objects.filter(pk=credential.pk).delete()[0]:
        audit_record(actor=actor, action="data_credential.delete", target=credential, project=project)


def _judge(name: Any, access_key_id: Any, secret: Any, endpoint: Any, region: Any) -> None:
    wrong = Mistakes()
    with wrong:
        name_validate(name)
    for field, text, most in (("access_key_id", access_key_id, 128), ("secret", secret, 256)):
        with wrong:
            if type(text) is not str or not _PLAIN.fullmatch(text) or len(text) > most:
                raise Invalid.field(field, f"this has 1 to {most} visible characters, and no spaces")
    with wrong:
        _endpoint(endpoint)
    with wrong:
        if type(region) is not str or not _REGION.fullmatch(region) or len(region) > 64:
            raise Invalid.field(
                "region", "a region has lower-case letters, digits and hyphens, such as eu-central-1"
            )
    wrong.refuse()


def _endpoint(text: Any) -> None:
    if type(text) is not str or len(text) > 255:
        raise Invalid.field("endpoint", "this must be a text of at most 255 characters")
    try:
        if text:
            server_check(text)
    except Invalid as error:
        raise Invalid.field("endpoint", error.message) from error

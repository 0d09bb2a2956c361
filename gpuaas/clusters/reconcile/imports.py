"""Asking a site for the parameters of a cluster template."""

import uuid

from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import ParametersImport
from gpuaas.clusters.services.imports import parameters_import_announce, parameters_read
from gpuaas.core import clock
from gpuaas.core.claims import claimed, release, retry_at
from gpuaas.core.errors import GpuaasError, NotFound, Unauthorized, Unavailable

ATTEMPTS = 5  # within about half a minute; then somebody has to look
LATER = "The portal asks again automatically."
AWAY = "Check on the site's page whether it is reachable, then ask again."
REFUSED = "Check on the site's page whether its credentials are valid, then ask again."
MISSING = "Create it at the site, or add a version whose settings name an existing one; then ask again."
CHANGE = "Change it at the site, or give it a value in the template's settings; then ask again."


def parameters_import(template_id: uuid.UUID) -> bool:
    """Asks the site if an answer is due; False if none is, or if it failed."""
    return claimed(ParametersImport, template_id, _ask, failed=_failed, only_due=True)


def _ask(row: ParametersImport) -> bool:
    parameters = parameters_read(template=row.template, settings=row.base.document.get("settings", {}))
    with transaction.atomic():
        written = release(
            row,
            due_at=None,
            attempts=0,
            parameters=parameters,
            failure="",
            read_at=clock.now(),
            version=F("version") + 1,
        )
        if written:
            parameters_import_announce(row)
    return written


def _failed(row: ParametersImport, error: GpuaasError) -> None:
    attempts = row.attempts + 1
    again = isinstance(error, Unavailable) and attempts < ATTEMPTS
    due_at = retry_at(row, error) if again else None
    words = f"{error.message.rstrip('.')[:400]}. {LATER if again else _remedy(error)}"
    if release(row, due_at=due_at, attempts=attempts, failure=words, version=F("version") + 1):
        parameters_import_announce(row)


def _remedy(error: GpuaasError) -> str:
    match error:
        case Unavailable():
            return AWAY
        case Unauthorized():
            return REFUSED
        case NotFound():
            return MISSING
    return CHANGE

"""Asking a site what may be chosen when a cluster of a template is ordered."""

import uuid
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import ParametersImport
from gpuaas.clusters.services.imports import parameters_import_announce, parameters_read
from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.core.outside import outside_transaction

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
ATTEMPTS = 5  # within about half a minute; then somebody has to look
LATER = "It is asked again by itself."
AWAY = "See on the site's page whether it is reachable, then ask again."
REFUSED = "See on the site's page whether its credentials are right, then ask again."
MISSING = "Make it at the site, or add a version whose settings name what is there; then ask again."
CHANGE = "Change it at the site, or let the template's settings fill it; then ask again."


def parameters_import(template_id: uuid.UUID) -> bool:
    """Ask where an answer is due; False where none is, or it failed."""
    outside_transaction()
    row = leases.claim_wanted(ParametersImport, template_id, now=clock.now(), seconds=LEASE_SECONDS)
    if row is None:
        return False
    try:
        found = parameters_read(template=row.template, settings=row.base.document.get("settings", {}))
    except GpuaasError as error:
        return _failed(row, error)
    except Exception as error:
        log.exception("parameters_import_failed", template=row.template.slug)
        words = f"the portal met an unexpected error ({type(error).__name__}); operators find it in the log"
        return _failed(row, Permanent(words))
    with transaction.atomic():
        kept = leases.release(
            row,
            due_at=None,
            attempts=0,
            parameters=found,
            failure="",
            read_at=clock.now(),
            version=F("version") + 1,
        )
        if kept:
            parameters_import_announce(row)
    return kept


@transaction.atomic
def _failed(row: ParametersImport, error: GpuaasError) -> bool:
    attempts = row.attempts + 1
    again = isinstance(error, Unavailable) and attempts < ATTEMPTS
    due_at = clock.now() + timedelta(seconds=delay(attempts)) if again else None
    words = f"{error.message.rstrip('.')[:400]}. {LATER if again else _remedy(error)}"
    if leases.release(row, due_at=due_at, attempts=attempts, failure=words, version=F("version") + 1):
        parameters_import_announce(row)
    return False


def _remedy(error: GpuaasError) -> str:
    match error:
        case Unavailable():
            return AWAY
        case Unauthorized():
            return REFUSED
        case NotFound():
            return MISSING
    return CHANGE

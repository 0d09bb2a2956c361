"""The vendor's own check on a node, asked for by an operator: it waits for a free GPU, runs, and is cleared away.

A row is open until nothing of it is left at the site, so whoever is killed in between is succeeded by the next look.
"""

import uuid
from datetime import timedelta

import structlog
from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Node, NodeCheck, Site
from gpuaas.catalog.services.rounds import in_our_words
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import NodeCheckState
from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.providers.base import NodeCheckCapability, NodeCheckOutcome
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

log = structlog.get_logger(__name__)

LEASE_SECONDS = 60
LOOK_SECONDS, WAIT_SECONDS = 2, 10  # between looks at one that runs, and at one that waits for a GPU
LONGEST = timedelta(hours=1)
LONGEST_OUTPUT, LONGEST_DETAIL = 16 * 1024, 500


@transaction.atomic
def node_check_request(*, actor: Actor, site: Site, node: str) -> NodeCheck:
    """Raises Invalid for a node without GPUs, Conflict while another check of that node is under way."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if not site.enabled:
        raise Conflict("a disabled site is not looked at: enable it first")
    if "\x00" in node or not Node.objects.filter(site=site, name=node[:253], pool__isnull=False).exists():
        raise Invalid.field("node", f"{site.slug} has no node with GPUs of this name")
    now = clock.now()
    row = NodeCheck(site=site, node=node, requested_by=actor.name, requested_at=now, due_at=now)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"a check of {node} is under way already") from error
    audit_record(actor=actor, action="node.check", target=site, after={"node": node})
    _told(row)
    poke("catalog.node_check", str(row.pk))
    return row


def node_check_look(check_id: uuid.UUID) -> bool:
    """One step of it, with no transaction open; True once it is over and nothing of it is left at the site."""
    row = leases.claim(NodeCheck, check_id, now=clock.now(), seconds=LEASE_SECONDS)
    if row is None:
        return False
    if row.finished_at is not None:
        leases.release(row, due_at=None)
        return True
    try:
        driver = driver_of(row.site)
        if not isinstance(driver, NodeCheckCapability):
            return _failed(row, "this site's driver cannot check nodes")
        if row.state in (NodeCheckState.PASSED, NodeCheckState.FAILED):
            driver.node_check_end(row.pk)
            return _finished(row)
        driver.node_check_start(row.node, row.pk)
        return _outcome_write(row, _result(driver, row))
    except Unavailable as error:
        return _again(row, error)
    except Exception as error:  # noqa: BLE001  whatever it is, it is told where the operator looks
        return _failed(row, in_our_words(error, what="check", site=row.site).message)


def _result(driver: NodeCheckCapability, row: NodeCheck) -> NodeCheckOutcome:
    """One that made way for a tenant's pod since it was started is begun again by the next look."""
    try:
        return driver.node_check_result(row.pk)
    except NotFound:
        return NodeCheckOutcome(done=False, running=False, detail="it made way for a tenant and begins again")


def _outcome_write(row: NodeCheck, outcome: NodeCheckOutcome) -> bool:
    if outcome.done:
        state = NodeCheckState.PASSED if outcome.succeeded else NodeCheckState.FAILED
        return _written(row, state, outcome.detail, output=outcome.output[:LONGEST_OUTPUT])
    if clock.now() - row.requested_at > LONGEST:
        return _written(row, NodeCheckState.FAILED, f"given up after an hour: {outcome.detail}")
    state = NodeCheckState.RUNNING if outcome.running else NodeCheckState.WAITING
    return _written(row, state, outcome.detail, wait=LOOK_SECONDS if outcome.running else WAIT_SECONDS)


def _failed(row: NodeCheck, detail: str) -> bool:
    """What may be at the site is cleared away by the next look; a site that refuses even that has it to itself."""
    if row.state in (NodeCheckState.PASSED, NodeCheckState.FAILED):
        log.warning("node_check_left_behind", site=row.site.slug, node=row.node, detail=detail)
        return _finished(row)
    return _written(row, NodeCheckState.FAILED, detail)


@transaction.atomic
def _written(row: NodeCheck, state: NodeCheckState, detail: str, *, wait: int = 0, output: str = "") -> bool:
    detail = detail.replace("\x00", "")[:LONGEST_DETAIL]
    due_at = clock.now() + timedelta(seconds=wait)
    changes = {"state": state, "detail": detail, "output": output.replace("\x00", "")}
    kept = leases.release(row, due_at=due_at, attempts=0, **changes)
    if kept and (row.state, row.detail) != (state, detail):
        _told(row)
    if kept and not wait:
        poke("catalog.node_check", str(row.pk))
    return False


@transaction.atomic
def _finished(row: NodeCheck) -> bool:
    kept = leases.release(row, due_at=None, attempts=0, finished_at=clock.now())
    if kept:
        _told(row)
    return kept


def _again(row: NodeCheck, error: GpuaasError) -> bool:
    attempts = row.attempts + 1
    due_at = clock.now() + timedelta(seconds=delay(attempts))
    leases.release(row, due_at=due_at, attempts=attempts, detail=error.message[:LONGEST_DETAIL])
    return False


def _told(row: NodeCheck) -> None:
    publish(kind="site", id=row.site_id, groups=(OPERATORS_GROUP,))

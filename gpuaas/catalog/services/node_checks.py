"""The vendor's own check on a node, requested by an operator: it waits for a free GPU, runs, and is cleaned up.

A row stays open until nothing of it is left at the site, so if a worker is killed, the next round continues.
"""

import uuid
from datetime import timedelta

import structlog
from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Node, NodeCheck, Site
from gpuaas.catalog.site import driver_of
from gpuaas.catalog.states import NodeCheckState
from gpuaas.core import clock
from gpuaas.core.claims import claimed, release, rest, retry
from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound, Unavailable
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.core.queue import poke
from gpuaas.providers.base import NodeCheckCapability, NodeCheckOutcome
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

log = structlog.get_logger(__name__)

LOOK_SECONDS, WAIT_SECONDS = 2, 10  # between looks at one that runs, and at one that waits for a GPU
LONGEST = timedelta(hours=1)
LONGEST_OUTPUT, LONGEST_DETAIL = 16 * 1024, 500


@transaction.atomic
def node_check_request(*, actor: Actor, site: Site, node: str) -> NodeCheck:
    """Raises Invalid for a node without GPUs, Conflict while another check of that node is running."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if not site.enabled:
        raise Conflict("a disabled site is not checked: enable it first")
    if "\x00" in node or not Node.objects.filter(site=site, name=node[:253], pool__isnull=False).exists():
        raise Invalid.field("node", f"{site.slug} has no node with GPUs of this name")
    now = clock.now()
    row = NodeCheck(site=site, node=node, requested_by=actor.name, requested_at=now, due_at=now)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"a check of {node} is already running") from error
    audit_record(actor=actor, action="node.check", target=site, after={"node": node})
    _told(row)
    poke("catalog.node_check", str(row.pk))
    return row


def node_check_look(check_id: uuid.UUID) -> bool:
    """One step of it, with no transaction open; True once it has ended and nothing of it is left at the site."""
    return claimed(NodeCheck, check_id, _look, failed=_look_failed)


def _look(row: NodeCheck) -> bool:
    if row.finished_at is not None:
        rest(row)
        return True
    driver = driver_of(row.site)
    if not isinstance(driver, NodeCheckCapability):
        return _failed(row, "this site's driver cannot check nodes")
    if row.state in (NodeCheckState.PASSED, NodeCheckState.FAILED):
        driver.node_check_end(row.pk)
        return _finished(row)
    driver.node_check_start(row.node, row.pk)
    return _outcome_write(row, _result(driver, row))


def _look_failed(row: NodeCheck, error: GpuaasError) -> None:
    if isinstance(error, Unavailable):
        retry(row, error, detail=error.message[:LONGEST_DETAIL])
    else:
        _failed(row, error.message)


def _result(driver: NodeCheckCapability, row: NodeCheck) -> NodeCheckOutcome:
    """If it made room for a tenant's pod after its start, the next round starts it again."""
    try:
        return driver.node_check_result(row.pk)
    except NotFound:
        return NodeCheckOutcome(
            done=False, running=False, detail="it was stopped to make room for a tenant and starts again"
        )


def _outcome_write(row: NodeCheck, outcome: NodeCheckOutcome) -> bool:
    if outcome.done:
        state = NodeCheckState.PASSED if outcome.succeeded else NodeCheckState.FAILED
        return _written(row, state, outcome.detail, output=outcome.output[:LONGEST_OUTPUT])
    if clock.now() - row.requested_at > LONGEST:
        return _written(row, NodeCheckState.FAILED, f"stopped after an hour: {outcome.detail}")
    state = NodeCheckState.RUNNING if outcome.running else NodeCheckState.WAITING
    return _written(row, state, outcome.detail, wait=LOOK_SECONDS if outcome.running else WAIT_SECONDS)


def _failed(row: NodeCheck, detail: str) -> bool:
    """The next round cleans up what may be at the site; if the site refuses even that, it stays there."""
    if row.state in (NodeCheckState.PASSED, NodeCheckState.FAILED):
        log.warning("node_check_left_behind", site=row.site.slug, node=row.node, detail=detail)
        return _finished(row)
    return _written(row, NodeCheckState.FAILED, detail)


@transaction.atomic
def _written(row: NodeCheck, state: NodeCheckState, detail: str, *, wait: int = 0, output: str = "") -> bool:
    detail = detail.replace("\x00", "")[:LONGEST_DETAIL]
    due_at = clock.now() + timedelta(seconds=wait)
    changes = {"state": state, "detail": detail, "output": output.replace("\x00", "")}
    written = release(row, due_at=due_at, attempts=0, **changes)
    if written and (row.state, row.detail) != (state, detail):
        _told(row)
    if written and not wait:
        poke("catalog.node_check", str(row.pk))
    return False


@transaction.atomic
def _finished(row: NodeCheck) -> bool:
    written = release(row, due_at=None, attempts=0, finished_at=clock.now())
    if written:
        _told(row)
    return written


def _told(row: NodeCheck) -> None:
    publish(kind="site", id=row.site_id, groups=(OPERATORS_GROUP,))

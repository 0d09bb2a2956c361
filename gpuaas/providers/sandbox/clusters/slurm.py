"""Slurm of a simulated cluster: jobs start in the order of their submission while the workers of their pool have free GPUs, and what
their scripts do is make-believe (commands.py; movers.py of those that move files)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import ClusterSpec, SlurmOrder, SlurmSeen
from gpuaas.providers.sandbox.clusters.objects import things
from gpuaas.providers.sandbox.clusters.plan import MACHINE
from gpuaas.providers.sandbox.commands import EXIT, SLEEP
from gpuaas.providers.sandbox.models import SandboxSite, SandboxSlurmJob
from gpuaas.providers.sandbox.movers import moves_in, moves_log, moves_result, moves_seconds

Job = SandboxSlurmJob


def jobs(site: SandboxSite, spec: ClusterSpec, orders: Sequence[SlurmOrder]) -> tuple[SlurmSeen, ...]:
    now = clock.now()
    machines = [row for row in things(site, spec.id, MACHINE) if row.gone_at is None and row.ready_at <= now]
    if all(row.facts["pool"] for row in machines):
        raise NotFound("the head of the cluster does not answer")
    for order in orders:
        if order.submit:
            facts = {"pool": order.partition, "gpus": order.gpus_per_node * order.nodes, "submitted_at": now}
            Job.objects.get_or_create(
                site=site,
                job=order.id,
                defaults={"tag": spec.id, "script": order.script, "minutes": order.minutes, **facts},
            )
    cancelled = Job.objects.filter(
        site=site, job__in=[order.id for order in orders if order.cancel], ended_at=None
    )
    cancelled.update(ended_at=now, outcome="CANCELLED")
    rows = list(Job.objects.filter(site=site, tag=spec.id).order_by("pk"))
    for pool in spec.pools:
        has = sum(row.facts["pool"] == pool.name for row in machines) * pool.flavor.gpus
        _go([row for row in rows if row.pool == pool.name], has, now)
    wanted = {order.id for order in orders}
    known = [_seen(row, now) for row in rows if row.job in wanted]
    return (*known, *(SlurmSeen(each, "GONE") for each in sorted(wanted - {one.id for one in known})))


def _go(rows: list[Job], has: int, now: datetime) -> None:
    """The ends first: what they free is given at the same moment."""
    for row in rows:
        if row.started_at is not None and row.ended_at is None:
            _end(row, row.started_at, now)
    used = sum(row.gpus for row in rows if row.started_at is not None and row.ended_at is None)
    for row in sorted(rows, key=lambda row: row.gpus > 0):  # those without GPUs wait for nobody
        if row.started_at is None and row.ended_at is None:
            if used + row.gpus > has:
                return
            used, row.started_at = used + row.gpus, now
            row.save(update_fields=["started_at"])


def _end(row: Job, started_at: datetime, now: datetime) -> None:
    sleeps, fails, moves = SLEEP.search(row.script), EXIT.search(row.script), _moves(row)
    seconds, most = int(sleeps[1]) if sleeps else 1, (row.minutes or 10**6) * 60
    code = int(fails[1]) if fails else 0
    if moves:
        seconds, code = moves_seconds(moves), moves_result(moves)[0]
    if (now - started_at).total_seconds() < min(seconds, most):
        return
    row.exit_code = code if seconds <= most else 0
    row.outcome = "TIMEOUT" if seconds > most else "FAILED" if row.exit_code else "COMPLETED"
    row.ended_at = started_at + timedelta(seconds=min(seconds, most))
    row.save(update_fields=["exit_code", "outcome", "ended_at"])


def _moves(row: Job) -> list[str]:
    return moves_in(row.script) if "RCLONE_CONFIG" in row.script else []


def _seen(row: Job, now: datetime) -> SlurmSeen:
    state = row.outcome or ("RUNNING" if row.started_at else "PENDING")
    text = None
    if row.started_at is not None:
        passed = int(((row.ended_at or now) - row.started_at).total_seconds())
        moments = [row.started_at + timedelta(seconds=each) for each in range(1, passed + 1)][-200:]
        moves = _moves(row)
        lines = (
            moves_log(moves, passed, done=row.ended_at is not None)
            if moves
            else [f"{each:%H:%M:%S} at work" for each in moments]
        )
        text = "\n".join(lines) + "\n"
    return SlurmSeen(
        id=row.job,
        state=state,
        slurm_id=row.pk,
        reason="Resources" if state == "PENDING" else "",
        exit_code=row.exit_code,
        started_at=row.started_at,
        ended_at=row.ended_at,
        log=text,
    )

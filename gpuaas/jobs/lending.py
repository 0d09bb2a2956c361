"""A job that borrows its GPUs and is ended for a buyer: the site starts it again by itself, as the same attempt; the portal says so."""

from datetime import timedelta

from gpuaas.core import clock
from gpuaas.jobs.models import Job
from gpuaas.lifecycle.kind import conditions_write
from gpuaas.providers.base import JobPhase, ObservedJob
from gpuaas.workspaces import lending

AGAIN = "it starts again once GPUs are idle"


def preemption_write(row: Job, seen: ObservedJob) -> bool:
    """Of a locked row, before the rest of what was seen; True if there is news. It runs on for its notice, and runs again after that."""
    if seen.preempted and seen.preempted != row.preempted:
        row.preempted, row.preempted_at = seen.preempted[:253], clock.now()
        row.preemptions += 1
        row.save(update_fields=["preempted", "preempted_at", "preemptions"])
        return conditions_write(row, lending.preempted(row.preempted_at, AGAIN))
    if row.preempted_at is None or not is_out(row) or seen.phase is not JobPhase.RUNNING:
        return False
    if clock.now() <= row.preempted_at + timedelta(seconds=row.workspace.notice_seconds):
        return False
    return conditions_write(row, lending.runs_again(row.preempted_at, row.preemptions))


def is_out(row: Job) -> bool:
    """Whether it has been pushed out and has not been seen running again."""
    return bool(row.conditions.get(lending.KEPT, {}).get("reason") == "Preempted")


def waiting_words(row: Job, words: str) -> str:
    """Why it waits, with what came before."""
    if row.preempted_at is None or not is_out(row):
        return words
    return f"{lending.preempted_words(row.preempted_at)}; {AGAIN}: {words}"

"""What a job has written, as far as the portal keeps it: the end of it, and of several tasks the ends of some."""

from collections.abc import Iterable, Mapping

from django.db import transaction

from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError
from gpuaas.core.ranges import ranges_read
from gpuaas.core.texts import storable
from gpuaas.jobs.models import Job, JobLog, TaskLog
from gpuaas.providers.base import Jobs, JobSpec

LINES = 1000
MOST = 64 * 1024  # bytes
TASK_MOST = 16 * 1024  # of one of several
TASKS_KEPT = 20
AT_ONCE = 4  # tasks whose logs are taken in one look


def logs_take(
    row: Job, driver: Jobs, spec: JobSpec, seen: Mapping[str, str], *, last: bool = False
) -> dict[int, str]:
    """By task; those of which the site has nothing, or does not say, are left out. seen: running, failed and succeeded, as ranges.
    last: what is left of it is removed next."""
    if row.tasks == 1:
        return _asked(driver, spec, [0], MOST)
    kept = set(TaskLog.objects.filter(job=row).values_list("task", flat=True))
    failed, running, succeeded = (
        ranges_read(seen.get(each, "")) for each in ("failed", "running", "succeeded")
    )
    # of an array one that has failed since the last look has written all by now; otherwise another attempt writes anew
    known = kept & ranges_read(row.observed.get("failed", ""))
    # one that has succeeded since has written more than was taken then; it is the first, since the site may remove it next
    ended = kept & (succeeded if last else succeeded & ranges_read(row.observed.get("running", "")))
    due = [*sorted(ended), *sorted(failed if row.together else failed - known)]
    due += sorted(kept & running) or sorted(running)[: not kept]
    due = due or sorted(succeeded)[: not kept]
    room = [task for task in due if task in kept] if len(kept) >= TASKS_KEPT else due
    most = TASKS_KEPT if last else AT_ONCE
    wanted = [*([row.followed] if row.followed is not None else []), *room[:most]]
    return _asked(driver, spec, dict.fromkeys(wanted), TASK_MOST)


def _asked(driver: Jobs, spec: JobSpec, tasks: Iterable[int], most: int) -> dict[int, str]:
    found = {}
    for task in tasks:
        try:
            text = driver.log(spec, lines=LINES, task=task)
        except GpuaasError:
            continue
        found[task] = storable(text).encode()[-most:].decode(errors="ignore")
    return found


@transaction.atomic
def logs_write(row: Job, found: Mapping[int, str]) -> bool:
    """What was taken before stays where there is nothing now, and that of the followed task in any case. Whether that is news."""
    news = [_write(row, task, text) for task, text in found.items() if text]
    if row.tasks > 1 and any(news):
        followed = [row.followed] if row.followed is not None else []
        others = TaskLog.objects.filter(job=row).exclude(task__in=followed).order_by("-taken_at", "-pk")
        kept = others.values_list("pk", flat=True)[: TASKS_KEPT - len(followed)]
        others.exclude(pk__in=list(kept)).delete()
    return any(news)


def _write(row: Job, task: int, text: str) -> bool:
    fresh = {"text": text, "taken_at": clock.now()}
    if row.tasks > 1:
        if TaskLog.objects.filter(job=row, task=task, text=text).exists():
            return False
        TaskLog.objects.update_or_create(job=row, task=task, defaults=fresh)
    else:
        if JobLog.objects.filter(job=row, text=text).exists():
            return False
        JobLog.objects.update_or_create(job=row, defaults=fresh)
    return True


def logs_delete(row: Job) -> None:
    JobLog.objects.filter(job=row).delete()
    TaskLog.objects.filter(job=row).delete()

"""E-mails to people whose jobs have ended, where they asked for one; only if the portal has a mail server."""

from datetime import timedelta

import structlog
from django.conf import settings
from django.core.mail import EmailMessage

from gpuaas.core import clock
from gpuaas.jobs.models import Job
from gpuaas.jobs.states import ENDED, JobState
from tenants.roles import Permission
from tenants.selectors import actor_for

log = structlog.get_logger(__name__)
BATCH = 100
OLD = timedelta(days=3)  # what could not be sent for that long is no news any more


def mails_send() -> int:
    """Sends each once: it is claimed as it was read before it is sent, and released if the server refuses it. Of an address that was
    refused the others wait for the next round, so that they keep nobody else's waiting. Returns how many were sent."""
    if not settings.MAILS_ENABLED:
        return 0
    rows = Job.objects.filter(mail=True, mailed_at=None, state__in=ENDED, finished_at__gt=clock.now() - OLD)
    rows = rows.select_related("project", "workspace", "created_by").order_by("finished_at", "pk")
    sent, refused = 0, set[str]()
    for row in rows.iterator(chunk_size=BATCH):
        if sent + len(refused) >= BATCH:
            break
        if row.created_by.email in refused:
            continue
        as_read = Job.objects.filter(pk=row.pk, mailed_at=None, state=row.state, finished_at=row.finished_at)
        claimed_at = clock.now()
        if not as_read.update(mailed_at=claimed_at):
            continue
        if not _may_read(row):
            continue
        try:
            sent += _message(row).send()
        except OSError as error:
            Job.objects.filter(pk=row.pk, mailed_at=claimed_at).update(mailed_at=None)
            refused.add(row.created_by.email)
            log.warning("job_mail_refused", job=str(row.pk), error=type(error).__name__)
    return sent


def _may_read(row: Job) -> bool:
    """People who have left the project since hear nothing of it any more."""
    person = row.created_by
    if not (person.is_active and person.email):
        return False
    held = actor_for(user=person).on_project(row.project_id, row.project.organization_id)
    return Permission.WORKSPACE_VIEW in held


def _message(row: Job) -> EmailMessage:
    state = str(row.get_state_display()).lower()
    how = f"was {state}" if row.state == JobState.CANCELLED else state
    lines = [f"Your job {row.name} in the workspace {row.workspace.name} of {row.project.name} {how}."]
    if row.failure:
        lines.append(row.failure)
    if row.exit_code is not None:
        lines.append(f"Exit code: {row.exit_code}")
    lines.append(f"{settings.PUBLIC_URL}/p/{row.project.slug}/jobs/{row.pk}/")
    return EmailMessage(
        subject=f"Job {row.name} {how}", body="\n\n".join(lines) + "\n", to=[row.created_by.email]
    )

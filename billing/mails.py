"""Emails about budgets to the people who may set them; only if the portal has a mail server."""

from datetime import timedelta

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import Q

from billing.models import Budget, BudgetAlert
from gpuaas.core import clock
from tenants.models import User
from tenants.roles import ORGANIZATION_PERMISSIONS, PROJECT_PERMISSIONS, Permission

log = structlog.get_logger(__name__)
BATCH = 100
OLD = timedelta(hours=24)  # what could not be sent for that long is no news any more


def alert_mails_send() -> int:
    """Sends each alert once: it is claimed before it is sent, and released if the server refuses. Of addresses that were refused the
    others wait for the next round, so that they keep no other tenant's waiting."""
    if not settings.MAILS_ENABLED:
        return 0
    fresh = BudgetAlert.objects.filter(mailed_at__isnull=True, created_at__gt=clock.now() - OLD)
    rows = fresh.select_related("budget__organization", "budget__project").order_by(
        "created_at", "percent", "pk"
    )
    sent, refused = 0, set[tuple[str, ...]]()
    for alert in rows.iterator(chunk_size=BATCH):
        if sent + len(refused) >= BATCH:
            break
        people = mail_readers(alert.budget)
        if tuple(people) in refused:
            continue
        if not BudgetAlert.objects.filter(pk=alert.pk, mailed_at__isnull=True).update(mailed_at=clock.now()):
            continue
        try:
            sent += _send(alert, people)
        except OSError as error:
            BudgetAlert.objects.filter(pk=alert.pk).update(mailed_at=None)
            refused.add(tuple(people))
            log.warning("budget_mail_refused", alert=str(alert.pk), error=type(error).__name__)
    return sent


def mail_readers(budget: Budget) -> list[str]:
    """Addresses of the people who may set budgets there, each once."""
    above = [role for role, held in ORGANIZATION_PERMISSIONS.items() if Permission.BILLING_MANAGE in held]
    below = [role for role, held in PROJECT_PERMISSIONS.items() if Permission.BILLING_MANAGE in held]
    who = Q(
        organization_memberships__organization=budget.organization_id,
        organization_memberships__role__in=above,
    )
    if budget.project_id is not None:
        who |= Q(project_memberships__project=budget.project_id, project_memberships__role__in=below)
    rows = User.objects.filter(who, is_active=True).exclude(email="")
    return list(rows.order_by("email").values_list("email", flat=True).distinct())


def _send(alert: BudgetAlert, people: list[str]) -> int:
    if not people:
        return 0
    budget = alert.budget
    place = f"p/{budget.project.slug}" if budget.project else f"o/{budget.organization.slug}"
    body = f"{alert.message}\n\n{settings.PUBLIC_URL}/{place}/budgets/\n"
    subject = f"{budget.name}: {'an unusual day' if alert.percent == 0 else f'{alert.percent}% reached'}"
    # nobody sees who else reads it
    return EmailMessage(subject=subject, body=body, bcc=people).send()

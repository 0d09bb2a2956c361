"""Background tasks by name; rules are in services."""

import uuid

from celery import shared_task

from billing.mails import alert_mails_send
from billing.months import month_parse
from billing.policies import policy_allowance
from billing.services import budget_alerts, closing, keeping, payments, pdfs
from gpuaas.catalog.lanes import SiteTask
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.core import clock
from gpuaas.core.queue import poke


@shared_task(name="billing.closes_due")
def closes_due() -> int:
    """Requested closes that are not done, for example after a worker died."""
    months = [f"{row.month:%Y-%m}" for row in closing.closes_due()]
    for month in months:
        poke("billing.month_close", month)
    return len(months)


@shared_task(name="billing.month_close")
def month_close(month: str) -> int:
    """Returns how many invoices the month has."""
    return closing.month_close_run(month=month_parse(month)).invoices


@shared_task(name="billing.grants_expire")
def grants_expire() -> int:
    return payments.grants_expire()


@shared_task(name="billing.pdfs_due")
def pdfs_due() -> int:
    made = pdfs.pdfs_make()
    if made == pdfs.BATCH:
        poke("billing.pdfs_due")
    return made


@shared_task(name="billing.usage_keep")
def usage_keep() -> int:
    """Returns how many months of projects were added up; starts the next batch at once if there are more."""
    done = keeping.usage_keep(now=clock.now())
    if done == keeping.BATCH:
        poke("billing.usage_keep")
    return done


@shared_task(name="billing.kept_check")
def kept_check() -> int:
    """Returns how many months of projects differed from their intervals; they are added up again."""
    return len(keeping.kept_check())


@shared_task(name="billing.budgets_evaluate")
def budgets_evaluate() -> int:
    """Every few minutes: evaluates all budgets in one pass, then applies them."""
    changed = budget_alerts.budgets_evaluate(now=clock.now())
    budget_alerts.budgets_enforce()
    alert_mails_send()
    return changed


@shared_task(name="billing.budgets_enforce")
def budgets_enforce(budget_id: str) -> None:
    """Started when a budget is set: applies it at once."""
    del budget_id
    budget_alerts.budgets_enforce()
    alert_mails_send()


@shared_task(name="billing.scaling_policy", base=SiteTask, site_by="clusters__pools__policy")
def scaling_policy(policy_id: str) -> None:
    """A round of one policy of a cluster, with what may be spent on it."""
    policy_run(uuid.UUID(policy_id), purse=policy_allowance)

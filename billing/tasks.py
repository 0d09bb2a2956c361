"""Background work by name; rules live in services."""

from celery import shared_task

from billing.months import month_parse
from billing.services import closing, payments, pdfs
from gpuaas.core.queue import poke


@shared_task(name="billing.closes_due")
def closes_due() -> int:
    """What was requested and not done, as after a worker's death."""
    months = [f"{row.month:%Y-%m}" for row in closing.closes_due()]
    for month in months:
        poke("billing.month_close", month)
    return len(months)


@shared_task(name="billing.month_close")
def month_close(month: str) -> int:
    """How many invoices the month has."""
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

"""Rounds of the mechanisms themselves."""

from celery import shared_task

from gpuaas.core import pulse


@shared_task(name="core.processes_forget")
def processes_forget() -> None:
    pulse.processes_forget()

"""Rounds of the room."""

from celery import shared_task

from gpuaas.api import idempotency


@shared_task(name="api.keys_forget")
def keys_forget() -> None:
    idempotency.keys_forget()

"""Rounds of the room."""

from celery import shared_task

from tenants import services


@shared_task(name="tenants.tries_forget")
def tries_forget() -> None:
    services.tries_forget()

"""Background work by name; rules live in services."""

from celery import shared_task

from gpuaas.metering import services


@shared_task(name="metering.held_sync")
def held_sync() -> None:
    services.held_sync()

"""The Celery application. Tasks live in each room's `tasks.py` and are called by name (core/queue.py)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.production")

app = Celery("gpuaas")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

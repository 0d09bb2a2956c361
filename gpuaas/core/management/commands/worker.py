"""`manage.py worker`: run background tasks until SIGTERM."""

import sys
import warnings
from typing import Any

from celery.bin.celery import celery
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Run background tasks until SIGTERM, which lets those under way end; several processes may run."
    requires_system_checks = []  # see web.py

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--queues", help="names separated by commas; all tasks by default")
        parser.add_argument("--concurrency", type=int, default=2, metavar="N", help="tasks at once")

    def handle(self, *_args: Any, queues: str | None, concurrency: int, **_options: Any) -> None:
        warnings.simplefilter("ignore")  # Celery's, of a user that is root in the demo
        words = f"--app gpuaas --quiet worker --loglevel WARNING --concurrency {concurrency} --without-gossip --without-mingle"
        chosen = ["--queues", queues] if queues else []
        # the application's own `start` would not return the code: whoever manages the process is to know that it failed
        sys.exit(celery.main([*words.split(), *chosen], standalone_mode=False))

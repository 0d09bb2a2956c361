"""`manage.py scheduler`: send the periodic tasks until SIGTERM."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand, CommandParser

from gpuaas.core import env


class Command(BaseCommand):
    help = "Send the periodic tasks until SIGTERM. Run one; a second would only send each task twice."
    requires_system_checks = []  # see web.py

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--schedule",
            #: Processes, logs and metrics: where the scheduler remembers when each task was last sent; else a temporary file
            default=env.text("GPUAAS_BEAT_SCHEDULE", str(Path(tempfile.gettempdir()) / "gpuaas-beat")),
            metavar="FILE",
            help="remembers when each task was last sent; default $GPUAAS_BEAT_SCHEDULE, else a temporary file",
        )

    def handle(self, *_args: Any, schedule: str, **_options: Any) -> None:
        warnings.simplefilter("ignore")  # see worker.py
        current_app.start(["--quiet", "beat", "--loglevel", "WARNING", "--schedule", schedule])

"""`manage.py meter`: count usage at all enabled sites until SIGTERM; a second process is a spare."""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.core import scrape
from gpuaas.core.models import ProcessKind
from gpuaas.core.pulse import begin
from gpuaas.metering.meter import Meters


class Command(BaseCommand):
    help = "Meter the usage of all enabled sites, one thread per site; run two processes for redundancy."

    def handle(self, *_args: Any, **_options: Any) -> None:
        stop = threading.Event()

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        begin(ProcessKind.METER)
        scrape.serve()
        Meters(stop=stop).run()

"""`manage.py meter`: count usage at all enabled sites until SIGTERM; a second one is a spare."""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.metering.meter import Meters


class Command(BaseCommand):
    help = "Meter the usage of all enabled sites, one thread per site; run two for a spare."

    def handle(self, *_args: Any, **_options: Any) -> None:
        stop = threading.Event()

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            stop.set()

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
        Meters(stop=stop).run()

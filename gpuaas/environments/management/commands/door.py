"""`manage.py door`: the way in to environments by the browser until SIGTERM."""

import asyncio
import gc
import resource
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand

from gpuaas.core import scrape
from gpuaas.core.models import ProcessKind
from gpuaas.core.pulse import begin
from gpuaas.environments.door.loop import Loop
from gpuaas.environments.door.process import Door, place_made, program

# for which a look at all who are in may hold up a request, each time that it needs the interpreter
SWITCH_SECONDS = 0.0002


class Command(BaseCommand):
    help = "Serve the addresses of environments until SIGTERM; several processes may run."
    requires_system_checks = []  # see web.py

    def handle(self, *_args: Any, **_options: Any) -> None:
        program()
        _files_allow()
        with place_made() as place:
            begin(ProcessKind.DOOR)
            scrape.serve()
            gc.freeze()  # else all modules are looked through now and then, and nobody is answered for a tenth of a second
            sys.setswitchinterval(SWITCH_SECONDS)
            with asyncio.Runner(loop_factory=Loop) as runner:
                runner.run(_until_told(Door(place)))


def _files_allow() -> None:
    """As many as may be: each connection has two here, and two at Envoy, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:  # systemd's units do not let a process ask for it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _until_told(door: Door) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await door.run(stop)
